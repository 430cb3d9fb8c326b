package report

import (
	"fmt"
	"slices"
	"strings"
)

// isLoad names the axes whose value is an amount of load. A plan has one of
// them at most.
func isLoad(column string) bool { return column == "concurrency" || column == "request_rate" }

// load is a cell's amount of load; 0 where the plan does not vary it.
func load(c Cell) float64 {
	for _, s := range c.Settings {
		if v, ok := s.Value.(float64); ok && isLoad(s.Column) {
			return v
		}
	}
	return 0
}

// loadText is a cell's amount of load in words; "" where the plan does not vary
// it.
func loadText(c Cell) string {
	for _, s := range c.Settings {
		if isLoad(s.Column) {
			return setting(s)
		}
	}
	return ""
}

// amounts are several amounts of load in words: "concurrency 1, 4, 16".
func amounts(points []*Point) string {
	var values []string
	name := ""
	for _, p := range points {
		for _, s := range p.Cell.Settings {
			if isLoad(s.Column) {
				name = s.Column
				values = append(values, fmt.Sprint(s.Value))
			}
		}
	}
	if name == "" {
		return ""
	}
	return name + " " + strings.Join(values, ", ")
}

// A series is the points of one server and one kind of request: they differ in
// the amount of load alone, and are in its order.
type series struct {
	name   string
	points []*Point
}

// allSeries sorts points into series.
func allSeries(points []*Point) []*series {
	byName := map[string]*series{}
	var all []*series
	for _, p := range points {
		name := label(p.Cell, func(s Setting) bool { return !isLoad(s.Column) })
		l := byName[name]
		if l == nil {
			l = &series{name: name}
			byName[name], all = l, append(all, l)
		}
		l.points = append(l.points, p)
	}
	for _, l := range all {
		slices.SortStableFunc(l.points, func(a, b *Point) int { return compareLoads(a.Cell, b.Cell) })
	}
	return all
}

func compareLoads(a, b Cell) int {
	switch x, y := load(a), load(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// label is some of a cell's settings, in the words of its label.
func label(c Cell, want func(Setting) bool) string {
	var parts []string
	for _, s := range c.Settings {
		if want(s) {
			parts = append(parts, setting(s))
		}
	}
	return strings.Join(parts, " ")
}

// begun says whether any cell of the series has an outcome.
func (l *series) begun() bool {
	return slices.ContainsFunc(l.points, func(p *Point) bool { return p.Verdict != Pending })
}

// at are the points whose load is one of some.
func (l *series) at(loads []float64) []*Point {
	var points []*Point
	for _, p := range l.points {
		if slices.Contains(loads, load(p.Cell)) {
			points = append(points, p)
		}
	}
	return points
}

// blocks says whether a point could change which one is best: it is a hole, or
// it may be chosen and lacks the figure.
func blocks(p *Point, m measure, may func(*Point) bool) bool {
	if p.open.kind != "" {
		return true
	}
	_, ok := p.figure(m)
	return may(p) && !ok
}

// peak is the point with the best figure among those of a series that may be
// chosen, of equal ones that of the least load. It is not decided if the point
// next above it is a hole, or if there are holes and no such point; then the
// holes are told. Without either, no point may be chosen.
func peak(points []*Point, m measure, may func(*Point) bool) (best *Point, holes []*Point) {
	at := -1
	for i, p := range points {
		v, ok := p.figure(m)
		if !ok || !may(p) {
			if blocks(p, m, may) {
				holes = append(holes, p)
			}
			continue
		}
		if at < 0 {
			at = i
			continue
		}
		if most, _ := points[at].figure(m); m.better(v, most) {
			at = i
		}
	}
	switch {
	case at < 0:
		return nil, holes
	case at+1 < len(points) && blocks(points[at+1], m, may):
		return nil, points[at+1 : at+2]
	}
	return points[at], nil
}

// sweetSpot is the acceptable point of the least load that gives kneeShare of
// the most that acceptable points give. Holes below it, next above it and next
// above the most, of acceptable points or of all that pass, leave it not decided.
func (l *series) sweetSpot(m measure) (spot *Point, holes []*Point) {
	acceptable := func(p *Point) bool { return p.Verdict == Acceptable && p.passes() }
	blocked := map[int]bool{}
	most, last := 0.0, -1
	for i, p := range l.points {
		if v, ok := p.figure(m); ok && acceptable(p) && v > most {
			most, last = v, i
		}
	}
	if last < 0 {
		_, holes = peak(l.points, m, acceptable)
		return nil, holes
	}
	first := slices.IndexFunc(l.points, func(p *Point) bool {
		v, ok := p.figure(m)
		return ok && acceptable(p) && v >= kneeShare*most
	})
	for i := range first {
		blocked[i] = true
	}
	blocked[first+1], blocked[last+1] = true, true
	for i, p := range l.points {
		if blocked[i] && blocks(p, m, acceptable) {
			holes = append(holes, p)
		}
	}
	// A point that is not acceptable and passes may give more: what leaves the
	// most of these open, leaves open whether there is more beyond.
	_, beyond := peak(l.points, m, (*Point).passes)
	for _, p := range beyond {
		if !slices.Contains(holes, p) {
			holes = append(holes, p)
		}
	}
	if len(holes) > 0 {
		return nil, holes
	}
	return l.points[first], nil
}

// rate is what the series is measured by: tokens, or requests where nobody
// counted tokens.
func (l *series) rate() measure {
	for _, p := range l.points {
		if v, ok := p.figure(tokenRate); ok && v > 0 && p.passes() {
			return tokenRate
		}
	}
	return requestRate
}

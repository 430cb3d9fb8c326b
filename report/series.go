package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/result/col"
)

// value is a cell's value of an axis; nil where it has none.
func (c Cell) value(column string) any {
	for _, s := range c.Settings {
		if s.Column == column {
			return s.Value
		}
	}
	return nil
}

// load is a cell's amount of load; 0 where the plan does not vary it.
func load(c Cell) float64 {
	for _, s := range c.Settings {
		if v, ok := s.Value.(float64); ok && s.Amount {
			return v
		}
	}
	return 0
}

// loadText is a cell's amount of load in words; "" where the plan does not vary
// it.
func loadText(c Cell) string { return label(c, func(s Setting) bool { return s.Amount }) }

// amounts are several amounts of load in words: "concurrency 1, 4, 16".
func amounts(points []*Point) string {
	var values []string
	name := ""
	for _, p := range points {
		for _, s := range p.Cell.Settings {
			if s.Amount {
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

// A series is points that share what its name says. Those of one server and one
// kind of request differ in the amount of load alone, and are in its order.
type series struct {
	name   string
	points []*Point
}

// group sorts points into series by their names, in the order of their first
// points.
func group(points []*Point, name func(*Point) string) []*series {
	byName := map[string]*series{}
	var all []*series
	for _, p := range points {
		n := name(p)
		l := byName[n]
		if l == nil {
			l = &series{name: n}
			byName[n], all = l, append(all, l)
		}
		l.points = append(l.points, p)
	}
	return all
}

// byLoad is group, with the points of each series in the order of their load.
func byLoad(points []*Point, name func(*Point) string) []*series {
	all := group(points, name)
	for _, l := range all {
		slices.SortStableFunc(l.points, compareLoads)
	}
	return all
}

func compareLoads(a, b *Point) int { return cmp.Compare(load(a.Cell), load(b.Cell)) }

// label is some of a cell's settings, in the words of its label.
func label(c Cell, want func(Setting) bool) string {
	var parts []string
	for _, s := range c.Settings {
		if want(s) {
			parts = append(parts, s.Text)
		}
	}
	return strings.Join(parts, " ")
}

// priced says whether any row of the series has a price.
func (l *series) priced() bool {
	for _, p := range l.points {
		for _, t := range p.Trials {
			if t.Outcome != nil && number(t.Outcome.Row, col.USDPerHour) > 0 {
				return true
			}
		}
	}
	return false
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
// next above it is a hole, or if there are holes and no such point; then it
// returns the holes. Without either, no point may be chosen.
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
		if most, _ := points[at].figure(m); m.compare(v, most) < 0 {
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
	most, last := 0.0, -1
	for i, p := range l.points {
		if v, ok := p.figure(m); ok && acceptable(p) && (last < 0 || v > most) {
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
	for i, p := range l.points {
		matters := i < first || i == first+1 || i == last+1
		if matters && blocks(p, m, acceptable) {
			holes = append(holes, p)
		}
	}
	// An unstable point that passes may give more than any acceptable one. A hole
	// next above it may be an acceptable point that gives still more.
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

// rate is the measure of the series: tokens, or requests if tokens were not
// counted.
func (l *series) rate() measure {
	for _, p := range l.points {
		if v, ok := p.figure(tokenRate); ok && v > 0 && p.passes() {
			return tokenRate
		}
	}
	return requestRate
}

package conclude

import (
	"cmp"
	"slices"

	"sweep.dev/sweep/result/col"
)

// A Series is points that share what its name says. Those of one server and one
// kind of request differ in the amount of load alone, and are in its order.
type Series struct {
	Name   string
	Points []*Point
}

// Group sorts points into series by their names, in the order of their first
// points.
func Group(points []*Point, name func(*Point) string) []*Series {
	byName := map[string]*Series{}
	var all []*Series
	for _, p := range points {
		n := name(p)
		l := byName[n]
		if l == nil {
			l = &Series{Name: n}
			byName[n], all = l, append(all, l)
		}
		l.Points = append(l.Points, p)
	}
	return all
}

// byLoad is group, with the points of each series in the order of their load.
func byLoad(points []*Point, name func(*Point) string) []*Series {
	all := Group(points, name)
	for _, l := range all {
		slices.SortStableFunc(l.Points, compareLoads)
	}
	return all
}

func compareLoads(a, b *Point) int { return cmp.Compare(Load(a.Cell), Load(b.Cell)) }

// priced reports whether any row of the series has a price.
func (l *Series) priced() bool {
	for _, p := range l.Points {
		for _, t := range p.Trials {
			if t.Outcome != nil && t.Outcome.Row.Float(col.USDPerHour) > 0 {
				return true
			}
		}
	}
	return false
}

// begun reports whether any cell of the series has an outcome.
func (l *Series) begun() bool {
	return slices.ContainsFunc(l.Points, func(p *Point) bool { return p.Verdict != Pending })
}

// at returns the points whose load is one of some.
func (l *Series) at(loads []float64) []*Point {
	var points []*Point
	for _, p := range l.Points {
		if slices.Contains(loads, Load(p.Cell)) {
			points = append(points, p)
		}
	}
	return points
}

// blocks reports whether a point could change which one is best: it is a hole, or
// it may be chosen and lacks the figure.
func blocks(p *Point, m Measure, may func(*Point) bool) bool {
	if p.open.kind != "" {
		return true
	}
	_, ok := p.Figure(m)
	return may(p) && !ok
}

// peak returns the point with the best figure among those of a series that may be
// chosen, of equal ones that of the least load. It is not decided if the point
// next above it is a hole, or if there are holes and no such point; then it
// returns the holes. Without either, no point may be chosen.
func peak(points []*Point, m Measure, may func(*Point) bool) (best *Point, holes []*Point) {
	at := -1
	for i, p := range points {
		v, ok := p.Figure(m)
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
		if most, _ := points[at].Figure(m); m.compare(v, most) < 0 {
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

// known returns the point with the best figure among those that have one and miss no objective;
// nil if none has.
func known(points []*Point, m Measure) (best *Point) {
	for _, p := range points {
		v, ok := p.Figure(m)
		if !ok || p.Verdict == Missed {
			continue
		}
		if best != nil {
			if most, _ := best.Figure(m); m.compare(v, most) >= 0 {
				continue
			}
		}
		best = p
	}
	return best
}

// sweetSpot chooses among the acceptable points. Holes below the spot, next above it and
// next above any that may be the most, of acceptable points or of all that pass, leave it
// not decided.
func (l *Series) sweetSpot(m Measure) choice {
	acceptable := func(p *Point) bool { return p.Verdict == Acceptable && p.passes() }
	c := choose(l.Points, m, acceptable)
	if c.most == nil {
		_, c.holes = peak(l.Points, m, acceptable)
		return c
	}
	lowest := cmp.Or(c.spot, c.tied[0])
	first := slices.Index(l.Points, lowest)
	for i, p := range l.Points {
		matters := i < first || i > 0 && (l.Points[i-1] == lowest || slices.Contains(c.tied, l.Points[i-1]))
		if matters && blocks(p, m, acceptable) {
			c.holes = append(c.holes, p)
		}
	}
	// An unstable point that passes may give more than any acceptable one. A hole
	// next above it may be an acceptable point that gives still more.
	_, beyond := peak(l.Points, m, (*Point).passes)
	for _, p := range beyond {
		if !slices.Contains(c.holes, p) {
			c.holes = append(c.holes, p)
		}
	}
	return c
}

// rate returns the measure of the series: tokens, or requests if tokens were not
// counted.
func (l *Series) rate() Measure {
	for _, p := range l.Points {
		if v, ok := p.Figure(TokenRate); ok && v > 0 && p.passes() {
			return TokenRate
		}
	}
	return RequestRate
}

package conclude

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/ratio"
)

// level is the chance that a conclusion about which of equal sides is better, or which
// load gives enough, is wrong.
const level = 0.05

// Estimates returns what the trials that count say of a measure, in their order; nil if
// one of them has a value that is not above 0, which has no ratio.
func (p *Point) Estimates(m Measure) []ratio.Trial {
	var all []ratio.Trial
	launches := map[string]bool{}
	for _, t := range p.Counting() {
		row := t.Outcome.Row
		v, ok := m.of(row)
		if !ok {
			continue
		}
		if v <= 0 {
			return nil
		}
		e := ratio.Trial{Number: t.Key.Trial, Launch: launch(row), Value: v}
		if m.Lasting && launches[e.Launch] { // once, however many trials it had
			continue
		}
		if launches[e.Launch] = true; !m.Lasting {
			e.Low, e.High = m.within(row, v)
		}
		all = append(all, e)
	}
	return all
}

// launch identifies one launch of a deployment. Rows without the number of their launch
// are taken to be of one launch.
func launch(row result.Row) string {
	if row[col.Launch] == nil {
		return ""
	}
	return fmt.Sprint(row[col.RunID], " ", row[col.Launch])
}

// within returns the 95 % interval of a value within its trial; 0 for an end that is not
// known.
func (m Measure) within(row result.Row, v float64) (low, high float64) {
	column := cmp.Or(m.from, m.Column)
	center := row.Float(column)
	low, high = row.Float(column+col.LowSuffix), row.Float(column+col.HighSuffix)
	if center <= 0 {
		return 0, 0
	}
	low, high = min(low/center, 1), high/center
	if high > 0 {
		high = max(high, 1)
	}
	if !m.inverse {
		return v * low, v * high
	}
	low, high = high, low
	if low > 0 {
		low = v / low
	}
	if high > 0 {
		high = v / high
	}
	return low, high
}

// ratio returns how many times worse than another point one is, with an interval.
func (m Measure) ratio(p, best *Point, tail float64) ratio.Ratio {
	r := ratio.Of(p.Estimates(m), best.Estimates(m), tail)
	if m.MoreIsBest() {
		return r.Over()
	}
	return r
}

// rank puts places in order, the best first, and says how much worse than it the
// others are, as far as that can be told. The level is shared over all pairs, since the
// first place is not known before. It returns whether any place is certainly worse than
// the first, and if none is, how many trials of each would tell; 0 if unknown, or if a
// place says it.
func rank(places []Place, m Measure) (apart bool, trials int) {
	slices.SortStableFunc(places, func(a, b Place) int { return m.compare(a.Value, b.Value) })
	n, lacks := len(places), false
	tail := level / float64(n*(n-1))
	for i := 1; i < n; i++ {
		p := &places[i]
		p.Interval = m.ratio(p.Point, places[0].Point, tail)
		if p.Interval.More(1) {
			p.Ratio, apart = p.Interval.Value, true
		} else {
			p.More = ratio.More(p.Point.Estimates(m), places[0].Point.Estimates(m), tail)
			lacks = lacks || p.More > 0
		}
	}
	switch {
	case apart:
		places[0].Ratio = 1
	case n > 1 && !lacks:
		trials = ratio.Trials(places[0].Point.Estimates(m), places[n-1].Point.Estimates(m), tail)
	}
	return apart, trials
}

// A choice is what a series says of its loads.
type choice struct {
	spot   *Point   // nil if it is not decided
	most   *Point   // of the highest mean; nil without any that may be chosen
	tied   []*Point // those not distinguishable from the best, most among them, by load
	holes  []*Point // what keeps it from being decided
	trials int      // of each that would decide it, if nothing else does; 0 if unknown

	interval ratio.Ratio // of spot to most
}

// choose finds the load from which on, up to the most, every load that may be chosen
// gives certainly kneeShare of what any gives: the bounds of the ratios hold with the
// confidence 1 - level, and to go down from the most and to stop at the first that
// fails keeps that for all (fixed sequence: Maurer, Hothorn and Lehmacher, 1995). Those
// not distinguishable from the best are a subset that has the best one with at least
// that confidence (Gupta, Technometrics 7, 1965).
func choose(points []*Point, m Measure, may func(*Point) bool) choice {
	var c choice
	var some []*Point
	var cells [][]ratio.Trial
	at := 0
	for _, p := range points {
		v, ok := p.Figure(m)
		if !ok || !may(p) {
			continue
		}
		if len(some) > 0 {
			if most, _ := some[at].Figure(m); m.compare(v, most) < 0 {
				at = len(some)
			}
		}
		some, cells = append(some, p), append(cells, p.Estimates(m))
	}
	if len(some) == 0 {
		return c
	}
	c.most = some[at]
	if len(some) == 1 {
		c.spot, c.tied = c.most, some
		return c
	}
	if slices.ContainsFunc(cells, func(e []ratio.Trial) bool { return len(e) == 0 }) {
		c.tied = some // nothing is known of how well a value is known
		return c
	}
	s := ratio.NewSeries(cells)
	each := level / float64(len(some)-1)
	for i, p := range some {
		if !slices.ContainsFunc(some, func(o *Point) bool { j := slices.Index(some, o); return j != i && s.Of(i, j, each).Less(1) }) {
			c.tied = append(c.tied, p)
		}
	}
	nearest := math.Inf(1)
	for j := range some {
		if j != at {
			nearest = min(nearest, s.Of(at, j, level).Value)
		}
	}
	c.trials = s.Trials(math.Log(nearest/kneeShare), level)
	for i := at; i >= 0; i-- {
		enough := true
		for j := range some {
			enough = enough && (j == i || s.Of(i, j, level).More(kneeShare))
		}
		if !enough {
			break
		}
		c.spot = some[i]
		if c.interval = (ratio.Ratio{Value: 1, Low: 1, High: 1}); i != at {
			c.interval = s.Of(i, at, level)
		}
	}
	return c
}

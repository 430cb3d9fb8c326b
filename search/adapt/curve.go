package adapt

import (
	"math"
	"slices"
)

// widths is how many standard errors of the scatter of trials explain an error.
const widths = 2

// tiny is the rounding of a logarithm.
const tiny = 1e-9

// A curve is what the outcomes say of the levels. Loads and values are logarithms.
type curve struct {
	Settings
	x        []float64 // of the levels
	y        []float64 // means over the trials that have a value
	variance []float64 // of those means
	ended    []int     // trials that have ended, whatever they are
	first    []int     // the least number of a trial that has not
	skipped  []bool
	known    []int // levels with a value
	measured []bool
	told     bool // trials themselves tell their scatter
	free     int  // degrees of freedom of the scatter between trials
}

func newCurve(s Settings, outcomes []Outcome) *curve {
	n := len(s.Levels)
	c := &curve{
		Settings: s, x: make([]float64, n), y: make([]float64, n), variance: make([]float64, n),
		ended: make([]int, n), first: make([]int, n), skipped: make([]bool, n), measured: make([]bool, n),
	}
	for i, load := range s.Levels {
		c.x[i], c.first[i] = math.Log(load), 1
	}
	values, own := make([][]float64, n), make([]float64, n)
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b Outcome) int { // sums do not depend on the order of the run
		if a.Level != b.Level {
			return a.Level - b.Level
		}
		return a.Trial - b.Trial
	})
	largest := 0.0 // that of a value that does not tell its own
	for _, o := range outcomes {
		largest = max(largest, o.SD)
	}
	c.told = largest > 0
	for _, o := range outcomes {
		c.ended[o.Level]++
		c.skipped[o.Level] = c.skipped[o.Level] || o.Skipped
		if o.Trial == c.first[o.Level] {
			c.first[o.Level]++
		}
		if o.Value > 0 && !math.IsInf(o.Value, 0) {
			values[o.Level] = append(values[o.Level], math.Log(o.Value))
			sd := o.SD
			if sd <= 0 {
				sd = largest
			}
			own[o.Level] += sd * sd
		}
	}
	c.estimate(values, own)
	return c
}

// estimate sets means and their variances: the scatter between the trials of all levels
// together, or if it is more, that within a level's own trials.
func (c *curve) estimate(values [][]float64, own []float64) {
	squares := 0.0
	for i, list := range values {
		if len(list) == 0 {
			continue
		}
		c.known, c.measured[i] = append(c.known, i), true
		for _, v := range list {
			c.y[i] += v / float64(len(list))
		}
		for _, v := range list {
			squares += (v - c.y[i]) * (v - c.y[i])
		}
		c.free += len(list) - 1
	}
	for _, i := range c.known {
		n := float64(len(values[i]))
		c.variance[i] = max(squares/float64(max(1, c.free)), own[i]/n) / n
	}
}

// scattered says whether it is known how far trials scatter: by themselves, or by as many as
// the ends and the middle have with two each.
func (c *curve) scattered() bool { return c.told || c.free >= 3 || len(c.known) < 3 }

// tolerance is the greatest error of a level that is not measured.
func (c *curve) tolerance() float64 { return math.Log1p(c.Within) + tiny }

// open says whether a level may still get a value.
func (c *curve) open(i int) bool {
	return !c.skipped[i] && c.first[i] <= c.Trials && !c.measured[i]
}

// probe is the next trial of a level.
func (c *curve) probe(i int, why string, off float64) Probe {
	if c.first[i] > 1 {
		why = Repeat
	}
	return Probe{Level: i, Trial: c.first[i], Why: why, Error: off}
}

// outermost is the first open level with no measured one below it, or else the last with
// none above it.
func (c *curve) outermost() (level int, ok bool) {
	low, high := len(c.x), -1
	if n := len(c.known); n > 0 {
		low, high = c.known[0], c.known[n-1]
	}
	for i := range low {
		if c.open(i) {
			return i, true
		}
	}
	for i := len(c.x) - 1; i > high; i-- {
		if c.open(i) {
			return i, true
		}
	}
	return 0, false
}

// again is the next further trial of the levels that are measured: the second of all
// before the third of any.
func (c *curve) again() (next Probe, ok bool) {
	for i := range c.x {
		if c.ended[i] == 0 || c.skipped[i] || c.first[i] > c.Trials {
			continue
		}
		if !ok || c.first[i] < next.Trial {
			next, ok = c.probe(i, Repeat, -1), true
		}
	}
	return next, ok
}

// judge says of the kth interval of measured levels which level within it to measure, why,
// and how far that may be from the interpolation; why is "" if none has to be.
func (c *curve) judge(k int) (middle int, why string, off float64) {
	low, high := c.known[k], c.known[k+1]
	center, lines := (c.x[low]+c.x[high])/2, c.lines(k)
	middle = -1
	bent := false
	for i := low + 1; i < high; i++ {
		if !c.open(i) {
			continue
		}
		if middle < 0 || math.Abs(c.x[i]-center) < math.Abs(c.x[middle]-center)-tiny {
			middle = i
		}
		for _, l := range lines {
			d, noise := c.off(i, k, l)
			if d <= noise {
				continue
			}
			off = max(off, d)
			bent = bent || d > c.tolerance()
		}
	}
	switch {
	case middle < 0:
		return 0, "", 0
	case len(lines) == 0:
		return middle, Grid, math.Inf(1)
	case bent:
		return middle, Bend, off
	case len(lines) < 2:
		return middle, Confirm, off
	}
	return 0, "", 0
}

// A line is through two measured levels.
type line struct{ from, to int }

// lines are the two that check the interpolation of the kth interval: of the next pairs on
// both sides, or at an end of the axis of the two next on one side; fewer if there are not
// so many.
func (c *curve) lines(k int) (lines []line) {
	pair := func(j int) {
		if j >= 0 && j+1 < len(c.known) && len(lines) < 2 {
			lines = append(lines, line{c.known[j], c.known[j+1]})
		}
	}
	pair(k - 1)
	pair(k + 1)
	pair(k - 2)
	pair(k + 2)
	return lines
}

// off is how far a line is from that of the kth interval at a level, and how much of it the
// scatter of the trials explains.
func (c *curve) off(level, k int, l line) (off, noise float64) {
	var weights [4]struct {
		level int
		of    float64
	}
	n := 0
	add := func(level int, of float64) {
		for i := range n {
			if weights[i].level == level {
				weights[i].of += of
				return
			}
		}
		weights[n].level, weights[n].of = level, of
		n++
	}
	through := func(from, to int, sign float64) {
		share := (c.x[level] - c.x[from]) / (c.x[to] - c.x[from])
		add(from, sign*(1-share))
		add(to, sign*share)
	}
	through(l.from, l.to, 1)
	through(c.known[k], c.known[k+1], -1)
	variance := 0.0
	for _, w := range weights[:n] {
		off += w.of * c.y[w.level]
		variance += w.of * w.of * c.variance[w.level]
	}
	return math.Abs(off), widths * math.Sqrt(variance)
}

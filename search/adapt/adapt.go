package adapt

import "math"

// Settings are a curve to measure.
type Settings struct {
	Levels []float64 // loads, from the least up, each above 0
	Within float64   // greatest error of an interpolated level, such as 0.05
	Trials int       // of each level that is measured, at least 1
}

// Why a trial is run.
const (
	Grid    = "grid"    // the ends of the axis, or its middle
	Bend    = "bend"    // its neighbours leave its metric open: the curve may bend there
	Confirm = "confirm" // one measured level alone says that the curve does not bend
	Repeat  = "repeat"  // another trial of a level
)

// An Outcome is a trial that has ended.
type Outcome struct {
	Level   int     // of the list
	Trial   int     // of the level, from 1
	Value   float64 // of the metric; 0 for a trial that decides nothing
	SD      float64 // of the value's logarithm, as the trial itself tells; 0 if unknown
	Skipped bool    // it was not run
}

// A Probe is a trial to run.
type Probe struct {
	Level, Trial int // as in an outcome
	Why          string
	// Error is how far the metric there may be from the interpolation, in its logarithm:
	// infinite if nothing tells, and below 0 for a level that has been measured.
	Error float64
}

// Next is the trial that tells most about the curve, or ok false if it is known. Levels
// that have no outcome then are interpolated.
func Next(s Settings, outcomes []Outcome) (next Probe, ok bool) {
	c := newCurve(s, outcomes)
	if i, ok := c.outermost(); ok {
		return c.probe(i, Grid, math.Inf(1)), true
	}
	width := 0.0
	for k := range len(c.known) - 1 {
		middle, why, off := c.judge(k)
		w := c.x[c.known[k+1]] - c.x[c.known[k]]
		if why != "" && (!ok || off > next.Error+tiny || off > next.Error-tiny && w > width+tiny) {
			next, width, ok = c.probe(middle, why, off), w, true
		}
	}
	if !ok || !c.scattered() { // before it is known what scatter explains
		if p, more := c.again(); more {
			return p, true
		}
	}
	return next, ok
}

// A Place is where a level is on the curve.
type Place struct {
	Low, High int     // the measured levels next to it
	Error     float64 // how far it may be from the line between them, as a share
	// Noise is how much of the error the scatter of the trials explains, as a share; 0 if the
	// error is within the tolerance.
	Noise float64
}

// Between is the place of a level without a value; ok is false if it has no measured
// neighbours.
func Between(s Settings, outcomes []Outcome, level int) (p Place, ok bool) {
	c := newCurve(s, outcomes)
	for k := range len(c.known) - 1 {
		low, high := c.known[k], c.known[k+1]
		if level <= low || level >= high {
			continue
		}
		p = Place{Low: low, High: high}
		for _, l := range c.lines(k) {
			off, noise := c.off(level, k, l)
			p.Error = max(p.Error, math.Expm1(off))
			if off > c.tolerance() {
				p.Noise = max(p.Noise, math.Expm1(noise))
			}
		}
		return p, true
	}
	return Place{}, false
}

// looked is at how many knees Expected looks at most.
const looked = 12

// Expected is how many levels are measured of a curve that rises with the load and
// saturates, as the mean over where it does.
func Expected(s Settings) int {
	n, sum := len(s.Levels), 0
	if n == 0 {
		return 0
	}
	knees := min(looked, n)
	for k := range knees {
		knee := s.Levels[(k+1)*n/knees-1]
		var outcomes []Outcome
		one := s
		one.Trials = 1
		for {
			p, ok := Next(one, outcomes)
			if !ok {
				break
			}
			x := s.Levels[p.Level]
			outcomes = append(outcomes, Outcome{Level: p.Level, Trial: 1, Value: x / (1 + x/knee)})
		}
		sum += len(outcomes)
	}
	return (sum + knees - 1) / knees
}

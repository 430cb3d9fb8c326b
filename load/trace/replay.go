package trace

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load/chance"
)

// A Replay sends request i when row i says, and ends with the last row. It is a
// [sweep.dev/sweep/load/arrivals.Pace].
type Replay struct {
	Rows  []Row   // shared, and never written to
	Speed float64 // plays them so many times as fast; 0 is 1
}

// Check says what in it cannot be.
func (p Replay) Check() error {
	switch s := p.Speed; {
	case len(p.Rows) == 0:
		return errors.New("a trace without requests")
	case len(p.Rows) > MaxRows:
		return fmt.Errorf("a trace of more than %d requests", MaxRows)
	case !(s >= 0) || math.IsInf(s, 0):
		return fmt.Errorf("a trace cannot be played at the speed %g", s)
	}
	last := time.Duration(0)
	for i, r := range p.Rows {
		if r.At < last {
			return fmt.Errorf("row %d of the trace is before the one above it", i+1)
		}
		last = r.At
	}
	if p.Speed > 0 && float64(last)/p.Speed > math.MaxInt64/2 {
		return fmt.Errorf("at the speed %g the trace ends in more than a century", p.Speed)
	}
	return nil
}

// Length returns how long it sends.
func (p Replay) Length() time.Duration {
	if len(p.Rows) == 0 {
		return 0
	}
	return p.at(len(p.Rows)-1) + 1
}

// Count returns how many requests it makes. An end is not looked at: the rows are the
// most that there can be.
func (p Replay) Count(time.Duration) (n float64, exact bool) { return float64(len(p.Rows)), true }

// Due returns the times in order, one a call; false is the end.
func (p Replay) Due(*chance.Rand) func() (time.Duration, bool) {
	i := 0
	return func() (time.Duration, bool) {
		if i == len(p.Rows) {
			return 0, false
		}
		i++
		return p.at(i - 1), true
	}
}

// at returns when row i is due.
func (p Replay) at(i int) time.Duration {
	at := p.Rows[i].At
	if p.Speed == 0 || p.Speed == 1 {
		return at
	}
	return time.Duration(math.Round(float64(at) / p.Speed))
}

// Mean returns the mean lengths of the requests; 0 if the trace has none.
func (p Replay) Mean() (input, output int) {
	n := 0
	for _, r := range p.Rows {
		if r.Input > 0 && r.Output > 0 {
			input, output, n = input+int(r.Input), output+int(r.Output), n+1
		}
	}
	if n == 0 {
		return 0, 0
	}
	return max(1, input/n), max(1, output/n)
}

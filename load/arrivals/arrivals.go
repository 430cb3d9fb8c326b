// Package arrivals makes the send times of open loops: a pure function of a
// seed, the kind of arrivals and the rates.
//
// Arrivals are a renewal process of rate 1 whose time is rescaled. Let S1 <= S2
// <= ... be its points, and L(t) the integral of the rate from 0 to t, the
// number of requests expected by then. Request i is due at
//
//	t(i) = L^-1(S(i))
//
// At a constant rate r that is S(i)/r. In a ramp from a to b over d seconds, s
// of whose expected requests have passed, it is the root of a*t + (b-a)*t^2/2d
// = s, which is
//
//	t = 2s / (a + sqrt(a^2 + 2*s*(b-a)/d))
//
// in the form that loses no digits where a and b are close. With Poisson
// arrivals this is exactly the inhomogeneous Poisson process of that rate; with
// the other kinds the gaps keep their coefficient of variation, counted in
// expected requests.
package arrivals

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load/chance"
)

// Kind is how the requests of an open loop are spread over time.
type Kind string

// The kinds of arrivals. The zero value is Poisson.
const (
	// Constant sends at equal distances, the first at once.
	Constant Kind = "constant"
	// Poisson sends after exponential gaps: independent users.
	Poisson Kind = "poisson"
	// Gamma sends after gamma gaps whose coefficient of variation is
	// 1/sqrt(burstiness), from a moment between two of them on.
	Gamma Kind = "gamma"
)

// A Process is a kind of arrivals.
type Process struct {
	Kind Kind
	// Burstiness is the shape of Gamma arrivals: 1 is Poisson, below 1 is
	// burstier, above 1 is more even. 0 is 1.
	Burstiness float64
}

// Check says what in the process cannot be.
func (p Process) Check() error {
	switch p.Kind {
	case "", Constant, Poisson:
		if p.Burstiness != 0 && p.Burstiness != 1 {
			return fmt.Errorf("burstiness has no meaning for %s arrivals", p.Kind)
		}
	case Gamma:
		if p.Burstiness != 0 && !(p.Burstiness >= 0.01 && p.Burstiness <= 1000) {
			return fmt.Errorf("burstiness %g is not between 0.01 and 1000", p.Burstiness)
		}
	default:
		return fmt.Errorf("arrivals %q are not known: constant, poisson or gamma", p.Kind)
	}
	return nil
}

// points returns the points of the process at rate 1, one a call. None is below
// the one before.
func (p Process) points(r *chance.Rand) func() float64 {
	s := 0.0
	switch p.Kind {
	case Constant:
		s = -1
		return func() float64 { s++; return s }
	case Gamma:
		shape := p.Burstiness
		if shape == 0 {
			shape = 1
		}
		// The first point is that of a process which has gone on for ever: a part of a
		// gap that is drawn by its length, whose shape is one more. Else bursts would
		// bring (1/shape - 1) / 2 requests too many.
		first := true
		return func() float64 {
			if first {
				first = false
				s = r.Uniform() * r.Gamma(shape+1) / shape
				return s
			}
			s += r.Gamma(shape) / shape
			return s
		}
	default:
		return func() float64 { s += r.Exp(); return s }
	}
}

// A Pace says when the requests of an open loop are due. Its times follow from
// the stream of chance that it is given and from nothing else. Each pattern of load
// is a Pace: rates here, a recording in package trace.
type Pace interface {
	// Check says what in it cannot be.
	Check() error
	// Length is how long it sends; 0 if it has no end of its own.
	Length() time.Duration
	// Count is how many requests it makes before end, or all of them if end is 0. It
	// is how many are expected unless it is exact.
	Count(end time.Duration) (n float64, exact bool)
	// Due returns the times in order, one a call; false is the end.
	Due(r *chance.Rand) func() (time.Duration, bool)
}

// Times returns at most n times of a pace, all below end unless that is 0.
func Times(p Pace, r *chance.Rand, n int, end time.Duration) []time.Duration {
	size := n
	switch e, exact := p.Count(end); {
	case exact:
		size = min(n, int(e))
	case e < float64(n)/1.1:
		size = int(e*1.1) + 16
	}
	out := make([]time.Duration, 0, size)
	for due := p.Due(r); len(out) < n; {
		at, ok := due()
		if !ok || end > 0 && at >= end {
			break
		}
		out = append(out, at)
	}
	return out
}

// MaxRate bounds a rate, in requests per second.
const MaxRate = 1e6

// A Stage is a part of a schedule. It holds Rate for the time For, or goes to
// Rate over the time Over in a straight line from the rate before it, which is 0
// at first. One with neither holds its rate without an end.
type Stage struct {
	Rate      float64 // requests per second
	For, Over time.Duration
}

// Rates is the [Pace] of rates one after the other; only the last may have no end.
type Rates struct {
	Process
	Stages []Stage
}

// Steady returns one rate without an end.
func Steady(rate float64, p Process) Rates { return Rates{p, []Stage{{Rate: rate}}} }

// Check implements [Pace].
func (r Rates) Check() error {
	sends := false
	for i, s := range r.Stages {
		open := s.For == 0 && s.Over == 0
		switch {
		case !(s.Rate >= 0 && s.Rate <= MaxRate):
			what := "request rate"
			if len(r.Stages) > 1 || !open {
				what = fmt.Sprintf("stage %d: rate", i+1)
			}
			return fmt.Errorf("%s %g is not between 0 and %g a second", what, s.Rate, float64(MaxRate))
		case s.For < 0 || s.Over < 0:
			return fmt.Errorf("stage %d: a time is negative", i+1)
		case s.For > 0 && s.Over > 0:
			return fmt.Errorf("stage %d both holds its rate and goes to it: that is two stages", i+1)
		case open && i < len(r.Stages)-1:
			return fmt.Errorf("stage %d has no end", i+1)
		}
		sends = sends || s.Rate > 0
	}
	if !sends {
		return errors.New("no stage sends anything")
	}
	return r.Process.Check()
}

// Length implements [Pace].
func (r Rates) Length() time.Duration {
	var sum time.Duration
	for _, s := range r.Stages {
		if s.For == 0 && s.Over == 0 {
			return 0
		}
		sum += s.For + s.Over
	}
	return sum
}

// Count implements [Pace]. It is infinity if neither end nor the stages have one.
func (r Rates) Count(end time.Duration) (n float64, exact bool) {
	limit := math.Inf(1)
	if end > 0 {
		limit = end.Seconds()
	}
	for _, p := range pieces(r.Stages) {
		if left := limit - p.start; left < p.d {
			p.b = p.a + (p.b-p.a)*max(left, 0)/p.d
			p.d = max(left, 0)
		}
		n += p.count()
	}
	return n, false
}

// Due implements [Pace].
func (r Rates) Due(rng *chance.Rand) func() (time.Duration, bool) {
	next := r.points(rng)
	rest := pieces(r.Stages)
	s := next()   // of the point that is due
	before := 0.0 // expected by the beginning of the piece
	return func() (time.Duration, bool) {
		for len(rest) > 0 {
			count := rest[0].count()
			if s-before >= count {
				before += count
				rest = rest[1:]
				continue
			}
			t := rest[0].start + rest[0].at(s-before)
			// No load lasts longer than a Duration holds, and it must not wrap.
			if t > float64(math.MaxInt64/int64(time.Second)) {
				rest = nil
				break
			}
			s = next()
			return time.Duration(math.Round(t * float64(time.Second))), true
		}
		return 0, false
	}
}

// A piece is a stage with the rate that it begins at. Its times are in seconds.
type piece struct{ start, d, a, b float64 }

func pieces(stages []Stage) []piece {
	out := make([]piece, len(stages))
	rate, start := 0.0, 0.0
	for i, s := range stages {
		p := piece{start: start, d: (s.For + s.Over).Seconds(), a: s.Rate, b: s.Rate}
		if s.Over > 0 {
			p.a = rate
		}
		if s.For == 0 && s.Over == 0 {
			p.d = math.Inf(1)
		}
		out[i] = p
		rate, start = s.Rate, start+p.d
	}
	return out
}

// count returns how many requests the piece expects.
func (p piece) count() float64 {
	if p.a+p.b == 0 {
		return 0
	}
	return p.d * (p.a + p.b) / 2
}

// at returns when, from the piece's beginning, s requests are expected.
func (p piece) at(s float64) float64 {
	switch {
	case s <= 0:
		return 0
	case p.a == p.b:
		return s / p.a
	}
	// Rounding may take the root just below 0 at the end of a ramp to 0.
	return min(p.d, 2*s/(p.a+math.Sqrt(max(0, p.a*p.a+2*s*(p.b-p.a)/p.d))))
}

package summary

import (
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A Shift moves figures to one end of where the truth may lie, as far as a client that
// sent late or read late leaves it open. A nil one moves nothing.
type Shift struct {
	// Of returns what is added to the value of a latency of one request: ttft, ttfo, tpot,
	// e2e, or of each of its gaps, itl and icl.
	Of func(r *result.Request, latency string) time.Duration
	// Rank returns what is added to the rank of the percentiles of a latency, as a share of
	// all values: so many of them may have any value. From rank 1 on it is infinite.
	Rank func(latency string) float64
	// Rate is added to each rate, as a share of it, and Good to that of good requests: the longer
	// latencies are, the fewer are good, so that its ends are the other way round.
	Rate, Good float64
}

func (s *Shift) of(r *result.Request, latency string) int64 {
	if s == nil {
		return 0
	}
	return int64(s.Of(r, latency))
}

func (s *Shift) rank(latency string) float64 {
	if s == nil {
		return 0
	}
	return s.Rank(latency)
}

// At returns the rank of a percentile of a latency under the shift, at least 0.
func (s *Shift) At(latency string, p float64) float64 { return max(0, p+s.rank(latency)) }

// Scale returns by what the rate of a column is multiplied.
func (s *Shift) Scale(column string) float64 {
	switch {
	case s == nil:
		return 1
	case column == col.GoodputReqS:
		return 1 + s.Good
	}
	return 1 + s.Rate
}

// move adds the shift of a request's latency to its values, in nanoseconds.
func (s *Shift) move(values []int64, r *result.Request, latency string) {
	if by := s.of(r, latency); by != 0 {
		for i, v := range values {
			values[i] = max(0, v+by)
		}
	}
}

// Move adds the shift of a request's latency to its values, in milliseconds. None gets
// below 0.
func (s *Shift) Move(values []float64, r *result.Request, latency string) {
	if by := s.of(r, latency); by != 0 {
		for i, v := range values {
			values[i] = max(0, v+float64(by)/1e6)
		}
	}
}

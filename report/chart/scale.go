package chart

import (
	"math"
	"strconv"
)

// A scale brings values to coordinates.
type scale struct {
	low, high float64
	log       bool
	from, to  float64
	ticks     []float64
}

// newScale covers values with round ticks, about n of them. A linear one begins at 0,
// unless the axis says otherwise.
func newScale(values []float64, axis Axis, from, to float64, n int) scale {
	log := axis.Log
	s := scale{low: math.Inf(1), high: math.Inf(-1), from: from, to: to, log: log}
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
			continue
		}
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
	if s.low > s.high { // no values
		s.low, s.high = 0, 1
		if log {
			s.low = 1
		}
	}
	if s.log {
		s.logTicks(n)
	} else {
		if !axis.Near {
			s.low = min(0, s.low)
		}
		if most := max(math.Abs(s.low), math.Abs(s.high)); s.high-s.low <= alike*most {
			s.high = s.low + max(1, most/1000)
		}
		s.linearTicks(n)
	}
	return s
}

// alike is how far values are apart, by the largest of them, that a chart cannot tell: steps
// between them would be lost in rounding.
const alike = 1e-9

func (s *scale) linearTicks(n int) {
	step := nice((s.high - s.low) / float64(n))
	s.low, s.high = step*math.Floor(s.low/step+1e-9), step*math.Ceil(s.high/step-1e-9)
	first := math.Round(s.low / step)
	for i := range int(math.Round((s.high-s.low)/step)) + 1 {
		s.ticks = append(s.ticks, (first+float64(i))*step)
	}
}

// nice returns the round number next above v: 1, 2 or 5 with noughts.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*base >= v*(1-1e-9) {
			return m * base
		}
	}
	return 10 * base
}

// logTicks are powers of two where the range is narrow, else of ten.
func (s *scale) logTicks(n int) {
	if s.high <= s.low*(1+alike) {
		s.low, s.high = s.low/2, s.high*2
	}
	base := 2.0
	if math.Log2(s.high/s.low) > 2*float64(n) {
		base = 10
	}
	first, last := math.Floor(math.Log(s.low)/math.Log(base)+1e-9), math.Ceil(math.Log(s.high)/math.Log(base)-1e-9)
	s.low, s.high = math.Pow(base, first), math.Pow(base, last)
	for e := first; e <= last; e++ {
		s.ticks = append(s.ticks, math.Pow(base, e))
	}
}

// at returns the coordinate of a value, which a logarithmic scale has at its end if it is 0.
func (s scale) at(v float64) float64 {
	share := (v - s.low) / (s.high - s.low)
	if s.log {
		if v <= 0 {
			return s.from
		}
		share = math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return s.from + share*(s.to-s.from)
}

// tick returns a tick in words: 0.5, 200, 12k, 3M.
func tick(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case a >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

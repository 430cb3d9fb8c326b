package chart

import (
	"math"
	"testing"
)

// A scale has a few ticks from end to end, and every value has a place on it, however near
// each other values are.
func TestNewScale(t *testing.T) {
	t.Parallel()
	for _, values := range [][]float64{
		nil,
		{0},
		{0, 0},
		{5, 5},
		{-3, -3},
		{1e17, 1e17},
		{1e17, 1e17 + 16},
		{1, math.Nextafter(1, 2)},
		{-1, math.Nextafter(-1, 0)},
		{1e300, math.Nextafter(1e300, 2e300)},
		{1, 1 + 1e-9},
		{0.1, 0.3},
		{-2, 7},
		{1e-300, 2e-300},
		{math.NaN(), 4},
		{math.Inf(1), 4},
	} {
		for _, axis := range []Axis{{}, {Near: true}, {Log: true}} {
			s := newScale(values, axis, 0, 100, 5)
			if len(s.ticks) < 2 || len(s.ticks) > 20 || !(s.low < s.high) {
				t.Errorf("%v, near %v, log %v: %v from %v to %v", values, axis.Near, axis.Log, s.ticks, s.low, s.high)
			}
			for _, v := range values {
				if at := s.at(v); !math.IsInf(v, 0) && !math.IsNaN(v) && (math.IsNaN(at) || at < -1e-6 || at > 100+1e-6) {
					t.Errorf("%v, near %v, log %v: %v is at %v", values, axis.Near, axis.Log, v, at)
				}
			}
		}
	}
}

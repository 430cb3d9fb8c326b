package result

import (
	"math"
	"slices"
)

// Quantile returns the p-quantile (0 to 1) of sorted values, linear between order
// statistics: definition 7 of Hyndman and Fan (1996), numpy's default. It is
// NaN for no values.
func Quantile[T int64 | float64](sorted []T, p float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	h := p * float64(n-1)
	i := int(h)
	if i >= n-1 {
		return float64(sorted[n-1])
	}
	a, b, t := float64(sorted[i]), float64(sorted[i+1]), h-math.Floor(h)
	if t == 0 { // also where b is infinite
		return a
	}
	if t >= 0.5 { // from the nearer end, so that t = 1 gives b exactly
		return b - (b-a)*(1-t)
	}
	return a + (b-a)*t
}

// Median returns the middle of values, which stay as they are. It is NaN for no values.
func Median(values []float64) float64 {
	return Quantile(slices.Sorted(slices.Values(values)), 0.5)
}

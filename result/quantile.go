package result

import (
	"math"
	"slices"
)

// Quantile is the p-quantile (0 to 1) of sorted values, linear between order
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
	if t >= 0.5 { // from the nearer end, so that t = 1 gives b exactly
		return b - (b-a)*(1-t)
	}
	return a + (b-a)*t
}

// minSamples is how many samples the p-quantile needs before the largest of
// them lies above it with a confidence of 95 %, whatever the distribution: the
// smallest n with p^n <= 0.05. Below that, a column p99 is the maximum by
// another name.
func minSamples(p float64) int {
	return int(math.Ceil(math.Log(0.05) / math.Log(p)))
}

// sortRadix sorts values in place, with scratch of at least the same length. A
// comparison sort takes four times as long on the ten million gaps of a long
// trial.
func sortRadix(values, scratch []int64) {
	const bits, buckets = 11, 1 << 11
	if len(values) < 4*buckets {
		slices.Sort(values)
		return
	}
	low, high := slices.Min(values), slices.Max(values)
	from, to := values, scratch[:len(values)]
	// Digits of the distance from the least: negative values need no care, and
	// the digits that all values share are never looked at.
	span := uint64(high) - uint64(low)
	for shift := 0; shift < 64 && span>>shift != 0; shift += bits {
		var next [buckets]int
		for _, v := range from {
			next[(uint64(v)-uint64(low))>>shift&(buckets-1)]++
		}
		sum := 0
		for i, n := range next {
			next[i] = sum
			sum += n
		}
		for _, v := range from {
			d := (uint64(v) - uint64(low)) >> shift & (buckets - 1)
			to[next[d]] = v
			next[d]++
		}
		from, to = to, from
	}
	if &from[0] != &values[0] {
		copy(values, from)
	}
}

package objective

import (
	"math"
	"sort"
)

// Interval returns where a quantile q of what values are drawn from lies, with a confidence
// shared by both sides: -Inf or +Inf where the values are too few to bound it. The
// values are in the order of time; +Inf is a request that failed.
//
// Its ends are values of the sample (order statistics): the lowest that surely has no
// more than 1-q of all above it, and the highest that surely has at least 1-q of all
// from it on. Both shares are bounded as those of an objective are, by Clopper and
// Pearson with the design effect, so that an objective with a limit outside of the
// interval is decided by the same values.
func Interval(values []float64, q, confidence float64) (low, high float64) {
	return newOrdered(values).interval(q, confidence)
}

func (o *ordered) interval(q, confidence float64) (low, high float64) {
	n := len(o.values)
	low, high = math.Inf(-1), math.Inf(1)
	if n == 0 {
		return low, high
	}
	at := o.sorted[min(int(q*float64(n)), n-1)]
	deff, _ := o.effect(func(v float64) bool { return v >= at })
	side := (1 + confidence) / 2
	if i := sort.Search(n, func(i int) bool { return highest(float64(n-1-i)/deff, float64(n)/deff, side) <= 1-q }); i < n {
		high = o.sorted[i]
	}
	if i := sort.Search(n, func(i int) bool { return lowest(float64(n-i)/deff, float64(n)/deff, side) < 1-q }); i > 0 {
		low = o.sorted[i-1]
	}
	return low, high
}

package objective

import (
	"math"

	"github.com/aclements/go-moremath/mathx"
	"github.com/aclements/go-moremath/stats"
)

// shareBounds are the exact bounds of Clopper and Pearson (Biometrika 26, 1934) on
// a share of which over of n are seen, each of which holds with the confidence. Both
// counts may be fractions: those of correlated values are divided by their design
// effect.
func shareBounds(over, n, confidence float64) (low, high float64) {
	if over > 0 {
		low = betaQuantile(1-confidence, over, n-over+1)
	}
	high = 1
	if over < n {
		high = betaQuantile(confidence, over+1, n-over)
	}
	return low, high
}

// betaQuantile is the p-quantile of the beta distribution.
func betaQuantile(p, a, b float64) float64 {
	return invert(func(x float64) float64 { return mathx.BetaInc(x, a, b) }, p, 0, 1)
}

// student is the p-quantile of Student's t distribution, p at least 0.5.
func student(p, df float64) float64 {
	cdf := stats.TDist{V: df}.CDF
	high := 1.0
	for cdf(high) < p {
		high *= 2
	}
	return invert(cdf, p, 0, high)
}

// normal is the p-quantile of the standard normal distribution.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// invert is where a rising function has a value, by bisection.
func invert(f func(float64) float64, value, low, high float64) float64 {
	for range 60 {
		mid := (low + high) / 2
		if f(mid) < value {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

package objective

import "sweep.dev/sweep/internal/quantile"

// shareBounds returns the exact bounds of Clopper and Pearson (Biometrika 26, 1934) on
// a share of which over of n are seen, each of which holds with the confidence. Both
// counts may be fractions: those of correlated values are divided by their design
// effect.
func shareBounds(over, n, confidence float64) (low, high float64) {
	return lowest(over, n, confidence), highest(over, n, confidence)
}

// lowest returns the lower of the [shareBounds].
func lowest(over, n, confidence float64) float64 {
	if over > 0 {
		return quantile.Beta(1-confidence, over, n-over+1)
	}
	return 0
}

// highest returns the upper of the [shareBounds].
func highest(over, n, confidence float64) float64 {
	if over < n {
		return quantile.Beta(confidence, over+1, n-over)
	}
	return 1
}

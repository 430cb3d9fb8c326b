package summary

import (
	"math"
	"sort"
)

const (
	// confidence is how sure a percentile must be.
	confidence = 0.99
	// overLatency is how many samples above a bound may be seen and the
	// percentile still be taken to keep it: one, so that a single straggler does
	// not decide.
	overLatency = 1
)

// MinRequests returns how many requests the p-quantile needs: the fewest of which
// one may lie above a bound, and it is still 99 % sure that no more than the
// share 1-p of all requests does, for any distribution. That is the early
// stopping of MLPerf's LoadGen. With fewer, a percentile is close to the largest
// sample. It is 11 for p50, 64 for p90, 130 for p95 and 662 for p99.
//
// It counts requests, also for the gaps between tokens and chunks: those of one
// request share its batch and its luck, and are no independent samples.
func MinRequests(p float64) int { return minSamples(p, confidence, overLatency) }

// minSamples returns the smallest n of which so many may be over the bound: the one
// from which on P(X <= over) <= 1 - confidence for X of the binomial
// distribution with n draws of the chance 1-p. It falls with n.
func minSamples(p, confidence float64, over int) int {
	return 1 + sort.Search(1<<30, func(n int) bool { return binomialCDF(over, n+1, 1-p) <= 1-confidence })
}

// binomialCDF returns the chance of at most k hits in n draws of the chance q.
func binomialCDF(k, n int, q float64) float64 {
	sum, term := 0.0, float64(n)*math.Log1p(-q) // of the logarithm of no hit
	for i := 0; i <= min(k, n); i++ {
		sum += math.Exp(term)
		term += math.Log(float64(n-i)) - math.Log(float64(i+1)) + math.Log(q) - math.Log1p(-q)
	}
	return sum
}

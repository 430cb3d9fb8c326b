package objective

import (
	"math"
	"slices"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result"
)

// The margin of a percentile decides where the count of values over the limit leaves it
// open: a latency that drifts by 1 % has the design effect of its own order, so that
// hundreds of values count as two, though none of them is near the limit.
const (
	marginParts  = longBatches
	marginValues = 40 // as many, at least
	// leastMargin is how far a percentile is from its limit at least, as a logarithm: what
	// a few parts do not show of how it wanders is often that much.
	leastMargin = 0.10
	// marginErrors is how many times its own uncertainty a percentile is away from its limit. It
	// is measured and not derived: docs/statistics.md has how often it is wrong.
	marginErrors = 3
	// leastDeff is the design effect at the limit at least: what stalls one request often
	// stalls its neighbour.
	leastDeff = 2
)

// away fills in how far the percentile of the values is from the limit of a part, and how well
// that is known. It leaves them out if a value has no logarithm, or values are too few.
func (o *ordered) away(p *result.SLOPart, q, limit float64) {
	p.Away, p.AwayErr, p.DF = 0, 0, 0
	if len(o.values) < marginValues {
		return
	}
	whole := math.Log(result.Quantile(o.sorted, q))
	size := len(o.values) / marginParts
	parts := make([]float64, marginParts)
	squares := 0.0
	for i := range parts {
		from := len(o.values) - size*(marginParts-i)
		parts[i] = math.Log(result.Quantile(slices.Sorted(slices.Values(o.values[from:from+size])), q))
		squares += (parts[i] - whole) * (parts[i] - whole)
	}
	distance := math.Log(limit) - whole
	err := math.Sqrt(squares / (marginParts - 1) / marginParts * batched{lag: lagOf(parts)}.inflation())
	if sum := distance + err; !math.IsInf(sum, 0) && !math.IsNaN(sum) {
		p.Away, p.AwayErr, p.DF = distance, err, marginParts-1
	}
}

// far returns the verdict of n values that go on as those of a part did, by how far their
// percentile is from its limit, with the bounds on the share that go with it.
func far(p *result.SLOPart, n float64) (verdict string, low, high float64) {
	if p.DF == 0 {
		return result.SLOUndecided, 0, 1
	}
	share := float64(p.Over) / float64(p.N)
	worth := n / max(leastDeff, p.LimitDeff)
	low, high = shareBounds(worth*share, worth, p.Confidence)
	err := p.AwayErr * math.Sqrt(float64(p.N)/n)
	margin := max(leastMargin, marginErrors*(1+4/(n/p.Deff))*quantile.Student(p.Confidence, p.DF)*err)
	switch {
	case p.Away > margin && high <= p.Allowed:
		return result.SLOPass, low, high
	case -p.Away > margin && low > p.Allowed*(1+1e-9):
		return result.SLOFail, low, high
	}
	return result.SLOUndecided, low, high
}

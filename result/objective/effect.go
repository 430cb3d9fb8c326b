package objective

import (
	"math"
	"slices"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result/timeline"
)

// Into how many batches a series is cut. Long batches see slow correlation, and few of
// them know their own spread badly: the spread of eight gets a margin.
const (
	longBatches  = 8
	shortBatches = 20
	// minValues is how many values have a design effect that can be estimated: two a
	// batch.
	minValues = 2 * longBatches
	// suspect is by how many standard errors ranks in batches may spread more than
	// independent ones before their order is taken to matter. It is low: to overlook
	// correlation makes false passes, to suspect it costs requests.
	suspect = 0.5
	// marginConfidence is that of the margin for the spread of few batches.
	marginConfidence = 0.95
)

// An ordered is values in the order of time, of which +Inf is a request that failed, with
// what all design effects of them share.
type ordered struct {
	values, sorted []float64
	estimate       func(series []float64) float64
	independent    bool    // no order is seen
	own            float64 // of the values over their own quantiles
	series         []float64
}

func newOrdered(values []float64) *ordered {
	n := len(values)
	o := &ordered{values: values, sorted: slices.Sorted(slices.Values(values)), own: 1}
	if n < minValues {
		return o
	}
	o.series = make([]float64, n) // of ranks first
	for i, v := range values {
		at, _ := slices.BinarySearch(o.sorted, v)
		o.series[i] = float64(at)
	}
	o.estimate, o.independent = plain, true
	if correlated(o.series) {
		o.estimate, o.independent = inflated, false
	}
	for _, p := range []float64{0.5, 0.75, 0.9} {
		at := o.sorted[int(p*float64(n-1))]
		o.own = max(o.own, o.of(func(v float64) bool { return v > at })) // equal ones would show nothing
	}
	return o
}

// of returns the estimate for the values that are over.
func (o *ordered) of(over func(float64) bool) float64 {
	for i, v := range o.values {
		o.series[i] = 0
		if over(v) {
			o.series[i] = 1
		}
	}
	return o.estimate(o.series)
}

// effect returns how many times more the share of values that are over varies than that of
// as many independent ones: so many values are worth one. It is at least 1, and len(values)
// if they are too few to tell. near is that at the limit alone.
//
// It is the largest of those of the values over the limit and over their own p50, p75
// and p90: where few are over, or a queue was short by luck, the limit alone shows
// nothing of how they cluster. The variance of batch means estimates it. Where the order
// of the values matters, it is inflated by what neighbouring batches still share, and by
// Student's t of so few batches (Korn and Graubard, Survey Methodology 24, 1998).
func (o *ordered) effect(over func(float64) bool) (effect, near float64) {
	n := float64(max(1, len(o.values)))
	if len(o.values) < minValues {
		return n, n
	}
	near = min(max(1, o.of(over)), n)
	return min(max(o.own, near), n), near
}

// plain returns the design effect of a series in which no order was seen.
func plain(series []float64) float64 {
	return max(batchesOf(series, longBatches).effect, batchesOf(series, shortBatches).effect)
}

// inflated returns that of a series whose order matters.
func inflated(series []float64) float64 {
	b := batchesOf(series, longBatches)
	margin := quantile.Student(marginConfidence, longBatches-1) / quantile.Normal(marginConfidence)
	return b.effect * b.inflation() * margin * margin
}

// correlated reports whether ranks or counts spread more in batches than those of
// independent values, in short batches or in long ones.
func correlated(ranks []float64) bool {
	for _, size := range []int{5, len(ranks) / shortBatches} {
		if k := len(ranks) / max(1, size); k >= 3 && k < len(ranks) {
			if batchesOf(ranks, k).effect > 1+suspect*math.Sqrt(2/float64(k-1)) {
				return true
			}
		}
	}
	return false
}

// A batched is a series in batches of equal length.
type batched struct {
	k        int
	mean     float64 // of the batches
	variance float64 // of their means, between them
	effect   float64 // variance of a batch mean, times its length, by that of single values; 1 if all are equal
	lag      float64 // correlation of neighbouring batch means, its bias taken off
}

// batchesOf cuts a series into k batches. What does not fill them is left out at the
// beginning.
func batchesOf(series []float64, k int) batched {
	size := len(series) / k
	b := batched{k: k, effect: 1}
	if size == 0 {
		return b
	}
	series = series[len(series)-size*k:]
	means := make([]float64, k)
	for i, v := range series {
		means[i/size] += v / float64(size)
	}
	for _, m := range means {
		b.mean += m / float64(k)
	}
	single := 0.0
	for _, v := range series {
		single += (v - b.mean) * (v - b.mean) / float64(len(series))
	}
	squares := 0.0
	for _, m := range means {
		squares += (m - b.mean) * (m - b.mean)
	}
	b.variance = squares / float64(k-1)
	if single <= 1e-12*b.mean*b.mean { // all are equal, but for rounding
		b.variance = 0
		return b
	}
	b.effect = b.variance * float64(size) / single
	b.lag = lagOf(means)
	return b
}

// lagOf returns the correlation of neighbouring means, its bias taken off; 0 if it is not
// known.
func lagOf(means []float64) float64 {
	if r, ok := timeline.Neighbours(means); ok {
		return r + 1/float64(len(means))
	}
	return 0
}

// inflation returns by what the variance of the mean is more than that of the batch means
// says, as neighbours are alike: that of a first-order autoregression.
func (b batched) inflation() float64 {
	lag := min(max(0, b.lag), 0.9)
	return (1 + lag) / (1 - lag)
}

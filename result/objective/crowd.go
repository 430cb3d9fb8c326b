package objective

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

// In an open loop the number of requests in flight wanders, and the latencies with it. A
// short trial may lie in a quiet stretch, in which nobody waits and values look independent:
// the requests in flight still show how few such stretches it has seen. The shares are
// measured and not derived: docs/statistics.md has how often the rule is wrong.
const (
	// crowdShare is the part of the design effect of the requests in flight that values have
	// at least which look independent.
	crowdShare = 0.4
	// crowdNear is how near its limit a percentile is, as a logarithm, that has all of it, if it
	// is one below crowdBelow. The design effect of a high one at its limit is enough.
	crowdNear  = 0.3
	crowdBelow = 0.9
)

// A flight has the times at which a request was sent and ended, and whether its values count.
type flight struct {
	sent, end time.Duration
	counts    bool
}

// crowdOf returns the design effect of how many requests were in flight when each was sent,
// by which are more than the median; 1 if they are too few to tell, or show no order. It sorts
// the flights.
func crowdOf(flights []flight) float64 {
	slices.SortStableFunc(flights, func(a, b flight) int { return cmp.Compare(a.sent, b.sent) })
	ends := make([]time.Duration, len(flights))
	for i, f := range flights {
		ends[i] = f.end
	}
	slices.Sort(ends)
	var series []float64
	ended := 0
	for i, f := range flights {
		for ended < len(ends) && ends[ended] <= f.sent {
			ended++
		}
		if f.counts {
			series = append(series, float64(i-ended))
		}
	}
	if len(series) < minValues || !correlated(series) {
		return 1
	}
	median := slices.Sorted(slices.Values(series))[(len(series)-1)/2]
	for i, v := range series {
		series[i] = 0
		if v > median {
			series[i] = 1
		}
	}
	return max(1, inflated(series))
}

// flown raises the design effects of a part to what a crowd asks for. Values of which a
// request has several are left alone: their own order has what a crowd does to them.
func (o *ordered) flown(p *result.SLOPart, w way, crowd float64) {
	if crowd <= 1 || len(o.values) < minValues || w.latency == "" || w.latency == "itl" || w.latency == "icl" {
		return
	}
	least := 1.0
	if o.independent {
		least += crowdShare * (crowd - 1)
	}
	if w.quantile < crowdBelow && math.Abs(math.Log(w.limit/result.Quantile(o.sorted, w.quantile))) < crowdNear {
		least = crowd
	}
	least = min(least, float64(len(o.values)))
	p.Deff, p.LimitDeff = max(p.Deff, least), max(p.LimitDeff, least)
}

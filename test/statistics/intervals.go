package statistics

import (
	"fmt"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/ratio"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/test/statistics/tables"
)

// A bounded is what the columns of a trial say of a percentile.
type bounded struct {
	value, low, high float64 // ms; an end that is not known is 0
}

// has reports whether the truth is between the ends.
func (b bounded) has(truth float64) bool { return b.low <= truth && (b.high == 0 || truth <= b.high) }

// bound returns that of the row of a trial, as the program makes it.
func bound(requests []result.Request, o summary.Options, column string) bounded {
	row, _ := summary.Of(requests, o)
	objective.Of(requests, o).Intervals(row)
	return bounded{row.Float(column), row.Float(column + col.LowSuffix), row.Float(column + col.HighSuffix)}
}

// percentileInterval asks how often the interval of a percentile has the truth.
func percentileInterval(l *Lab) tables.Table {
	t := tables.Table{
		What:    "The columns _low and _high of a percentile of n requests: how often the truth is between them, how often both ends are known, how wide they are apart in the median of those, over the truth, and how often two trials that are alike are ranked by it (one trial each, at 5 %). Requests are independent with exponential latencies, or neighbours in a queue M/M/8 (e2e_ms), or of a closed loop (H100, LN 0.5, p95_ttft_ms).",
		Columns: []string{"has the truth", "both ends", "width", "ranked"},
	}
	add := func(name string, runs int, truth float64, run func(seed uint64) bounded) {
		if l.enough(&t) {
			return
		}
		all := each(runs, run)
		has := share(which(all, func(b bounded) bool { return b.has(truth) }))
		both := func(b bounded) bool { return b.low > 0 && b.high > 0 }
		ranked := make([]bool, 0, runs/2)
		for i := 0; i+1 < len(all); i += 2 {
			a, b := all[i], all[i+1]
			r := ratio.Of([]ratio.Trial{{Value: a.value, Low: a.low, High: a.high}}, []ratio.Trial{{Value: b.value, Low: b.low, High: b.high}}, 0.025)
			ranked = append(ranked, r.More(1) || r.Less(1))
		}
		t.Add(name, runs,
			has.Keep(atLeast(0.93)), share(which(all, both)),
			median(pick(all, func(b bounded) (float64, bool) { return (b.high - b.low) / truth, both(b) }), tables.Ratio),
			share(ranked).Keep(atMost(0.05)),
		)
	}
	for _, load := range sampledLoads() {
		for _, p := range []float64{0.50, 0.95} {
			for _, n := range []int{200, 1000, 4000} {
				if l.Reduced && n > 1000 {
					continue
				}
				column := col.Latency(fmt.Sprintf("p%.0f", 100*p), "e2e")
				add(fmt.Sprintf("%s p%.0f n %d", load.name, 100*p, n), l.runs(1000), ms(load.quantile(p)), func(seed uint64) bounded {
					requests := load.requests(seed, n)
					return bound(requests, summary.Options{Open: true, Span: wholly(requests)}, column)
				})
			}
		}
	}
	for _, slots := range []int{8, 64} {
		b := batching{"H100", slots, usual(0.5)}
		truth := l.truth(b)
		for _, n := range []int{400, 2000} {
			if l.Reduced && n*slots > 400*8 {
				continue
			}
			add(fmt.Sprintf("%s C %d p95 n %d", b.engine, slots, n), l.runs(400), truth.p95TTFT, func(seed uint64) bounded {
				requests := b.run(seed, n, truth.e2e)
				return bound(requests, summary.Options{Span: timeline.Assign(requests, slots)}, col.P95TTFTMs)
			})
		}
	}
	return t
}

// wholly makes all requests those of the plateau, whose span it returns.
func wholly(requests []result.Request) timeline.Span {
	for i := range requests {
		requests[i].Phase = result.Plateau
	}
	from, to := requests[0].Sent, requests[0].Sent
	for i := range requests {
		from, to = min(from, requests[i].Sent), max(to, requests[i].Sent)
	}
	return timeline.Span{From: from, To: max(to, from+time.Nanosecond), Steady: true}
}

package statistics

import (
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/test/statistics/tables"
)

// cycles asks how far the figures of a closed loop depend on when its slots
// began. It holds no rule: it shows what a load of one length can say.
func cycles(l *Lab) tables.Table {
	t := tables.Table{
		What:    "Closed loops of 8,000 requests whose slots begin evenly spread over 0.9 to 1.2 times the median end-to-end latency, by as many starts as runs: p95 TTFT of the starts with the least and the most, over that of the median start.",
		Columns: []string{"least", "most"},
		Drawn:   1,
	}
	requests := 8000
	if l.Quick {
		requests = 200
	}
	for _, b := range cyclesCases(l) {
		e2e := l.truth(b).e2e
		runs := l.runs(40)
		all := each(runs, func(seed uint64) float64 {
			ramp := time.Duration(float64(e2e) * (0.9 + 0.3*float64(seed-1)/float64(runs-1)))
			return show(b.run(1, requests, ramp), b.slots).ttft
		})
		middle := median(all, tables.Ratio).Value
		over := func(ttft float64) tables.Figure {
			return tables.Figure{Value: ttft / middle, Unit: tables.Ratio, N: runs}
		}
		t.Add(fmt.Sprintf("%s C %d %s", b.engine, b.slots, b.lengths), runs,
			over(slices.Min(all)), over(slices.Max(all)),
		)
	}
	return t
}

func cyclesCases(l *Lab) []batching {
	if l.Reduced {
		return []batching{{"H100", 8, usual(0)}}
	}
	var all []batching
	for _, sigma := range []float64{0, 0.1, 0.5} {
		for _, slots := range []int{8, 32, 128} {
			all = append(all, batching{"H100", slots, usual(sigma)})
		}
	}
	return all
}

package statistics

import (
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// errorLimit is stop.error_rate in the table.
const errorLimit = 0.05

// errorRate asks how often a load is ended whose true rate of failures is not
// above the limit, and how soon one that is.
func errorRate(l *Lab) tables.Table {
	t := tables.Table{
		What:    "stop: {error_rate: 5%}: how often a load was ended within its first 200 and 1,000 requests, each of which fails with the same chance, and how many requests it took in the median of those that were.",
		Columns: []string{"within 200", "within 1,000", "requests"},
		Drawn:   1,
	}
	for _, c := range []struct {
		times float64      // of the limit
		ends  tables.Bound // share of the loads, within 1,000
	}{
		{0.2, atMost(0.001)},
		{0.4, atMost(0.01)},
		{0.6, atMost(0.01)},
		{1, atMost(0.05)},
		{2, tables.Bound{}},
		{4, atLeast(0.95)},
		{20, atLeast(1)},
	} {
		runs := l.runs(2000)
		after := each(runs, func(seed uint64) float64 { return stopAfter(seed, c.times*errorLimit, 1000) })
		t.Add(fmt.Sprintf("%.0f %% fail", 100*c.times*errorLimit), runs,
			share(which(after, func(n float64) bool { return n <= 200 })),
			share(which(after, func(n float64) bool { return n <= 1000 })).Keep(c.ends),
			median(pick(after, func(n float64) (float64, bool) { return n, n <= 1000 }), tables.Count),
		)
	}
	return t
}

// stopAfter returns how many requests it took to end a load, of n at most; infinite
// for one that was not.
func stopAfter(seed uint64, fails float64, n int) float64 {
	r := stopping.New(stopping.Config{ErrorRate: errorLimit})
	for i, u := range models.Uniform(seed, n) {
		q := result.Request{Sent: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second, Status: result.Completed}
		if u < fails {
			q.Status = result.Failed
		}
		r.End(&q)
		if _, over := r.Over(); over {
			return float64(i + 1)
		}
	}
	return math.Inf(1)
}

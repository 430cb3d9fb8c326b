package statistics

import (
	"fmt"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// A sampled is n requests of a load in its steady state.
type sampled struct {
	name     string
	quantile func(p float64) time.Duration // of the truth
	requests func(seed uint64, n int) []result.Request
}

// sampledLoads are of independent requests, and of neighbours in a queue.
func sampledLoads() []sampled {
	all := []sampled{{
		"independent",
		func(p float64) time.Duration { return time.Duration(-math.Log(1-p) * float64(time.Second)) },
		func(seed uint64, n int) []result.Request {
			out := make([]result.Request, n)
			for i, u := range models.Uniform(seed, n) {
				begin := time.Duration(i) * time.Second
				out[i] = models.Answered(i, begin, begin, begin+time.Duration(-math.Log(1-u)*float64(time.Second)))
			}
			return out
		},
	}}
	for _, rho := range []float64{0.7, 0.85} {
		const before = 1000 // until it is steady
		q := models.Queue{Servers: 8, Load: rho, Service: time.Second}
		all = append(all, sampled{
			fmt.Sprintf("M/M/8 rho %.3g", rho), q.Quantile,
			func(seed uint64, n int) []result.Request { return q.Run(seed, before+n)[before:] },
		})
	}
	return all
}

// percentiles asks how far the percentile of a trial is from the truth.
func percentiles(l *Lab) tables.Table {
	t := tables.Table{
		What:    "The percentile of the end-to-end latency of n requests over its truth, at the n that low_confidence asks for: the median over the runs, and the values below which 5 % and 95 % of them are. Requests are independent with exponential latencies, or neighbours in a queue M/M/8.",
		Columns: []string{"5 %", "median", "95 %"},
		Drawn:   1,
	}
	for _, load := range sampledLoads() {
		for _, p := range []float64{0.50, 0.90, 0.95, 0.99} {
			n, runs := summary.MinRequests(p), l.runs(1000)
			all := each(runs, func(seed uint64) float64 {
				var took []int64
				for _, r := range load.requests(seed, n) {
					took = append(took, int64(r.End-r.Scheduled))
				}
				slices.Sort(took)
				return result.Quantile(took, p) / float64(load.quantile(p))
			})
			t.Add(fmt.Sprintf("%s p%.0f n %d", load.name, 100*p, n), runs,
				quantile(all, 0.05, tables.Ratio), median(all, tables.Ratio), quantile(all, 0.95, tables.Ratio),
			)
		}
	}
	return t
}

// decide returns what the objective p95_e2e_ms < limit says of requests, all of them on
// the plateau.
func decide(requests []result.Request, limit time.Duration) string {
	return decideOn(requests, 0, true, col.P95E2EMs, ms(limit))
}

// decideOn returns the verdict that a column is below a limit, of requests that are all on
// the plateau of an open or a closed loop, but for the first ones.
func decideOn(requests []result.Request, ramp int, open bool, column string, limit float64) string {
	return partOf(requests, ramp, open, column, limit).Verdict
}

// partOf returns the part of an objective with that verdict.
func partOf(requests []result.Request, ramp int, open bool, column string, limit float64) result.SLOPart {
	for i := range requests {
		requests[i].Phase = result.Plateau
		if i < ramp {
			requests[i].Phase = result.Ramp
		}
	}
	span := timeline.Span{From: requests[ramp].Sent, To: requests[len(requests)-1].Sent, Steady: true}
	var p result.SLOPart
	objective.Of(requests, summary.Options{Open: open, Span: span}).
		Decide(&p, nil, []objective.Comparison{{Column: column, Op: "<", Limit: limit}}, objective.Confidence)
	return p
}

// objectives asks how often an objective is decided wrongly.
func objectives(l *Lab) tables.Table {
	t := tables.Table{
		What:    "p95_e2e_ms < limit for n requests: how often it passes and fails if the limit is the true p95, so that exactly 5 % are over it; passes at a limit of 1.5 times that, and fails at one of 0.7 times. What neither passes nor fails is undecided.",
		Columns: []string{"pass at limit", "fail at limit", "pass at 1.5 x", "fail at 0.7 x"},
	}
	for _, load := range sampledLoads() {
		for _, n := range []int{130, 400, 1000} {
			runs := l.runs(1000)
			c := tables.Case{Name: fmt.Sprintf("%s n %d", load.name, n), Runs: runs}
			for _, x := range []struct {
				times float64
				want  string
				bound tables.Bound
			}{{1, result.SLOPass, atMost(0.05)}, {1, result.SLOFail, atMost(0.05)}, {1.5, result.SLOPass, tables.Bound{}}, {0.7, result.SLOFail, tables.Bound{}}} {
				limit := time.Duration(x.times * float64(load.quantile(0.95)))
				c.Figures = append(c.Figures, share(each(runs, func(seed uint64) bool {
					return decide(load.requests(seed, n), limit) == x.want
				})).Keep(x.bound))
			}
			t.Cases = append(t.Cases, c)
		}
	}
	return t
}

package statistics

import (
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/test/statistics/models"
)

// A batching is a closed loop on a simulated engine.
type batching struct {
	engine  string // H100 or L4
	slots   int
	lengths models.Lengths
}

// usual returns the lengths of the tables.
func usual(sigma float64) models.Lengths {
	return models.Lengths{Input: 512, Output: 128, Sigma: sigma}
}

func (b batching) server() models.Engine {
	if b.engine == "L4" {
		return models.L4
	}
	return models.H100
}

// load returns a closed loop of so many requests beyond the first of each slot. Slots
// begin evenly spread over ramp, or all at once if it is 0.
func (b batching) load(seed uint64, requests int, ramp time.Duration) source.Config {
	c := b.lengths.Load(seed)
	c.Concurrency, c.Requests, c.Ramp = b.slots, requests+b.slots, ramp
	return c
}

// run returns the requests of one trial.
func (b batching) run(seed uint64, requests int, ramp time.Duration) []result.Request {
	return must(b.server().Run(b.load(seed, requests, ramp)))
}

// A steady is the truth of a batching: what a load that never ends would show.
type steady struct {
	p95TTFT    float64       // ms
	throughput float64       // output tokens per second
	tpot, itl  float64       // ms, means over requests and over gaps
	e2e        time.Duration // median
}

// truth is found once.
func (l *Lab) truth(b batching) steady {
	l.mu.Lock()
	f := l.truths[b]
	if f == nil {
		f = sync.OnceValue(func() steady { return b.longRun(l.longest()) })
		l.truths[b] = f
	}
	l.mu.Unlock()
	return f()
}

// longest returns how many requests are of a load that stands for one that never ends: 300 a
// slot at C = 128. Of as many, the p95 of lengths with sigma 1 is right to 1 %.
func (l *Lab) longest() int {
	if l.Quick {
		return 4000
	}
	return 40_000
}

// longRun measures a staggered load, without its first and its last fifth.
func (b batching) longRun(requests int) steady {
	e2e := typical(b.run(1, 8*b.slots, 0))
	all := b.run(1, requests, e2e)
	end := all[len(all)-1].End
	from, to := end/5, end*4/5
	var s steady
	var ttft, took []int64
	tokens, gaps, waited, n := 0.0, 0.0, 0.0, 0.0
	for i := range all {
		r := &all[i]
		timeline.Arrivals(r, func(at time.Duration, k float64) {
			if at > from && at <= to {
				tokens += k
			}
		})
		if r.Sent <= from || r.Sent > to {
			continue
		}
		first, each, whole := summary.Latencies(r)
		ttft, took = append(ttft, int64(first)), append(took, int64(whole))
		if each >= 0 {
			s.tpot, n = s.tpot+ms(each), n+1
			waited, gaps = waited+ms(r.LastToken-r.FirstToken), gaps+float64(r.CompletionTokens-1)
		}
	}
	slices.Sort(ttft)
	slices.Sort(took)
	s.p95TTFT = result.Quantile(ttft, 0.95) / 1e6
	s.e2e = time.Duration(result.Quantile(took, 0.5))
	s.throughput = tokens / (to - from).Seconds()
	s.tpot, s.itl = s.tpot/n, waited/gaps
	return s
}

// typical returns the median end-to-end latency.
func typical(requests []result.Request) time.Duration {
	var took []int64
	for i := range requests {
		_, _, e2e := summary.Latencies(&requests[i])
		took = append(took, int64(e2e))
	}
	slices.Sort(took)
	return time.Duration(result.Quantile(took, 0.5))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// openRow returns the row of an open loop on a server, as one trial of a cell has it.
func openRow(server models.Engine, lengths models.Lengths, seed uint64, rate float64, length time.Duration) result.Row {
	c := lengths.Load(seed)
	c.Pace, c.Duration = arrivals.Steady(rate, arrivals.Process{}), length
	requests := must(server.Run(c))
	row, _ := summary.Of(requests, summary.Options{Open: true, Span: timeline.Assign(requests, 0)})
	return row
}

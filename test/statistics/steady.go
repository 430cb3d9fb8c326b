package statistics

import (
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// A shown is what the columns of a trial say of its steady state.
type shown struct {
	ttft, throughput float64
	settled          bool // as far as the trial itself knows
}

// show returns the row of a trial, as the program makes it. target is the slots of a
// closed loop, 0 for an open one.
func show(requests []result.Request, target int) shown {
	span := timeline.Assign(requests, target)
	row, _ := summary.Of(requests, summary.Options{Open: target == 0, Span: span})
	return shown{row.Float(col.P95TTFTMs), row.Float(col.ThroughputTokS), span.Unsettled == ""}
}

// cycled is the requests a slot of a load that has gone through its cycle often.
const cycled = 60

// steadyState asks whether the columns of a short closed loop are those of a
// long one.
func steadyState(l *Lab) tables.Table {
	t := tables.Table{
		What:    "A trial of a closed loop, of max(200, 4 C) requests at C slots beyond the first of each: the median over the runs of p95_ttft_ms and throughput_tok_s, each over the truth of a load that never ends (with fixed lengths: the same load, 60 requests a slot long), and the share of the trials without the finding steadiness_unknown. H100 is Llama 3.1 8B on one, L4 is Qwen2.5 1.5B on one; 512 tokens in and 128 out in the mean, fixed or lognormal (LN and the sigma of the logarithm).",
		Columns: []string{"p95 TTFT", "throughput", "settled"},
	}
	for _, b := range steadyCases(l) {
		if l.enough(&t) {
			break
		}
		for _, together := range []bool{true, false} {
			name := fmt.Sprintf("%s C %d %s ", b.engine, b.slots, b.lengths)
			if together {
				name += "together"
			} else {
				name += "staggered"
			}
			truth := l.truth(b)
			ramp := truth.e2e
			if together {
				ramp = 0
			}
			runs := l.runs(400)
			results := each(runs, func(seed uint64) shown {
				s := show(b.run(seed, max(200, 4*b.slots), ramp), b.slots)
				endless := shown{ttft: truth.p95TTFT, throughput: truth.throughput}
				if b.lengths.Sigma == 0 { // each start has a truth of its own: see cycles
					endless = show(b.run(seed, cycled*b.slots, ramp), b.slots)
				}
				s.ttft, s.throughput = s.ttft/endless.ttft, s.throughput/endless.throughput
				return s
			})
			var latency, rate, settled tables.Bound
			if !together { // what begins together is asked for, and shown
				latency, rate, settled = within(0.95, 1.05), within(0.97, 1.03), atLeast(0.85)
			}
			t.Add(name, runs,
				median(pick(results, func(s shown) (float64, bool) { return s.ttft, s.ttft > 0 }), tables.Ratio).Keep(latency),
				median(pick(results, func(s shown) (float64, bool) { return s.throughput, s.throughput > 0 }), tables.Ratio).Keep(rate),
				share(which(results, func(s shown) bool { return s.settled })).Keep(settled),
			)
		}
	}
	return t
}

func steadyCases(l *Lab) []batching {
	if l.Reduced {
		return []batching{{"H100", 8, usual(0.5)}, {"H100", 32, usual(0)}}
	}
	var all []batching
	for _, slots := range []int{1, 8, 32, 64, 128} {
		for _, sigma := range []float64{0, 0.5, 1} {
			all = append(all, batching{"H100", slots, usual(sigma)})
		}
	}
	return append(all, batching{"L4", 8, usual(0.5)}, batching{"L4", 32, usual(0.5)})
}

// openPlateau asks the same of open loops. A queue that wanders more slowly than a trial
// is long has no figure that a trial could know: it is asked for the interval alone, and
// for the finding.
func openPlateau(l *Lab) tables.Table {
	t := tables.Table{
		What:    "A trial of an open loop: the median over the runs of p95_ttft_ms over the truth, the share of the trials without the finding steadiness_unknown, and of all trials the share whose interval, p95_ttft_ms_low to p95_ttft_ms_high, has the truth. The truth is by formula for the queues M/M/8 (service 1 s, Poisson arrivals), else it is of a trial of two hours. The p95 is asked for if the trial is 20 relaxation times of its queue long or more, and that it is settled if 40; of less than 2, the finding is.",
		Columns: []string{"p95 TTFT", "settled", "has the truth"},
		Drawn:   2,
	}
	type seen struct {
		shown
		bounded
	}
	add := func(name string, runs int, truth, relaxations float64, run func(seed uint64) []result.Request) {
		if l.enough(&t) {
			return
		}
		results := each(runs, func(seed uint64) seen {
			requests := run(seed)
			s := show(requests, 0)
			// The phases are those that show has set.
			return seen{s, bound(requests, summary.Options{Open: true, Span: timeline.Assign(requests, 0)}, col.P95TTFTMs)}
		})
		var latency, settled tables.Bound
		if relaxations >= 20 {
			latency = within(0.95, 1.05)
		}
		switch {
		case relaxations >= 40:
			settled = atLeast(0.85)
		case relaxations < 2:
			settled = atMost(0.25)
		}
		t.Add(name, runs,
			median(pick(results, func(s seen) (float64, bool) { return s.ttft / truth, s.ttft > 0 }), tables.Ratio).Keep(latency),
			share(which(results, func(s seen) bool { return s.settled })).Keep(settled),
			share(which(results, func(s seen) bool { return s.has(truth) })).Keep(atLeast(0.93)),
		)
	}
	for _, seconds := range []float64{60, 300} {
		for _, rho := range []float64{0.5, 0.8, 0.95} {
			q := models.Queue{Servers: 8, Load: rho, Service: time.Second}
			n := int(q.PerSecond() * seconds)
			add(fmt.Sprintf("M/M/8 rho %.3g, %.0f s", rho, seconds), l.runs(400), ms(q.Quantile(0.95)), seconds/q.Relaxation().Seconds(), func(seed uint64) []result.Request { return q.Run(seed, n) })
		}
	}
	if l.Reduced {
		return t
	}
	for _, sigma := range []float64{0.5, 1} {
		run := func(seed uint64, length time.Duration) []result.Request {
			c := usual(sigma).Load(seed)
			c.Pace, c.Duration = arrivals.Steady(20, arrivals.Process{}), length
			return must(models.H100.Run(c))
		}
		truth := show(run(1, 2*time.Hour), 0)
		// It is far from its capacity: it relaxes within some steps.
		add(fmt.Sprintf("H100 LN %.3g, 20/s, 30 s", sigma), l.runs(400), truth.ttft, math.Inf(1), func(seed uint64) []result.Request { return run(seed, 30*time.Second) })
	}
	return t
}

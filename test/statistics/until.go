package statistics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// untilWithin is what the table asks of a mean.
const untilWithin = 0.10

// A stopped is a load that a rule ended, or its cap.
type stopped struct {
	by     string  // what ended it; "" for its cap
	inside bool    // the mean of what had ended is as near to the truth as asked
	n      float64 // requests that had ended
}

// until asks how often the mean is within what the plan asked for, where
// stopping.Rule says that it is.
func until(l *Lab) tables.Table {
	t := tables.Table{
		What:    "until: {within: 10%, confidence: 95%, min_requests: 30}: how often the rule ended a load whose mean over all requests was not within 10 % of the truth, how many loads it ended before their cap (20,000 requests; 5,000 of the closed loop), and after how many requests in the median. AR(1): e2e_ms with a standard deviation of 40 %, phi the correlation of neighbours. Queues start empty (service 1 s); of ttft_ms the first token comes 20 ms after the service begins, so that most requests have the same. H100: closed loop of 64 slots, LN 0.5, all started together; tokens/s without the first request of each slot.",
		Columns: []string{"wrong", "ended", "requests"},
	}
	most, closed := 20_000, 5000 // requests
	if l.Reduced {
		most, closed = 4000, 1500
	}
	add := func(name string, runs int, run func(seed uint64) stopped) {
		if l.enough(&t) {
			return
		}
		results := each(runs, run)
		ended := func(s stopped) bool { return s.by == stopping.Precise }
		t.Add(name, runs,
			share(which(results, func(s stopped) bool { return ended(s) && !s.inside })).Keep(atMost(0.05)),
			share(which(results, ended)),
			median(pick(results, func(s stopped) (float64, bool) { return s.n, ended(s) }), tables.Count),
		)
	}
	for _, phi := range []float64{0, 0.7, 0.9, 0.95} {
		add(fmt.Sprintf("AR(1) phi %.3g", phi), l.runs(1000), func(seed uint64) stopped {
			w := watch{cfg: asked("e2e_ms"), slots: 1, truth: 100}
			for i, v := range (models.AR1{Phi: phi, Mean: 100, SD: 40}).Values(seed, most) {
				end := time.Hour + time.Duration(i)*time.Second
				begin := end - time.Duration(v*float64(time.Millisecond))
				if !w.end(&result.Request{Scheduled: begin, Sent: begin, FirstToken: end, LastToken: end, End: end, CompletionTokens: 1, Status: result.Completed}) {
					break
				}
			}
			return w.stopped
		})
	}
	for _, rho := range []float64{0.5, 0.9} {
		add(fmt.Sprintf("M/M/8 rho %.3g", rho), l.runs(1000), func(seed uint64) stopped {
			q := models.Queue{Servers: 8, Load: rho, Service: time.Second}
			w := watch{cfg: asked("e2e_ms"), truth: ms(q.Mean())}
			feed(q.Run(seed, most), &w)
			return w.stopped
		})
	}
	add("M/M/8 rho 0.5 ttft_ms", l.runs(1000), func(seed uint64) stopped {
		q := models.Queue{Servers: 8, Load: 0.5, Service: time.Second, First: 20 * time.Millisecond}
		w := watch{cfg: asked("ttft_ms"), truth: ms(q.MeanFirst())}
		feed(q.Run(seed, most), &w)
		return w.stopped
	})
	b := batching{"H100", 64, usual(0.5)}
	truth := l.truth(b)
	for _, m := range []struct {
		metric string
		truth  float64
	}{{"tpot_ms", truth.tpot}, {"itl_ms", truth.itl}, {"throughput_tok_s", truth.throughput}} {
		add("H100 C 64 "+m.metric, l.runs(100), func(seed uint64) stopped {
			w := watch{cfg: asked(m.metric), slots: b.slots, truth: m.truth}
			if err := b.server().Each(b.load(seed, closed, 0), w.end); err != nil {
				panic(err)
			}
			return w.stopped
		})
	}
	return t
}

// asked returns a plan's until of a metric.
func asked(metric string) stopping.Config {
	return stopping.Config{Until: &stopping.Precision{Metric: metric, Within: untilWithin, Confidence: 0.95, MinRequests: 30}}
}

// A watch is a rule that watches a load, and the figure over all its requests:
// what a person would take from them.
type watch struct {
	cfg   stopping.Config
	slots int // of a closed loop; 0 is an open one
	truth float64

	rule    *stopping.Rule
	settled time.Duration // when as many requests as slots had ended
	sum, of float64
	stopped
}

// end takes the next request in the order of their ends; false is the end of the
// load.
func (w *watch) end(r *result.Request) bool {
	if w.rule == nil {
		w.start()
	}
	if w.slots > 0 {
		w.rule.InFlight(r.End, int(w.n)+w.slots, w.slots)
	}
	w.n++
	w.add(r)
	w.rule.End(r)
	d, over := w.rule.Over()
	if over {
		w.by = d.By
		w.inside = math.Abs(w.sum/w.of/w.truth-1) <= untilWithin
	}
	return !over
}

func (w *watch) start() {
	w.cfg.Open = w.slots == 0
	w.rule = stopping.New(w.cfg)
	w.rule.Start(0)
}

func (w *watch) add(r *result.Request) {
	if w.cfg.Until == nil {
		return
	}
	begin := r.Sent
	if w.cfg.Open {
		begin = r.Scheduled
	}
	gaps := float64(r.CompletionTokens - 1)
	switch w.cfg.Until.Metric {
	case "e2e_ms":
		w.sum, w.of = w.sum+ms(r.End-begin), w.of+1
	case "ttft_ms":
		w.sum, w.of = w.sum+ms(r.FirstToken-begin), w.of+1
	case "tpot_ms":
		if gaps > 0 {
			w.sum, w.of = w.sum+ms(r.LastToken-r.FirstToken)/gaps, w.of+1
		}
	case "itl_ms":
		w.sum, w.of = w.sum+ms(r.LastToken-r.FirstToken), w.of+gaps
	case "throughput_tok_s":
		if int(w.n) <= w.slots {
			w.settled = r.End
			return
		}
		w.sum, w.of = w.sum+float64(r.CompletionTokens), (r.End - w.settled).Seconds()
	}
}

// feed gives an open loop to a rule: its ends in their order, and what is in
// flight four times a second.
func feed(requests []result.Request, w *watch) {
	slices.SortFunc(requests, func(a, b result.Request) int { return cmp.Compare(a.Scheduled, b.Scheduled) })
	for i := range requests {
		w.cfg.Due = append(w.cfg.Due, requests[i].Scheduled)
	}
	w.start()
	sent := make([]time.Duration, len(requests))
	for i := range requests {
		sent[i] = requests[i].Sent
	}
	slices.Sort(sent)
	slices.SortFunc(requests, func(a, b result.Request) int { return cmp.Compare(a.End, b.End) })
	began, look := 0, sent[0]
	for i := range requests {
		for ; look <= requests[i].End; look += time.Second / 4 {
			for began < len(sent) && sent[began] <= look {
				began++
			}
			w.rule.InFlight(look, began, began-i)
		}
		if !w.end(&requests[i]) {
			return
		}
	}
}

package statistics

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// A tape is a load in its steady state, cut into trials.
type tape struct {
	name     string
	open     bool
	latency  string           // ttft, tpot or e2e
	slots    int              // of a closed loop
	requests []result.Request // in the order of their sends
}

// values returns those of the latency, in ms.
func (s tape) values() []float64 {
	var all []float64
	for i := range s.requests {
		if r := &s.requests[i]; summary.Has(r, s.latency) {
			all = summary.AppendValues(all, r, s.latency, s.open)
		}
	}
	return all
}

// before is how many requests of a tape a trial knows before its plateau: of an open loop some
// of them are in flight when it begins.
const before = 100

// trials cuts the tape into trials of n requests, and decides of each whether a percentile
// is below a limit: the shares that pass and that are undecided.
func (s tape) trials(percentile string, n int, limit float64, most int) (pass, open []bool) {
	for from := before; from+n <= len(s.requests) && len(pass) < most; from += n {
		verdict := decideOn(slices.Clone(s.requests[from-before:from+n]), before, s.open, col.Latency(percentile, s.latency), limit)
		pass, open = append(pass, verdict == result.SLOPass), append(open, verdict == result.SLOUndecided)
	}
	return pass, open
}

// engineSeries returns loads of an engine with continuous batching: closed loops of 8, 16 and 32,
// and open ones at half and at 85 % of what 64 at once carry; of each the TTFT and the TPOT.
func engineSeries(requests int) []tape {
	lengths := usual(0.5)
	var all []tape
	add := func(name string, open bool, c engineLoad) {
		list := c.run(requests)
		for _, latency := range []string{"ttft", "tpot"} {
			all = append(all, tape{name + " " + latency, open, latency, c.slots, list})
		}
	}
	for _, slots := range []int{8, 16, 32} {
		add(fmt.Sprintf("C %d", slots), false, engineLoad{lengths: lengths, slots: slots})
	}
	most := batching{"H100", 64, lengths}.longRun(4000)
	for _, rho := range []float64{0.5, 0.85} {
		add(fmt.Sprintf("open %.3g", rho), true, engineLoad{lengths: lengths, rate: rho * most.throughput / float64(lengths.Output)})
	}
	return all
}

// An engineLoad is a load on the engine of the tables: closed, or open at a rate.
type engineLoad struct {
	lengths models.Lengths
	slots   int
	rate    float64
}

// run returns what it records in its steady state.
func (s engineLoad) run(requests int) []result.Request {
	c := s.lengths.Load(1)
	settling := max(8*s.slots, 500)
	if s.slots > 0 {
		c.Concurrency, c.Requests, c.Ramp = s.slots, requests+settling, 2*time.Second
	} else {
		c.Pace, c.Requests = arrivals.Steady(s.rate, arrivals.Process{}), requests+settling
	}
	all := must(models.H100.Run(c))
	slices.SortStableFunc(all, func(a, b result.Request) int { return cmp.Compare(a.Sent, b.Sent) })
	return all[settling:]
}

// queueSeries returns queues of which most requests wait, or few do.
func queueSeries(requests int) []tape {
	var all []tape
	for _, q := range []struct {
		servers int
		rho     float64
	}{{8, 0.5}, {8, 0.6}, {8, 0.85}, {32, 0.9}} {
		list := models.Queue{Servers: q.servers, Load: q.rho, Service: time.Second}.Run(1, 2000+requests)[2000:]
		all = append(all, tape{fmt.Sprintf("M/M/%d rho %.3g", q.servers, q.rho), true, "e2e", 0, list})
	}
	return all
}

// A size is a percentile of so many requests, of all loads or of closed loops of some slots.
type size struct {
	percentile string
	p          float64
	n, slots   int
}

// sizes returns those of the table: usual ones, and ten requests a slot, which is what many send.
func sizes() []size {
	all := []size{{"p50", 0.5, 150, 0}, {"p95", 0.95, 150, 0}, {"p95", 0.95, 300, 0}, {"p95", 0.95, 1000, 0}, {"p99", 0.99, 1000, 0}, {"p99", 0.99, 3000, 0}}
	for _, slots := range []int{8, 16, 32} {
		all = append(all, size{"p50", 0.5, 10 * slots, slots}, size{"p95", 0.95, 10 * slots, slots}, size{"p99", 0.99, 10 * slots, slots})
	}
	return all
}

// margins asks how often a percentile is decided that is far from its limit, and how often
// it passes at its limit.
func margins(l *Lab) tables.Table {
	t := tables.Table{
		What:    "A percentile below a limit, by n requests: how often it passes if the limit is the true percentile, and how often it is undecided at limits of 1.5, 2 and 2.7 times that. Loads of an engine with continuous batching, and queues M/M/c; each is one long load, cut into trials.",
		Columns: []string{"pass at limit", "open at 1.5 x", "open at 2 x", "open at 2.7 x"},
		Drawn:   2,
	}
	runs := l.runs(400)
	for _, k := range sizes() {
		runs := runs
		if k.n > 1000 {
			runs = max(20, runs/4)
		}
		for _, s := range append(engineSeries(before+k.n*runs), queueSeries(before+k.n*runs)...) {
			if k.slots > 0 && k.slots != s.slots {
				continue
			}
			values := slices.Sorted(slices.Values(s.values()))
			truth := result.Quantile(values, k.p)
			c := tables.Case{Name: fmt.Sprintf("%s %s n %d", s.name, k.percentile, k.n)}
			for i, times := range []float64{1, 1.5, 2, 2.7} {
				pass, open := s.trials(k.percentile, k.n, times*truth, runs)
				c.Runs = len(pass)
				if i == 0 {
					c.Figures = append(c.Figures, share(pass).Keep(atMost(0.05)))
				} else {
					c.Figures = append(c.Figures, share(open))
				}
			}
			t.Cases = append(t.Cases, c)
			if l.enough(&t) {
				return t
			}
		}
	}
	return t
}

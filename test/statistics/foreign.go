package statistics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// foreign returns loads that no rule was made on: a seed draws their kinds and constants. Those
// of one kind are a process with memory, one with stalls that hit every request of a batch,
// a mixture of lengths, and a queue with bursts. Only those of a queue overlap.
func foreign(seed uint64, loads, requests int) []tape {
	r := rand.New(rand.NewPCG(seed, 35))
	var all []tape
	for range loads {
		name, draw := drawn(r)
		list := draw(rand.New(rand.NewPCG(seed, r.Uint64())), requests)
		all = append(all, tape{name, true, "e2e", 0, list})
	}
	return all
}

// alone returns requests of which each has ended before the next begins, with latencies in ms.
func alone(next func(*rand.Rand) func() float64) func(*rand.Rand, int) []result.Request {
	return func(c *rand.Rand, n int) []result.Request {
		list, value := make([]result.Request, n), next(c)
		for i := range list {
			begin := time.Duration(i) * time.Minute
			list[i] = models.Answered(i, begin, begin, begin+time.Duration(value()*float64(time.Millisecond)))
		}
		return list
	}
}

// drawn returns one kind of load with constants by chance: what makes so many of its requests.
func drawn(r *rand.Rand) (name string, draw func(c *rand.Rand, n int) []result.Request) {
	switch r.IntN(4) {
	case 0:
		phi, sigma := choose(r, 0.3, 0.7, 0.9, 0.95), choose(r, 0.05, 0.3, 0.8)
		return fmt.Sprintf("memory %.3g, sigma %.3g", phi, sigma), alone(func(c *rand.Rand) func() float64 {
			x := c.NormFloat64()
			return func() float64 {
				x = phi*x + math.Sqrt(1-phi*phi)*c.NormFloat64()
				return 100 * math.Exp(sigma*x)
			}
		})
	case 1:
		every, batch, long := choose(r, 100.0, 300, 1000), choose(r, 1.0, 8, 16), choose(r, 100.0, 300)
		return fmt.Sprintf("stall of %.0f ms of %.0f, one of %.0f", long, batch, every), alone(func(c *rand.Rand) func() float64 {
			left := 0.0
			return func() float64 {
				if left--; left < 0 && c.Float64() < 1/every {
					left = batch - 1
				}
				v := 50 * math.Exp(0.1*c.NormFloat64())
				if left >= 0 {
					v += long * c.Float64()
				}
				return v
			}
		})
	case 2:
		share, times, run := choose(r, 0.04, 0.06, 0.3, 0.5), choose(r, 3.0, 10), choose(r, 1.0, 10)
		return fmt.Sprintf("%.0f %% %.0f times as long, in runs of %.0f", 100*share, times, run), alone(func(c *rand.Rand) func() float64 {
			long := false
			return func() float64 {
				if c.Float64() < 1/run {
					long = c.Float64() < share
				}
				v := 40 * math.Exp(0.2*c.NormFloat64())
				if long {
					v *= times
				}
				return v
			}
		})
	}
	servers, rho, cv2 := choose(r, 4.0, 16), choose(r, 0.5, 0.75), choose(r, 1.0, 4)
	return fmt.Sprintf("G/M/%.0f rho %.3g cv2 %.0f", servers, rho, cv2), func(c *rand.Rand, n int) []result.Request {
		q := models.Queue{Servers: int(servers), Load: rho, Service: 100 * time.Millisecond}
		if cv2 > 1 {
			q = q.Bursty(cv2)
		}
		const settling = 2000
		return q.Run(c.Uint64(), settling+n)[settling:]
	}
}

func choose(r *rand.Rand, values ...float64) float64 { return values[r.IntN(len(values))] }

// foreignMargins asks the same of loads that no rule was made on.
func foreignMargins(l *Lab) tables.Table {
	t := tables.Table{
		What:    "The same for loads whose kinds and constants a seed has drawn: how often a percentile passes if its limit is the true one, and how often it is undecided at twice that; p50 of 150 requests, p95 of 300 and of 1,000.",
		Columns: []string{"p50 pass", "p50 open", "p95 of 300 pass", "p95 of 300 open", "p95 of 1,000 pass", "p95 of 1,000 open"},
	}
	runs := l.runs(400)
	for _, s := range foreign(7, 24, before+1000*runs) {
		values := slices.Sorted(slices.Values(s.values()))
		c := tables.Case{Name: s.name, Runs: runs}
		for _, k := range percentilesOf {
			truth := result.Quantile(values, k.p)
			pass, _ := s.trials(k.name, k.n, truth, runs)
			_, open := s.trials(k.name, k.n, 2*truth, runs)
			c.Figures = append(c.Figures, share(pass), share(open))
		}
		if !slices.ContainsFunc(t.Cases, func(o tables.Case) bool { return o.Name == c.Name }) {
			t.Cases = append(t.Cases, c)
		}
		if l.enough(&t) {
			break
		}
	}
	return t
}

// percentilesOf are the percentiles of the table, each of so many requests.
var percentilesOf = []struct {
	name string
	p    float64
	n    int
}{{"p50", 0.5, 150}, {"p95", 0.95, 300}, {"p95", 0.95, 1000}}

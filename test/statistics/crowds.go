package statistics

import (
	"fmt"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// quiet asks how often a percentile passes at its limit in queues of which a short trial often
// sees a stretch where few wait.
func quiet(l *Lab) tables.Table {
	t := tables.Table{
		What:    "A percentile below a limit in queues M/M/c of which a trial may see only a quiet stretch, by n requests: how often it passes if the limit is the true percentile, and how often it is undecided at limits of 1.5 and 2 times that. A TTFT is 20 ms after the wait.",
		Columns: []string{"pass at limit", "open at 1.5 x", "open at 2 x"},
		Drawn:   1,
	}
	runs := l.runs(400)
	for _, q := range []struct {
		servers    int
		rho        float64
		percentile string
		p          float64
		latency    string
		sizes      []int
	}{
		{8, 0.5, "p50", 0.5, "e2e", []int{150, 300}},
		{8, 0.85, "p50", 0.5, "e2e", []int{150, 300, 600, 1200}},
		{32, 0.9, "p50", 0.5, "e2e", []int{300, 1200}},
		{8, 0.5, "p95", 0.95, "ttft", []int{100, 150, 200}},
		{8, 0.6, "p95", 0.95, "ttft", []int{100, 150, 200}},
	} {
		m := models.Queue{Servers: q.servers, Load: q.rho, Service: time.Second}
		if q.latency == "ttft" {
			m.First = 20 * time.Millisecond
		}
		const settling = 2000
		list := m.Run(1, settling+before+runs*slices.Max(q.sizes))[settling:]
		s := tape{fmt.Sprintf("M/M/%d rho %.3g %s", q.servers, q.rho, q.latency), true, q.latency, 0, list}
		truth := result.Quantile(slices.Sorted(slices.Values(s.values())), q.p)
		for _, n := range q.sizes {
			c := tables.Case{Name: fmt.Sprintf("%s %s n %d", s.name, q.percentile, n), Runs: runs}
			for i, times := range []float64{1, 1.5, 2} {
				pass, open := s.trials(q.percentile, n, times*truth, runs)
				if i == 0 {
					c.Figures = append(c.Figures, share(pass).Keep(atMost(0.08)))
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

// launches asks how often a percentile passes at its limit whose trials are of several
// launches of a server, each with a speed of its own.
func launches(l *Lab) tables.Table {
	t := tables.Table{
		What:    "p95_e2e_ms below a limit, over several trials of 1,000 independent requests with lognormal latencies: how often it passes if the limit is the true p95 of all launches, and at 1.05 and 1.1 times that. The speed of a launch scatters by a cv.",
		Columns: []string{"pass at limit", "pass at 1.05 x", "pass at 1.1 x"},
		Drawn:   1,
	}
	runs := l.runs(400)
	for _, sigma := range []float64{0.1, 0.3} {
		for _, cv := range []float64{0, 0.05} {
			for _, trials := range []int{2, 3, 10} {
				truth := 1000 * math.Exp(1.6449*math.Hypot(sigma, cv)) // Normal's p95
				c := tables.Case{Name: fmt.Sprintf("sigma %.3g, cv %.0f %%, %d trials", sigma, 100*cv, trials), Runs: runs}
				for i, times := range []float64{1, 1.05, 1.1} {
					pass := share(each(runs, func(seed uint64) bool {
						return launched(seed, sigma, cv, trials, times*truth) == result.SLOPass
					}))
					if i == 0 {
						pass = pass.Keep(atMost(0.05))
					}
					c.Figures = append(c.Figures, pass)
				}
				t.Cases = append(t.Cases, c)
				if l.enough(&t) {
					return t
				}
			}
		}
	}
	return t
}

// launched returns the verdict on trials of 1,000 requests, each of a launch.
func launched(seed uint64, sigma, cv float64, trials int, limit float64) string {
	z := models.Normal(seed, trials*1001)
	all := make([]result.SLOResult, trials)
	for i := range all {
		speed, z := cv*z[i*1001], z[i*1001+1:(i+1)*1001]
		requests := make([]result.Request, len(z))
		for k := range requests {
			begin := time.Duration(k) * time.Minute
			requests[k] = models.Answered(k, begin, begin, begin+time.Duration(math.Exp(speed+sigma*z[k])*float64(time.Second)))
		}
		all[i].Parts = []result.SLOPart{partOf(requests, 0, true, col.P95E2EMs, limit)}
	}
	return objective.Pool(all).Verdict
}

package statistics

import (
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// drift asks how often a steady load is said to drift, and how often one that
// does.
func drift(l *Lab) tables.Table {
	grown := []float64{1, 1.1, 1.2, 1.4}
	t := tables.Table{
		What:    "A series that is steady, or that grows in a straight line by 10, 20 and 40 % over its length. AR(1): how often timeline.Trend is significant in 40 values with a standard deviation of 5 % of the mean, phi the correlation of neighbours. Queues (M/M/8, service 1 s, 400 s) and the H100 closed loop (LN 0.5, 40 requests a slot): how often any figure of timeline.DriftOf makes the trial INVALID, by the default bound of max_drift.",
		Columns: []string{"steady", "+10 %", "+20 %", "+40 %"},
	}
	add := func(name string, runs int, most float64, found func(seed uint64, grown float64) bool) {
		if l.enough(&t) {
			return
		}
		c := tables.Case{Name: name, Runs: runs}
		for i, by := range grown {
			f := share(each(runs, func(seed uint64) bool { return found(seed, by) }))
			if i == 0 {
				f = f.Keep(atMost(most))
			}
			c.Figures = append(c.Figures, f)
		}
		t.Cases = append(t.Cases, c)
	}
	at := make([]float64, 40)
	for i := range at {
		at[i] = float64(i)
	}
	for _, phi := range []float64{0, 0.3, 0.7, 0.9} {
		add(fmt.Sprintf("AR(1) phi %.3g", phi), l.runs(4000), 0.01, func(seed uint64, grown float64) bool {
			v := models.AR1{Phi: phi, Mean: 100, SD: 5}.Values(seed, len(at))
			for i := range v {
				v[i] *= 1 + (grown-1)*float64(i)/float64(len(v)-1)
			}
			return timeline.Trend(at, v).P < timeline.Level
		})
	}
	for _, rho := range []float64{0.5, 0.8, 0.9, 0.95} {
		add(fmt.Sprintf("M/M/8 rho %.3g", rho), l.runs(400), 0.01, func(seed uint64, grown float64) bool {
			const length = 400 * time.Second
			q := models.Queue{Servers: 8, Load: rho, Service: time.Second, Change: growing(grown, length)}
			return drifts(q.Run(seed, int(q.PerSecond()*length.Seconds())), 0)
		})
	}
	slots := []int{16, 64}
	if l.Reduced {
		slots = slots[:1]
	}
	for _, n := range slots {
		b := batching{"H100", n, usual(0.5)}
		truth := l.truth(b)
		length := 40 * truth.e2e
		add(fmt.Sprintf("H100 C %d", n), l.runs(200), 0.01, func(seed uint64, grown float64) bool {
			server := b.server()
			change := growing(grown, length)
			server.Stretch = func(busy, total time.Duration) time.Duration {
				return time.Duration(change(busy) * float64(total))
			}
			return drifts(must(server.Run(b.load(seed, 40*n, truth.e2e))), n)
		})
	}
	return t
}

// growing goes from 1 to by in a straight line over a length, and stays there.
func growing(by float64, length time.Duration) func(time.Duration) float64 {
	return func(at time.Duration) float64 { return 1 + (by-1)*min(1, float64(at)/float64(length)) }
}

// drifts reports whether a trial is INVALID for its drift.
func drifts(requests []result.Request, target int) bool {
	d := timeline.DriftOf(requests, timeline.Assign(requests, target), target == 0)
	for _, x := range []timeline.Drift{d.TTFT, d.TPOT, d.Throughput} {
		if x.P < timeline.Level && math.Abs(x.Change) > bounds.Defaults().Drift {
			return true
		}
	}
	return false
}

package statistics

import (
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// saturation asks how often an open loop is ended that its server can follow, and
// how soon one that it cannot.
func saturation(l *Lab) tables.Table {
	t := tables.Table{
		What:    "stop: {saturated: true}: how often an open loop of 2,000 requests was ended, on a queue M/M/8 (service 1 s) or with gamma arrivals whose gaps have a squared coefficient of variation (cv²) of 4, and how many requests had ended by then in the median. max_in_flight 16 holds arrivals back. The ramp goes from 0 to 20/s in 2 minutes on an empty M/M/256 (service 10 s), which carries it, and stays there.",
		Columns: []string{"ended", "requests"},
	}
	always := []stopping.Hold{{}}
	add := func(name string, q models.Queue, holds []stopping.Hold, ends tables.Bound) {
		if l.enough(&t) {
			return
		}
		runs := l.runs(1000)
		after := each(runs, func(seed uint64) float64 {
			w := watch{cfg: stopping.Config{Saturated: true, Holds: holds}}
			feed(q.Run(seed, 2000), &w)
			if w.by != stopping.Saturated {
				return math.Inf(1)
			}
			return w.n
		})
		found := func(n float64) bool { return !math.IsInf(n, 1) }
		t.Add(name, runs,
			share(which(after, found)).Keep(ends),
			median(pick(after, func(n float64) (float64, bool) { return n, found(n) }), tables.Count),
		)
	}
	queue := func(rho float64) models.Queue {
		return models.Queue{Servers: 8, Load: rho, Service: time.Second}
	}
	for _, rho := range []float64{0.8, 0.9, 0.95, 1.1, 1.5} {
		ends := atMost(0.05)
		if rho > 1 {
			ends = atLeast(0.90)
		}
		add(fmt.Sprintf("Poisson rho %.3g", rho), queue(rho), always, ends)
		if rho == 1.1 {
			ends = atLeast(0.75) // the best test of the backlog alone finds less: see the page
		}
		add(fmt.Sprintf("cv² 4 rho %.3g", rho), queue(rho).Bursty(4), always, ends)
	}
	for _, rho := range []float64{0.8, 1.5} {
		q := queue(rho)
		q.MaxInFlight = 16
		ends := atMost(0.05)
		if rho > 1 {
			ends = atLeast(0.90)
		}
		add(fmt.Sprintf("max_in_flight 16 rho %.3g", rho), q, always, ends)
	}
	const rise = 2 * time.Minute
	many := models.Queue{Servers: 256, Service: 10 * time.Second, Pace: arrivals.Rates{Stages: []arrivals.Stage{{Rate: 20, Over: rise}, {Rate: 20}}}}
	add("ramp to rho 0.78", many, []stopping.Hold{{From: rise}}, atMost(0.05))
	return t
}

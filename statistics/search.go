package statistics

import (
	"fmt"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/search"
	"sweep.dev/sweep/statistics/models"
	"sweep.dev/sweep/statistics/tables"
)

// capacity asks how often a search says more than the server carries, and how much less.
func capacity(l *Lab) tables.Table {
	t := tables.Table{
		What:    "A search for the highest rate at which p95 TTFT keeps its limit, in steps of 5 %, with 1,000 requests a trial, at 99 %. The share of requests over the limit is 5 % at the capacity and logistic in the logarithm of the rate (slope 8); trials differ by a standard deviation of 1 % of the rate, and requests fare alike in groups of the design effect. How often the answer is above the capacity; the same of bisection alone, by one trial a rate; the median answer as a share of the capacity; and the median number of requests, in thousands.",
		Columns: []string{"above", "bisection above", "median", "thousand requests"},
		Drawn:   0,
	}
	for _, deff := range []int{1, 5, 15, 40} {
		c := tables.Case{Name: fmt.Sprintf("design effect %d", deff), Runs: l.runs(400)}
		type found struct {
			answer, point, requests float64
		}
		all := each(c.Runs, func(seed uint64) found {
			server := models.NewLimit(seed, 1000, deff)
			s := search.Settings{
				Levels: search.NewLevels(5, 400, 0.05, false), Objectives: []string{models.Objective},
				Confidence: 0.99, Trials: 3, MaxTrials: 12, MaxProbes: 400, Seed: seed,
			}
			var outcomes []search.Outcome
			for {
				p, ok := search.Next(s, outcomes)
				if !ok {
					break
				}
				trial := objective.PoolAt([]result.SLOResult{server.Trial(s.Levels[p.Level])}, objective.Confidence)
				outcomes = append(outcomes, search.Outcome{Probe: p, State: search.Measured, Requests: 1000, SLOs: []result.SLOResult{trial}})
			}
			a := search.Answers(s, outcomes)[0]
			var f found
			if a.Capacity != nil {
				f.answer = *a.Capacity / server.Capacity
			}
			if a.Point != nil {
				f.point = *a.Point / server.Capacity
			}
			f.requests = float64(a.Requests) / 1000
			return f
		})
		least := tables.Bound{}
		if deff <= 5 {
			least = atLeast(0.9)
		}
		c.Figures = []tables.Figure{
			share(which(all, func(f found) bool { return f.answer > 1 })).Keep(atMost(0.01)),
			share(which(all, func(f found) bool { return f.point > 1 })),
			median(pick(all, func(f found) (float64, bool) { return f.answer, true }), tables.Ratio).Keep(least),
			median(pick(all, func(f found) (float64, bool) { return f.requests, true }), tables.Ratio),
		}
		t.Cases = append(t.Cases, c)
	}
	return t
}

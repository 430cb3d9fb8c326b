package statistics

import (
	"fmt"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// sent is the requests of a trial of a search.
const sent = 1000

// searching returns the settings of a search for objectives in the steps of the tables.
func searching(seed uint64, objectives ...string) search.Settings {
	return search.Settings{
		Levels: search.NewLevels(5, 400, 0.05, false), Objectives: objectives,
		Confidence: 0.99, Trials: 3, MaxTrials: 32, MaxProbes: 400, Seed: seed,
	}
}

// searched returns a whole search. A trial at a rate has the objectives, which are not decided yet.
func searched(s search.Settings, trial func(rate float64, times int) []result.SLOResult) []search.Answer {
	var outcomes []search.Outcome
	for {
		p, ok := search.Next(s, outcomes)
		if !ok {
			return search.Answers(s, outcomes)
		}
		slos := trial(s.Levels[p.Level], p.Times)
		for i := range slos {
			slos[i] = objective.PoolAt(slos[i:i+1], objective.Confidence)
		}
		outcomes = append(outcomes, search.Outcome{Probe: p, State: search.Measured, Requests: sent * p.Times, SLOs: slos})
	}
}

// shareOf returns a load as a share of the truth; 0 if there is none.
func shareOf(load *float64, truth float64) float64 {
	if load == nil {
		return 0
	}
	return *load / truth
}

// searches asks how often a search says more than the server carries, and how much less.
func searches(l *Lab) tables.Table {
	t := tables.Table{
		What:    "A search for the highest rate at which p95 TTFT keeps its limit, in steps of 5 %, with 1,000 requests a trial, at 99 %. The share of requests over the limit is 5 % at the capacity and logistic in the logarithm of the rate (slope 8); trials differ by a standard deviation of 1 % of the rate, and requests fare alike in groups of the design effect. How often the answer is above the capacity; the same of bisection alone, by one trial a rate; the median answer as a share of the capacity; and the median number of requests, in thousands.",
		Columns: []string{"above", "bisection above", "median", "thousand requests"},
		Drawn:   0,
	}
	for _, deff := range []int{1, 5, 15, 40} {
		if l.enough(&t) {
			break
		}
		c := tables.Case{Name: fmt.Sprintf("design effect %d", deff), Runs: l.runs(400)}
		type found struct {
			answer, point, requests float64
		}
		all := each(c.Runs, func(seed uint64) found {
			server := models.NewLimit(seed, sent, deff)
			a := searched(searching(seed, models.Objective), func(rate float64, times int) []result.SLOResult {
				return []result.SLOResult{server.Trial(rate, times)}
			})[0]
			return found{shareOf(a.Capacity, server.Capacity), shareOf(a.Point, server.Capacity), float64(a.Requests) / 1000}
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

// tiers asks the same of a search for two objectives, of which one implies the other.
func tiers(l *Lab) tables.Table {
	t := tables.Table{
		What:    "The searches of the table before for two objectives on the same requests, of which the strict one implies the loose one, as p95 TTFT below 200 ms implies that below 400 ms. The capacity of the loose one is that of the strict one to half as much again, by chance. Together: one search for both, whose looks share the risk. Apart: a search for each, with trials of its own. How often the answer is above the capacity: the strict one, the loose one, and either of them; the median answer of each as a share of its capacity; and the median number of requests of both together, in thousands.",
		Columns: []string{"strict above", "loose above", "either above", "strict", "loose", "thousand requests"},
		Drawn:   2,
	}
	type found struct {
		strict, loose, requests float64
	}
	run := func(seed, number uint64, deff int, s search.Settings) (map[string]*float64, *models.Tiers, float64) {
		server := models.NewTiers(seed, number, sent, deff)
		loads := map[string]*float64{}
		requests := 0
		for _, a := range searched(s, server.Trial) {
			loads[a.Objective], requests = a.Capacity, a.Requests
		}
		return loads, server, float64(requests) / 1000
	}
	together := func(seed uint64, deff int) found {
		s := searching(seed, models.Objective, models.Loose)
		s.Implied = map[string][]string{models.Loose: {models.Objective}}
		loads, server, requests := run(seed, 0, deff, s)
		return found{shareOf(loads[models.Objective], server.Capacity), shareOf(loads[models.Loose], server.Loosest), requests}
	}
	apart := func(seed uint64, deff int) found {
		loads, server, first := run(seed, 0, deff, searching(seed, models.Objective))
		others, _, second := run(seed, 1, deff, searching(seed, models.Loose))
		return found{shareOf(loads[models.Objective], server.Capacity), shareOf(others[models.Loose], server.Loosest), first + second}
	}
	for _, deff := range []int{1, 5, 15} {
		if l.enough(&t) || l.Reduced && deff > 5 {
			break
		}
		for _, way := range []struct {
			name  string
			found func(seed uint64, deff int) found
			bound tables.Bound // of either
		}{{"together", together, atMost(0.01)}, {"apart", apart, atMost(0.02)}} {
			runs := l.runs(400)
			all := each(runs, func(seed uint64) found { return way.found(seed, deff) })
			least := tables.Bound{}
			if deff <= 5 {
				least = atLeast(0.9)
			}
			t.Add(fmt.Sprintf("deff %d, %s", deff, way.name), runs,
				share(which(all, func(f found) bool { return f.strict > 1 })).Keep(atMost(0.01)),
				share(which(all, func(f found) bool { return f.loose > 1 })).Keep(atMost(0.01)),
				share(which(all, func(f found) bool { return f.strict > 1 || f.loose > 1 })).Keep(way.bound),
				median(pick(all, func(f found) (float64, bool) { return f.strict, true }), tables.Ratio).Keep(least),
				median(pick(all, func(f found) (float64, bool) { return f.loose, true }), tables.Ratio).Keep(least),
				median(pick(all, func(f found) (float64, bool) { return f.requests, true }), tables.Ratio),
			)
		}
	}
	return t
}

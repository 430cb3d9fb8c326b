package statistics

import (
	"slices"
	"testing"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
)

// TestFurther holds that the trials that a resume adds to an undecided cell decide it in at
// least 8 of 10 cases, with at most twice the trials that would have done. They end by the
// executor's rule: at the first look that decides by its share of the risk. By all
// looks together, at most 10 % of the cells pass that are at their limit.
func TestFurther(t *testing.T) {
	t.Parallel()
	length := 60 // of a load in trials
	if slow.Tests {
		length = 600
	}
	const n, apart, risk = 150, 25, 1 - objective.Confidence
	undecided := func(trials []result.SLOResult, confidence float64) bool {
		return objective.PoolAt(trials, confidence).Verdict == result.SLOUndecided
	}
	open, named, decided, used, least := 0, 0, 0, 0, 0
	cells, wrong := 0, 0 // whose limit is the true percentile, and that pass
	for _, s := range append(engineSeries(n*length), queueSeries(n*length)...) {
		values := slices.Sorted(slices.Values(s.values()))
		for _, times := range []float64{0.7, 1, 1.5, 2} {
			var trials []result.SLOResult
			for from := 0; from+n <= len(s.requests); from += n {
				p := partOf(slices.Clone(s.requests[from:from+n]), 0, s.open, col.Latency("p95", s.latency), times*result.Quantile(values, 0.95))
				trials = append(trials, result.SLOResult{Verdict: p.Verdict, Parts: []result.SLOPart{p}})
			}
			for i := 0; i+apart <= len(trials); i += apart {
				if times == 1 {
					cells++
				}
				if verdict := trials[i].Verdict; verdict != result.SLOUndecided {
					if times == 1 && verdict == result.SLOPass {
						wrong++
					}
					continue
				}
				p := &conclude.Point{Verdict: conclude.Undecided, Valid: 1, Objectives: trials[i : i+1]}
				most := p.Further()
				known := most > 0 && most <= conclude.MostFurther
				if times != 1 {
					open++
				}
				if !known {
					continue
				}
				ran := 1
				for ran < most && undecided(trials[i:i+1+ran], 1-risk/float64(most)) {
					ran++
				}
				if times == 1 {
					if objective.PoolAt(trials[i:i+1+ran], objective.Confidence).Verdict == result.SLOPass {
						wrong++
					}
					continue
				}
				named++
				if !undecided(trials[i:i+1+ran], objective.Confidence) {
					decided++
				}
				enough := 1
				for enough < apart-1 && undecided(trials[i:i+1+enough], objective.Confidence) {
					enough++
				}
				used, least = used+ran, least+enough
			}
		}
	}
	t.Logf("of %d undecided cells %d had trials added, %d were decided, with %d trials of %d that would have done", open, named, decided, used, least)
	t.Logf("of %d cells at their limit %d pass", cells, wrong)
	if slow.Tests && wrong > 10*cells/100 {
		t.Errorf("of %d cells at their limit %d pass", cells, wrong)
	}
	if named < 7*open/10 || decided < 8*named/10 || used > 2*least {
		t.Errorf("of %d undecided cells %d had trials added, %d were decided, with %d trials of %d that would have done", open, named, decided, used, least)
	}
}

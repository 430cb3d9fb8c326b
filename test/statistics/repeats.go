package statistics

import (
	"fmt"
	"math"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// repeatsUntil asks how often the mean over a cell's trials is within what the plan
// asked for, where stopping.Trials says that it is.
func repeatsUntil(l *Lab) tables.Table {
	const within, most = 0.03, 30
	t := tables.Table{
		What:    "repeats: {min: 3, max: 30, until: {within: 3%}} at 95 %: how often the rule ended a cell whose mean over its trials was not within 3 % of the truth, how many cells it ended before their cap, and after how many trials in the median. The trials are independent; normal ones scatter by a cv, lognormal ones with that cv are skewed.",
		Columns: []string{"wrong", "ended", "trials"},
	}
	add := func(name string, least int, trial func(z float64) float64) {
		rule := stopping.Trials{Within: within, Confidence: 0.95, Min: least}
		runs := l.runs(20_000)
		results := each(runs, func(seed uint64) stopped {
			values := models.Normal(seed, most)
			for i, z := range values {
				values[i] = trial(z)
			}
			n, mean, _ := rule.Known(values)
			s := stopped{n: float64(n), inside: math.Abs(mean-1) <= within}
			if n > 0 {
				s.by = stopping.Precise
			}
			return s
		})
		ended := func(s stopped) bool { return s.by == stopping.Precise }
		t.Add(name, runs,
			share(which(results, func(s stopped) bool { return ended(s) && !s.inside })).Keep(atMost(0.05)),
			share(which(results, ended)),
			median(pick(results, func(s stopped) (float64, bool) { return s.n, ended(s) }), tables.Count),
		)
	}
	for _, least := range []int{3, 5} {
		for _, cv := range []float64{0.01, 0.02, 0.03, 0.05, 0.08} {
			add(fmt.Sprintf("normal, cv %.0f %%, min %d", 100*cv, least), least, func(z float64) float64 { return 1 + cv*z })
		}
	}
	for _, cv := range []float64{0.05, 0.08} {
		sigma := math.Sqrt(math.Log1p(cv * cv))
		add(fmt.Sprintf("lognormal, cv %.0f %%, min 3", 100*cv), 3, func(z float64) float64 { return math.Exp(sigma*z - sigma*sigma/2) })
	}
	return t
}

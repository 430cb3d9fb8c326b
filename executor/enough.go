package executor

import (
	"fmt"
	"maps"
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// figures are those of the plan's repeats.until in the valid trials of a cell, by the
// number of the trial.
type figures map[int]float64

// skipFurther keeps trials from being run of a cell whose mean is known well enough
// from those before them, where their plan wants that. It rests on committed rows
// alone, in the order of the trials, so that a resume concludes the same.
func (d *deployment) skipFurther(t *trial, row result.Row) {
	until := d.config.Plan.Repeats.Until
	if until == nil || row[col.Valid] != true {
		return
	}
	v, ok := row.Trusted().Number(until.Column())
	if !ok {
		return
	}
	if d.figures == nil {
		d.figures = map[string]figures{}
	}
	known := d.figures[t.key.Cell]
	if known == nil {
		known = figures{}
		d.figures[t.key.Cell] = known
	}
	known[t.key.Trial] = v

	trials := slices.Sorted(maps.Keys(known))
	values := make([]float64, len(trials))
	for i, number := range trials {
		values[i] = known[number]
	}
	rule := stopping.Trials{Within: until.Within, Confidence: d.config.Plan.TrialConfidence(), Min: d.config.Plan.Repeats.Min}
	n, mean, half := rule.Known(values)
	if n == 0 {
		return
	}
	why := &result.Finding{Code: finding.TrialsEnough, Text: fmt.Sprintf("not run: the mean of %s over %s is known within %.2g %% (at %.4g %% confidence)",
		until.Column(), humanize.Plural(n, "valid trial"), 100*half/mean, 100*rule.Confidence)}
	for i := range d.trials {
		other := &d.trials[i]
		if other.key.Cell == t.key.Cell && other.key.Trial > trials[n-1] && !other.done && other.skip == nil {
			other.skip = why
		}
	}
}

package executor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/objective"
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
		if other.key.Cell == t.key.Cell && other.key.Trial > trials[n-1] && other.key.Trial <= d.config.Plan.Repeats.Most() && !other.done && other.skip == nil {
			other.skip = why
		}
	}
}

// objectives are those of the VALID trials of a cell, by the number of the trial.
type objectives map[int][]result.SLOResult

// skipDecided keeps those of the trials that were added to a cell from being run which are no
// longer needed: its objectives are decided. As it looks after each of them, it decides by the
// share of the risk that each look has.
func (d *deployment) skipDecided(t *trial, o *result.Outcome) {
	var added []*trial // without an outcome
	looks := 0
	for i := range d.trials {
		other := &d.trials[i]
		if other.key.Cell != t.key.Cell || other.key.Trial <= d.config.Plan.Repeats.Most() {
			continue
		}
		if looks++; !other.done && other.skip == nil {
			added = append(added, other)
		}
	}
	if looks == 0 {
		return
	}
	if d.objectives == nil {
		d.objectives = map[string]objectives{}
	}
	known := d.objectives[t.key.Cell]
	if known == nil {
		known = objectives{}
		d.objectives[t.key.Cell] = known
	}
	if o.Row[col.Valid] == true {
		known[t.key.Trial] = o.SLOs
	}
	if t.key.Trial <= d.config.Plan.Repeats.Most() || !decided(known, 1-(1-cmp.Or(d.config.Plan.Confidence, objective.Confidence))/float64(looks)) {
		return
	}
	why := &result.Finding{Code: finding.TrialsEnough, Text: fmt.Sprintf("not run: the objectives are decided over %s", humanize.Plural(len(known), "valid trial"))}
	for _, other := range added {
		other.skip = why
	}
}

// decided reports whether each objective that a cell may fail is decided over its trials.
func decided(trials objectives, confidence float64) bool {
	byName := map[string][]result.SLOResult{}
	for _, n := range slices.Sorted(maps.Keys(trials)) {
		for _, o := range trials[n] {
			byName[o.Name] = append(byName[o.Name], o)
		}
	}
	for _, all := range byName {
		if o := objective.PoolAt(all, confidence); o.Severity != plan.SeverityWarn && o.Verdict != result.SLOPass && o.Verdict != result.SLOFail {
			return false
		}
	}
	return len(byName) > 0
}

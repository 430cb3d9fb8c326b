package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

// A stop is a trial whose load was ended because its server cannot carry it.
type stop struct {
	cell plan.Cell
	by   string
}

// skipHigher keeps trials from being run that ask for more than two which were ended
// so, where their plan wants that. One may be a false alarm, and would hide all levels
// above it.
func (d *deployment) skipHigher(c plan.Cell, row result.Row) {
	by, _ := row[col.EndedBy].(string)
	if c.Load.Stop == nil || !c.Load.Stop.SkipHigher || by != stopping.Saturated && by != stopping.Failing {
		return
	}
	d.stops = append(d.stops, stop{c, by})
	for i := range d.trials {
		t := &d.trials[i]
		if t.done || t.skip != nil {
			continue
		}
		var below []string
		for _, s := range d.stops {
			if above(t.cell, s.cell) {
				below = append(below, Label(s.cell)+" was ended by "+s.by)
			}
		}
		if len(below) >= 2 {
			t.skip = &result.Finding{Code: finding.LevelSkipped, Text: "not run: " + strings.Join(below[:2], ", and ") + "; this asks for more"}
		}
	}
}

// learn takes in the outcome of a trial that is committed: what it says of the trials
// that are left, and of the server.
func (d *deployment) learn(t *trial, o *result.Outcome) {
	d.skipHigher(t.cell, o.Row)
	d.skipFurther(t, o.Row)
	d.skipDecided(t, o)
	d.remember(o.Row)
	d.noteOutcome(t.key, o)
}

// recall takes in what an earlier run has committed: which levels are not to be
// run, and what software its servers were.
func (d *deployment) recall() error {
	for _, t := range d.trials {
		if !t.done {
			continue
		}
		o, err := rundir.Outcome(d.config.Path, d.config.State.Committed[t.key])
		if err != nil {
			return fmt.Errorf("what is known of %s: %w", Label(t.cell), err)
		}
		d.learn(&t, o)
	}
	return nil
}

// above reports whether two cells differ in nothing but that a asks for a greater
// amount of load.
func above(a, b plan.Cell) bool {
	more := false
	for _, s := range a.Settings {
		i := slices.IndexFunc(b.Settings, func(o plan.Setting) bool { return o.Axis == s.Axis })
		if i < 0 {
			return false
		}
		other := b.Settings[i].Value
		if s.Value == other {
			continue
		}
		x, ok := plan.Number(s.Value)
		y, ok2 := plan.Number(other)
		if !s.Axis.Amount || !ok || !ok2 || x <= y || more {
			return false
		}
		more = true
	}
	return more && len(a.Settings) == len(b.Settings)
}

// commitSkipped commits the row of a trial that is not run, so that a resume
// does not run it either.
func (d *deployment) commitSkipped(ctx context.Context, t *trial) error {
	return d.commitUnmeasured(ctx, t, d.config.State.Attempts[t.key]+1, outcome.End{Skip: t.skip})
}

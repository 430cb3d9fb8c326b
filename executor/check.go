package executor

import (
	"encoding/json"
	"fmt"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/attempt"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/render"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
)

// Check finds what is wrong with a plan only once it is expanded, before
// anything is started: given prompts that cannot be read or are too few for
// the trials, loads that no source makes and no client sends, command lines that
// cannot be rendered, and servers that the backend knows it cannot launch. kind
// is the client in place of the plan's choice, or "".
func Check(p *plan.Plan, b backends.Backend, o serving.Options, only func(plan.Cell) (bool, error), kind string) error {
	r := &run{config: Config{Plan: p, Backend: b, Servers: o, Only: only, State: &rundir.State{}, Client: kind}}
	if _, err := r.plan(); err != nil {
		return err
	}
	checked := map[string]bool{}
	for _, d := range r.all {
		if err := d.check(); err != nil {
			return fmt.Errorf("%s: %w", d.label, err)
		}
		for i := range d.trials {
			t := &d.trials[i]
			key, err := json.Marshal([]any{t.cell.Load, t.first, d.of.Server.Profile})
			if err != nil {
				return err
			}
			if checked[string(key)] {
				continue
			}
			checked[string(key)] = true
			if err := r.checkLoad(t, d); err != nil {
				return fmt.Errorf("%s: %w", Label(t.cell), err)
			}
		}
	}
	return nil
}

// check finds what is wrong with the server of a deployment.
func (d *deployment) check() error {
	with := render.With{Sweep: "sweep", Images: d.config.Servers.Images}
	spec, err := render.Spec(d.config.Plan, d.of, with)
	if err != nil {
		return err
	}
	d.profile, _ = d.config.Plan.Profile(d.of.Server.Profile) // render.Spec has found it
	d.use(nil)
	if _, err := render.Commands(d.config.Plan, d.of, with); err != nil {
		return err
	}
	if c, ok := d.config.Backend.(backends.Checker); ok {
		return c.Check(spec)
	}
	return nil
}

// checkLoad makes the sources and the client of a trial, as far as that needs no
// server, and returns their errors.
func (r *run) checkLoad(t *trial, d *deployment) error {
	if err := r.measure.Inputs.Source(t.cell, t.key.Trial, t.first).Check(); err != nil {
		return err
	}
	return attempt.Check(r.measure, d.up, t.of())
}

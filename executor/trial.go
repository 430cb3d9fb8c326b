package executor

import (
	"context"
	"errors"
	"fmt"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/attempt"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A trial is one run of one cell that has no outcome yet.
type trial struct {
	key   rundir.Key
	cell  plan.Cell
	done  bool            // has an outcome
	first int             // of the given prompts: where this trial's begin
	skip  *result.Finding // why it is not run; nil if it is
	why   string          // why it is run, if the plan has it chosen; else ""
}

// of returns what an attempt at the trial has to know.
func (t *trial) of() attempt.Trial {
	return attempt.Trial{Key: t.key, Cell: t.cell, First: t.first, Label: Label(t.cell), Why: t.why}
}

// attempt makes one attempt at a trial on the server that is up, and commits
// it unless the server died and another attempt may follow. It returns how the
// server died, or nil. The error is ours.
//
// An attempt that the end of the run cuts short is discarded: half a measurement
// is no result. One that was measured to its end is kept.
func (d *deployment) attempt(ctx context.Context, t *trial, n int, last bool) (death *serving.Failure, err error) {
	files, err := d.files(ctx, t, n)
	if err != nil {
		return nil, err
	}
	a := attempt.New(d.run.measure, d.up, t.of(), n, files)
	d.run.Emit(event.Event{Type: event.TrialStarted, Deployment: d.of.ID, Cell: t.key.Cell, Trial: t.key.Trial, Attempt: n, Label: Label(t.cell)})
	err = a.Run(ctx)

	needed := ctx
	if err == nil {
		needed = d.config.Teardown // it is all there: only an end at once gives it up
	}
	died := a.Died(needed)
	if needed.Err() != nil {
		return nil, d.discard(ctx, t, n, files, context.Cause(ctx).Error())
	}
	if died {
		death = d.death(ctx, t)
	}
	if death != nil && !last {
		a.Drop()
		return death, d.discard(ctx, t, n, files, "the server died: "+death.Text)
	}
	end := outcome.End{Failure: death}
	switch {
	case death != nil:
	case lost(err): // the verdict says so
	case err != nil:
		end.Failure = &serving.Failure{Class: classOf(err), Text: err.Error()}
	case a.Hung():
		why := d.servers.Hung()
		end.Hung = &why
	}
	return death, d.commit(ctx, t, a, files, end)
}

// commitUnmeasured commits the row of a trial of which nothing was measured.
func (d *deployment) commitUnmeasured(ctx context.Context, t *trial, n int, end outcome.End) error {
	files, err := d.files(ctx, t, n)
	if err != nil {
		return err
	}
	return d.commit(ctx, t, attempt.New(d.run.measure, d.up, t.of(), n, files), files, end)
}

// files makes those of an attempt.
func (d *deployment) files(ctx context.Context, t *trial, n int) (*rundir.Attempt, error) {
	files, err := d.config.Dir.Begin(context.WithoutCancel(ctx), t.key, n)
	if err != nil {
		return nil, fmt.Errorf("begin attempt: %w", err)
	}
	return files, nil
}

// commit makes the attempt's outcome the trial's. A trial that was measured to
// its end is kept, for every reason that ends the run.
func (d *deployment) commit(ctx context.Context, t *trial, a *attempt.Attempt, files *rundir.Attempt, end outcome.End) error {
	ctx = context.WithoutCancel(ctx)
	o, err := a.Finish(end)
	if err == nil {
		err = files.Commit(ctx, o, d.config.Plan.SpecDigest(t.cell))
	}
	if err != nil {
		// The part of it that is on disk must not be taken for a result later.
		return errors.Join(fmt.Errorf("commit %s trial %d: %w", t.key.Cell, t.key.Trial, err),
			files.Discard(ctx, "its commit failed"))
	}
	t.done = true
	d.learn(t, o)
	d.run.committedOne(d, *t, o)
	return nil
}

func (d *deployment) discard(ctx context.Context, t *trial, n int, files *rundir.Attempt, reason string) error {
	d.run.Emit(event.Event{Type: event.TrialDiscarded, Deployment: d.of.ID, Cell: t.key.Cell, Trial: t.key.Trial, Attempt: n, Text: reason, Label: Label(t.cell)})
	if err := files.Discard(context.WithoutCancel(ctx), reason); err != nil {
		return fmt.Errorf("discard attempt: %w", err)
	}
	return nil
}

// lost reports whether an attempt ended because one of several clients was lost.
func lost(err error) bool {
	_, ok := errors.AsType[*attempt.ClientLost](err)
	return ok
}

// classOf returns the class of what ended a trial other than its server.
func classOf(err error) string {
	if f, ok := errors.AsType[*backends.Failure](err); ok {
		return f.Class
	}
	if _, ok := errors.AsType[serving.Limit](err); ok {
		return "timeout"
	}
	return "load"
}

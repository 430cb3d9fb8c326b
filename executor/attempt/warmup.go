package attempt

import (
	"context"
	"errors"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/timeline"
)

// warmUp sends the warm-up's requests; they are recorded as such and never
// counted.
func (a *Attempt) warmUp(ctx context.Context, d load.Driver) error {
	c := a.load()
	c.Phase = result.Warmup
	src, err := source.New(c)
	if err != nil {
		return err
	}
	_, err = d.Run(ctx, src, recorder(a.keep), a.options(nil))
	a.learnFromWarmup(&a.subject.counting)
	a.expect()
	return errors.Join(err, context.Cause(ctx))
}

// expect takes from the warm-up how long the load will take to be at work.
func (a *Attempt) expect() {
	l := a.trial.Cell.Load
	if !l.Open() && l.Start == plan.StartTogether {
		return
	}
	if a.ramp = timeline.Ramp(a.records.all(), l.Open()); a.ramp > 0 {
		a.ramp += l.ThinkTime
	}
}

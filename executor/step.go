package executor

import (
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/event"
	"sweep.dev/sweep/serving"
)

// A step is one thing that a trial goes through, bounded in time: when the
// limit is reached the step's context ends with the limit's name as the cause.
type step struct {
	name  string
	limit time.Duration // 0: the trial's own
	run   func(context.Context) error
}

// steps runs each in turn and stops at the first error, which carries the
// step's name.
func (d *deployment) steps(ctx context.Context, t *trial, attempt int, list []step) error {
	for _, s := range list {
		d.run.Emit(event.Event{Type: event.StepStarted, Deployment: d.of.ID, Cell: t.key.Cell, Trial: t.key.Trial, Attempt: attempt, Step: s.name, Label: Label(t.cell)})
		sctx, cancel := ctx, context.CancelFunc(func() {})
		if s.limit > 0 {
			sctx, cancel = serving.WithLimit(ctx, s.name, s.limit)
		}
		err := s.run(sctx)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

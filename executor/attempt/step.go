package attempt

import (
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/serving"
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
func (a *Attempt) steps(ctx context.Context, list []step) error {
	for _, s := range list {
		e := a.event(event.StepStarted)
		e.Step = s.name
		a.config.Emit(e)
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

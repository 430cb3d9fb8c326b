package load

import (
	"context"
	"time"
)

// Sleeping wakes up late: the runtime's timers by about a millisecond, the
// kernel's by tens of microseconds. WaitUntil approaches its instant with the
// coarsest sleep that cannot pass it, and burns the rest.
const (
	runtimeLate = 3 * time.Millisecond
	kernelLate  = 150 * time.Microsecond
)

// WaitUntil returns at t, a moment of the monotonic clock, or with the context's
// error once that is done. It is on time to a few microseconds where a CPU is
// free, for which it keeps one busy for the last 150. It is for the one
// goroutine that keeps a schedule, not for many at once: it may hold a thread
// of the operating system for up to 3 ms. It knows real clocks alone, not that
// of a testing/synctest bubble.
func WaitUntil(ctx context.Context, t time.Time) error {
	if left := time.Until(t); left > runtimeLate {
		timer := time.NewTimer(left - runtimeLate)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	if left := time.Until(t); left > kernelLate {
		kernelSleep(left - kernelLate)
	}
	for time.Until(t) > 0 {
	}
	return ctx.Err()
}

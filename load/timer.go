package load

import (
	"context"
	"time"
)

// spin is how long before its instant a Timer stops to sleep and burns the
// rest: the kernel wakes up tens of microseconds late.
const spin = 150 * time.Microsecond

// A Timer keeps the schedule of an open loop. The runtime's own timers wake up
// about a millisecond late, because its poller counts in milliseconds; a Timer
// sleeps on one of the kernel if there is one, and spins for the last 150
// microseconds, so that it is late by a few where a CPU is free. It blocks no
// thread while it sleeps.
//
// It knows real clocks alone, not that of a testing/synctest bubble. A Timer is
// for one goroutine; Close must follow.
type Timer struct{ sleeper sleeper }

// A sleeper waits until the context is done or about d has passed, and is not
// meant to be late.
type sleeper interface {
	sleep(ctx context.Context, d time.Duration)
	close()
}

// NewTimer returns the best timer that this system has.
func NewTimer() *Timer {
	if s := newKernelTimer(); s != nil {
		return &Timer{s}
	}
	return &Timer{runtimeTimer{}}
}

// Close releases the timer.
func (t *Timer) Close() { t.sleeper.close() }

// WaitUntil returns at a moment of the monotonic clock, or with the context's
// error once that is done.
func (t *Timer) WaitUntil(ctx context.Context, at time.Time) error {
	for left := time.Until(at); left > 0 && ctx.Err() == nil; left = time.Until(at) {
		if left > spin {
			t.sleeper.sleep(ctx, left-spin)
		}
	}
	return ctx.Err()
}

// runtimeTimer is what Go has everywhere.
type runtimeTimer struct{}

func (runtimeTimer) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (runtimeTimer) close() {}

package live

import (
	"context"
	"time"
)

// Bounds of the pacer.
const (
	// MaxLag is how late a step may end before the clock is set anew.
	MaxLag = 100 * time.Millisecond
	// spin is how long before its time the pacer stops sleeping and looks at the
	// clock instead. A precise sleep wakes 30 to 80 us late on an idle machine.
	spin = 80 * time.Microsecond
	// coarse is where an ordinary timer, which can be interrupted, ends and the
	// precise sleep begins: timers are up to a millisecond late.
	coarse = 2 * time.Millisecond
)

// A pacer waits for moments.
type pacer struct {
	timer *time.Timer
}

// until returns at t, or as soon as ctx is done. It returns how late it is.
// For the precise part the caller's goroutine has locked its thread.
func (p *pacer) until(ctx context.Context, t time.Time) time.Duration {
	if d := time.Until(t) - coarse; d > 0 {
		if p.timer == nil {
			p.timer = time.NewTimer(d)
		} else {
			p.timer.Reset(d)
		}
		select {
		case <-p.timer.C:
		case <-ctx.Done():
			p.timer.Stop()
			return 0
		}
	}
	if d := time.Until(t) - spin; d > 0 {
		nap(d)
	}
	for {
		if late := time.Since(t); late >= 0 {
			return late
		}
	}
}

package stamp

import (
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

const (
	// maxStep is the largest change of the wall clock against the monotonic one
	// that can be an error of reading them. NTP slews both alike, so only a
	// clock that is set changes more.
	maxStep = 50 * time.Microsecond
	// looks is how many readings a sample takes, of which the tightest counts:
	// one may be torn by the loss of the CPU.
	looks = 5
)

// A Clock turns times of the wall clock into offsets on a trial's monotonic
// clock. Its methods may be called at once.
type Clock struct {
	anchor result.Anchor
	offset atomic.Int64 // wall clock at the anchor, in ns since 1970

	mu    sync.Mutex
	steps []load.ClockStep
	// sample reads both clocks: mono and wall are of one moment, give or take
	// slack.
	sample func() (mono time.Duration, wall int64, slack time.Duration)
}

// NewClock samples the wall clock against the anchor.
func NewClock(a result.Anchor) *Clock {
	c := &Clock{anchor: a}
	c.sample = c.look
	mono, wall, _ := c.sample()
	c.offset.Store(wall - int64(mono))
	return c
}

// look returns the tightest of several readings.
func (c *Clock) look() (mono time.Duration, wall int64, slack time.Duration) {
	slack = -1
	for range looks {
		before := c.anchor.Since()
		now := time.Now()
		width := c.anchor.Since() - before
		if slack < 0 || width < slack {
			// Now reads the one clock immediately after the other.
			mono, wall, slack = now.Sub(c.anchor.Start), now.UnixNano(), width
		}
	}
	return mono, wall, slack
}

// Now returns the offset of this moment, by the monotonic clock alone.
func (c *Clock) Now() time.Duration { return c.anchor.Since() }

// Check samples the wall clock again: stamps that are turned from now on use
// what it found. If the clock has jumped by more than 50 us since the last
// sample, the step is kept. Call it before and after a run, and in between at
// least every 100 ms: a step is not seen before.
func (c *Clock) Check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, wall, slack := c.sample()
	offset := wall - int64(mono)
	by := time.Duration(offset - c.offset.Load())
	switch {
	case by.Abs() > maxStep+slack:
		c.steps = append(c.steps, load.ClockStep{At: mono, By: by})
	case slack > maxStep:
		return // torn: what is known is better
	}
	c.offset.Store(offset)
}

// At returns the offset of a moment of the wall clock, in nanoseconds since 1970.
func (c *Clock) At(realtimeNS int64) time.Duration {
	return time.Duration(realtimeNS - c.offset.Load())
}

// Steps returns the jumps that were seen so far.
func (c *Clock) Steps() []load.ClockStep {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]load.ClockStep(nil), c.steps...)
}

// Package live runs the virtual engine of package core in real time, and keeps
// the counts and times that a client would measure of it.
package live

import (
	"context"
	"runtime"
	"sync"
	"time"

	"sweep.dev/sweep/sim/core"
)

// A Call is one request on its way through the engine.
type Call struct {
	req     core.Request
	arrived time.Time
	id      int // of the core; 0 while it is not there yet

	mu    sync.Mutex
	ready chan struct{} // has room for one: something is in outs
	outs  []core.Output
}

// NewCall makes a call that arrives now.
func NewCall(req core.Request) *Call {
	return &Call{req: req, arrived: time.Now(), ready: make(chan struct{}, 1)}
}

func (c *Call) push(o core.Output) {
	c.mu.Lock()
	c.outs = append(c.outs, o)
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Ready has something to receive when there is something to take.
func (c *Call) Ready() <-chan struct{} { return c.ready }

// Take appends what has come since the last Take to dst.
func (c *Call) Take(dst []core.Output) []core.Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	dst = append(dst, c.outs...)
	c.outs = c.outs[:0]
	return dst
}

// An Engine runs a core in real time: one goroutine owns the core, everybody
// else leaves orders for it, which it takes between two steps. The methods may
// be called concurrently, also after Run has returned.
type Engine struct {
	Meter *Meter
	scale float64 // virtual seconds per real second

	mu     sync.Mutex
	began  time.Time // what it says of its start
	forget bool
	adds   []*Call
	aborts []*Call
	wake   chan struct{}
	resets []chan bool
	stats  core.Stats // as of the last step
	busy   []span     // steps of the last second

	core   *core.Engine
	origin time.Time // real time of virtual zero
	calls  map[int]*Call
	pace   pacer
}

// A span is one step as the GPU saw it.
type span struct {
	start, end      time.Time
	memory, compute float64 // busy share
}

// New makes an engine that runs scale virtual seconds in a real one, with
// buckets of these bounds.
func New(cfg core.Config, scale float64, b Bounds) *Engine {
	now := time.Now()
	return &Engine{
		Meter: newMeter(cfg.MaxModelLen, b), scale: scale, began: now, wake: make(chan struct{}, 1), core: core.New(cfg), origin: now, calls: map[int]*Call{},
	}
}

func (e *Engine) order(do func()) {
	e.mu.Lock()
	do()
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Submit queues a call.
func (e *Engine) Submit(c *Call) { e.order(func() { e.adds = append(e.adds, c) }) }

// Abort takes a call out; what is already on its way may still arrive.
func (e *Engine) Abort(c *Call) { e.order(func() { e.aborts = append(e.aborts, c) }) }

// Started returns when the engine was started, as it says.
func (e *Engine) Started() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.began
}

// Restart makes start and counters those of a process that begins now. What is
// under way goes on.
func (e *Engine) Restart() {
	e.Meter.reset()
	e.order(func() { e.began, e.forget, e.stats = time.Now(), true, core.Stats{} })
}

// ResetCache empties the prefix cache; false while it is in use.
func (e *Engine) ResetCache(ctx context.Context) bool {
	done := make(chan bool, 1)
	e.order(func() { e.resets = append(e.resets, done) })
	select {
	case ok := <-done:
		return ok
	case <-ctx.Done():
		return false
	}
}

func (e *Engine) virtual(t time.Time) time.Duration {
	return time.Duration(float64(t.Sub(e.origin)) * e.scale)
}

func (e *Engine) real(v time.Duration) time.Time {
	return e.origin.Add(e.Unscale(v))
}

// Unscale returns how long a virtual duration takes.
func (e *Engine) Unscale(v time.Duration) time.Duration {
	return time.Duration(float64(v) / e.scale)
}

// Run runs steps until ctx is done.
func (e *Engine) Run(ctx context.Context) {
	// The precise sleep is a system call with this thread's own timer slack.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sharpen()

	var now time.Duration // virtual
	for ctx.Err() == nil {
		e.obey(now)
		step, ok := e.core.Begin(now)
		if !ok {
			e.publish()
			select {
			case <-ctx.Done():
			case <-e.wake:
			}
			now = max(now, e.virtual(time.Now()))
			continue
		}
		e.publish()
		e.occupy(step)
		end := e.real(step.End)
		late := e.pace.until(ctx, end)
		if ctx.Err() != nil {
			return
		}
		e.Meter.timer(late)
		if late > MaxLag {
			// The missed steps would come in a burst that no GPU makes.
			e.origin = e.origin.Add(late)
			e.Meter.resync()
		}
		outs := e.core.End()
		// A client that has read a token must find it in the counters.
		e.Meter.step(step, outs, e.Unscale)
		e.Meter.iteration(step, e.publish(), e.Unscale(step.Total))
		for _, o := range outs {
			c := e.calls[o.ID]
			if o.Finish != core.Running {
				delete(e.calls, o.ID)
			}
			c.push(o)
		}
		now = step.End
	}
}

// obey carries out the orders that were left since the last step, which ended
// now. Real time may be ahead of that by the timer's error: nothing arrives
// later than now.
func (e *Engine) obey(now time.Duration) {
	e.mu.Lock()
	adds, aborts, resets, forget := e.adds, e.aborts, e.resets, e.forget
	e.adds, e.aborts, e.resets, e.forget = nil, nil, nil, false
	e.mu.Unlock()
	if forget {
		e.core.Forget()
	}
	for _, c := range adds {
		c.id = e.core.Add(min(now, e.virtual(c.arrived)), c.req)
		e.calls[c.id] = c
	}
	for _, c := range aborts {
		if _, ok := e.calls[c.id]; ok {
			e.core.Abort(c.id)
			delete(e.calls, c.id)
			e.Meter.finished("abort")
		}
	}
	for _, done := range resets {
		done <- e.core.ResetPrefixCache()
	}
}

// publish lets everybody see the core's counters, unless they are about to be
// forgotten.
func (e *Engine) publish() core.Stats {
	stats := e.core.Stats()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.forget {
		e.stats = stats
	}
	return stats
}

// occupy records that the GPU is busy with a step.
func (e *Engine) occupy(step core.Step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := span{start: e.real(step.Start), end: e.real(step.End)}
	s.memory = min(1, step.Memory.Seconds()/step.Total.Seconds())
	s.compute = min(1, step.Compute.Seconds()/step.Total.Seconds())
	old := 0
	for old < len(e.busy) && s.start.Sub(e.busy[old].end) > time.Second {
		old++
	}
	e.busy = append(e.busy[old:], s)
}

// Load returns the share of the last second that the GPU was busy, and its memory
// and its arithmetic.
func (e *Engine) Load() (busy, memory, compute float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	from := now.Add(-time.Second)
	for _, s := range e.busy {
		start, end := s.start, s.end
		if start.Before(from) {
			start = from
		}
		if end.After(now) {
			end = now
		}
		if d := end.Sub(start).Seconds(); d > 0 {
			busy += d
			memory += d * s.memory
			compute += d * s.compute
		}
	}
	return min(1, busy), min(1, memory), min(1, compute)
}

// Stats returns the core's counters as of the last step.
func (e *Engine) Stats() core.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

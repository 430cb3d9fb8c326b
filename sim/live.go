package sim

import (
	"context"
	"runtime"
	"sync"
	"time"

	"sweep.dev/sweep/sim/core"
)

// A call is one request on its way through the engine.
type call struct {
	req     core.Request
	arrived time.Time
	id      int // of the core; 0 while it is not there yet

	mu    sync.Mutex
	ready chan struct{} // has room for one: something is in outs
	outs  []core.Output
}

func newCall(req core.Request) *call {
	return &call{req: req, arrived: time.Now(), ready: make(chan struct{}, 1)}
}

func (c *call) push(o core.Output) {
	c.mu.Lock()
	c.outs = append(c.outs, o)
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// take appends what has come since the last take to dst. ready says when.
func (c *call) take(dst []core.Output) []core.Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	dst = append(dst, c.outs...)
	c.outs = c.outs[:0]
	return dst
}

// live runs a core in real time: one goroutine owns the core, everybody else
// leaves orders for it, which it takes between two steps.
type live struct {
	scale float64 // virtual seconds per real second

	mu     sync.Mutex
	adds   []*call
	aborts []*call
	wake   chan struct{}
	resets []chan bool
	stats  core.Stats // as of the last step
	busy   []span     // steps of the last second

	core    *core.Engine
	metrics *metrics
	origin  time.Time // real time of virtual zero
	started time.Time
	calls   map[int]*call
	pace    pacer
}

// A span is one step as the GPU saw it.
type span struct {
	start, end      time.Time
	memory, compute float64 // busy share
}

func newLive(cfg core.Config, scale float64, m *metrics) *live {
	now := time.Now()
	return &live{
		scale: scale, wake: make(chan struct{}, 1), core: core.New(cfg), metrics: m,
		origin: now, started: now, calls: map[int]*call{},
	}
}

func (l *live) order(do func()) {
	l.mu.Lock()
	do()
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *live) submit(c *call) { l.order(func() { l.adds = append(l.adds, c) }) }

// abort takes a call out; what is already on its way may still arrive.
func (l *live) abort(c *call) { l.order(func() { l.aborts = append(l.aborts, c) }) }

// resetCache empties the prefix cache; false while it is in use.
func (l *live) resetCache(ctx context.Context) bool {
	done := make(chan bool, 1)
	l.order(func() { l.resets = append(l.resets, done) })
	select {
	case ok := <-done:
		return ok
	case <-ctx.Done():
		return false
	}
}

func (l *live) virtual(t time.Time) time.Duration {
	return time.Duration(float64(t.Sub(l.origin)) * l.scale)
}

func (l *live) real(v time.Duration) time.Time {
	return l.origin.Add(l.unscale(v))
}

// unscale is how long a virtual duration takes.
func (l *live) unscale(v time.Duration) time.Duration {
	return time.Duration(float64(v) / l.scale)
}

// run runs steps until ctx is done.
func (l *live) run(ctx context.Context) {
	// The precise sleep is a system call with this thread's own timer slack.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sharpen()

	var now time.Duration // virtual
	for ctx.Err() == nil {
		l.obey()
		step, ok := l.core.Begin(now)
		if !ok {
			l.publish()
			select {
			case <-ctx.Done():
			case <-l.wake:
			}
			now = max(now, l.virtual(time.Now()))
			continue
		}
		l.publish()
		l.occupy(step)
		end := l.real(step.End)
		late := l.pace.until(ctx, end)
		if ctx.Err() != nil {
			return
		}
		l.metrics.timer(late)
		if late > MaxLag {
			// The missed steps would come in a burst that no GPU makes.
			l.origin = l.origin.Add(late)
			l.metrics.resync()
		}
		outs := l.core.End()
		// Whoever has read a token must find it in the counters.
		l.metrics.step(step, outs, l.unscale)
		l.publish()
		for _, o := range outs {
			c := l.calls[o.ID]
			if o.Finish != core.Running {
				delete(l.calls, o.ID)
			}
			c.push(o)
		}
		now = step.End
	}
}

// obey carries out the orders that were left since the last step.
func (l *live) obey() {
	l.mu.Lock()
	adds, aborts, resets := l.adds, l.aborts, l.resets
	l.adds, l.aborts, l.resets = nil, nil, nil
	l.mu.Unlock()
	for _, c := range adds {
		c.id = l.core.Add(l.virtual(c.arrived), c.req)
		l.calls[c.id] = c
	}
	for _, c := range aborts {
		if _, ok := l.calls[c.id]; ok {
			l.core.Abort(c.id)
			delete(l.calls, c.id)
			l.metrics.finish("abort")
		}
	}
	for _, done := range resets {
		done <- l.core.ResetPrefixCache()
	}
}

// publish lets everybody see the core's counters.
func (l *live) publish() {
	stats := l.core.Stats()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats = stats
}

// occupy records that the GPU is busy with a step.
func (l *live) occupy(step core.Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := span{start: l.real(step.Start), end: l.real(step.End)}
	s.memory = min(1, step.Memory.Seconds()/step.Total.Seconds())
	s.compute = min(1, step.Compute.Seconds()/step.Total.Seconds())
	old := 0
	for old < len(l.busy) && s.start.Sub(l.busy[old].end) > time.Second {
		old++
	}
	l.busy = append(l.busy[old:], s)
}

// load is the share of the last second that the GPU was busy, and its memory
// and its arithmetic.
func (l *live) load() (busy, memory, compute float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	from := now.Add(-time.Second)
	for _, s := range l.busy {
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

func (l *live) snapshot() core.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

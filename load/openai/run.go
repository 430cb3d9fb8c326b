package openai

import (
	"context"
	"sync"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// A run is one Run of a driver.
type run struct {
	driver *Driver
	ctx    context.Context // once done, nothing new is sent
	base   context.Context // of the requests: done when the drain is over
	over   context.Context // done when the last request has ended
	clock  *stamp.Clock
	opts   load.Options

	background sync.WaitGroup

	mu  sync.Mutex // of src and rec
	src load.Source
	rec load.Recorder

	meter load.Meter

	evidence
}

// evidence is what the senders saw of how well they measured.
type evidence struct {
	mu                       sync.Mutex
	lag                      load.Durations
	chunks, reads, coalesced int
	stampError               time.Duration
	kernel, user             int // answers, by how they were stamped
}

// add takes in one answer that came over reads, and how it was stamped.
func (e *evidence) add(q *result.Request, reads int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.chunks += len(q.ChunkUS)
	e.coalesced += q.Coalesced
	e.stampError = max(e.stampError, q.StampError)
	e.reads += reads
	if q.Stamp == result.StampKernel {
		e.kernel++
	} else {
		e.user++
	}
}

// late takes in the lag of one read, if there is a stamp to count it from.
func (e *evidence) late(lag time.Duration) {
	if lag == result.Never {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lag.Add(lag)
}

// A prepared job needs only to be sent.
type prepared struct {
	job       load.Job
	body      []byte
	scheduled time.Duration
}

// closed runs the slots of a closed loop side by side. The first requests are
// made ready before the first is sent, so that all slots start together.
func (r *run) closed(loop load.Loop) {
	first := make([]*prepared, loop.Slots)
	busy := 0
	for slot := range first {
		if first[slot] = r.next(slot, nil); first[slot] != nil {
			busy++
		}
	}
	r.warm(busy, 0)

	start := r.opts.Start(r.ctx)
	var slots sync.WaitGroup
	for slot, p := range first {
		if p != nil {
			p.scheduled = start + p.job.At
			slots.Go(func() { r.slot(slot, p) })
		}
	}
	slots.Wait()
}

// slot sends one request after the other.
func (r *run) slot(slot int, p *prepared) {
	s := newSender(r)
	for p != nil {
		q := wire.Unsent(&p.job, p.scheduled)
		if r.wait(p.scheduled) {
			s.send(p, &q)
		}
		r.record(&q)
		if p = r.next(slot, &q); p != nil {
			p.scheduled = q.End + p.job.At
		}
	}
}

// wait sleeps until a moment of the trial, and reports whether it came before
// the run was over. It has the precision of the runtime's timers: there may be
// a thousand slots that think.
func (r *run) wait(at time.Duration) bool {
	left := at - r.opts.Anchor.Since()
	if left > 0 {
		t := time.NewTimer(left)
		defer t.Stop()
		select {
		case <-r.ctx.Done():
		case <-t.C:
		}
	}
	return r.ctx.Err() == nil
}

// open sends each request when it is due. This goroutine keeps the schedule and
// does nothing else; each request has a goroutine, which waits for the next one
// when its own has ended.
func (r *run) open(loop load.Loop) {
	limit := loop.MaxInFlight
	if limit <= 0 {
		limit = maxInFlight
	}
	timer := load.NewTimer()
	defer timer.Close()
	// The first request is made ready before the clock of the schedule starts.
	p := r.next(0, nil)
	r.warm(wire.SpareOpen, wire.SpareOpen)

	seats := make(chan struct{}, limit)
	idle := make(chan *prepared)
	var senders sync.WaitGroup
	start := r.opts.Start(r.ctx)
	for ; p != nil; p = r.next(0, nil) {
		p.scheduled = start + p.job.At
		due := timer.WaitUntil(r.ctx, r.opts.Anchor.Start.Add(p.scheduled)) == nil
		if due {
			select {
			case seats <- struct{}{}:
			case <-r.ctx.Done():
				due = false
			}
		}
		if !due {
			q := wire.Unsent(&p.job, p.scheduled)
			r.record(&q)
			continue
		}
		select {
		case idle <- p:
		default:
			first := p
			senders.Go(func() { r.sender(first, idle, seats) })
		}
	}
	close(idle)
	senders.Wait()
}

// sender sends first, and then what it is given while it is idle.
func (r *run) sender(first *prepared, idle <-chan *prepared, seats <-chan struct{}) {
	s := newSender(r)
	for p := first; p != nil; p = <-idle {
		q := wire.Unsent(&p.job, p.scheduled)
		s.send(p, &q)
		r.record(&q)
		<-seats
	}
}

// next takes a job from the source and encodes it; nil is the end.
func (r *run) next(slot int, prev *result.Request) *prepared {
	if r.ctx.Err() != nil {
		return nil
	}
	r.mu.Lock()
	job, ok := r.src.Next(slot, prev)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	return &prepared{job: job, body: r.driver.encoder.Encode(&job)}
}

// warm opens the connections that the start needs, and then holds some ready
// for what comes.
func (r *run) warm(start, spare int) {
	d := r.driver.dialer
	d.fill(r.ctx, start)
	d.measure()
	r.background.Go(func() { d.keep(r.over, spare) })
}

func (r *run) record(q *result.Request) {
	if q.End == result.Never {
		q.End = r.opts.Anchor.Since()
	}
	r.meter.Done.Add(1)
	if q.Status == result.Failed {
		r.meter.Failed.Add(1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Record(*q)
}

// drain ends what is still in flight once the run's context has been done for
// as long as the options allow.
func (r *run) drain(cancel context.CancelCauseFunc) {
	select {
	case <-r.over.Done():
		return
	case <-r.ctx.Done():
	}
	t := time.NewTimer(r.opts.Drain)
	defer t.Stop()
	select {
	case <-r.over.Done():
	case <-t.C:
		cancel(wire.ErrDrained)
	}
}

// health fills in what is known when all is over.
func (r *run) health(h *load.Health) {
	h.Client, h.StampKind, h.NetworkPath = "std", load.StampKind(r.kernel, r.user), r.driver.cfg.NetworkPath
	h.Chunks, h.Reads, h.Coalesced, h.StampError = r.chunks, r.reads, r.coalesced, r.stampError
	h.Lag = r.lag
	h.ClockSteps = r.clock.Steps()
	r.driver.dialer.health(h)
}

const (
	checkEvery   = 100 * time.Millisecond // of the wall clock
	measureEvery = 10                     // checks, of the round trips
)

// observe looks at the clock and at the network while the run lasts.
func (r *run) observe() {
	t := time.NewTicker(checkEvery)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-r.over.Done():
			return
		case <-t.C:
			r.clock.Check()
			if n%measureEvery == 0 {
				r.driver.dialer.measure()
			}
		}
	}
}

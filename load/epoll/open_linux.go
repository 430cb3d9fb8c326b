package epoll

import (
	"bytes"
	"time"

	"sweep.dev/sweep/load/wire"
)

// fetch takes the next request of an open loop and makes it ready.
func (l *loop) fetch(start time.Duration) {
	l.due = nil
	if l.run.ctx.Err() != nil {
		return
	}
	l.run.mu.Lock()
	job, ok := l.run.src.Next(0, nil)
	l.run.mu.Unlock()
	if ok {
		l.due = &pending{job: job, scheduled: start + job.At, out: bytes.Clone(l.encode(&job))}
	}
}

// keepSchedule sends what is due, and what will be so soon that it does not pay
// to sleep.
func (l *loop) keepSchedule() {
	for l.due != nil {
		now := l.clock.Now()
		if l.due.scheduled-now > spin {
			return
		}
		from := now
		for now < l.due.scheduled {
			now = l.clock.Now()
		}
		l.waited += now - from
		if !l.dispatch() {
			return
		}
	}
}

// dispatch sends the request that is due. At the bound on the requests in flight it
// waits, and its lateness is measured as schedule lag.
func (l *loop) dispatch() bool {
	if l.run.inFlight.Add(1) > l.run.limit {
		l.run.inFlight.Add(-1)
		l.atLimit = true
		return false
	}
	l.atLimit = false
	p := l.due
	s := l.pick()
	l.assign(s, &p.job, p.scheduled)
	s.out = p.out
	l.live++
	l.begin(s, p.out)
	l.fetch(l.start)
	if l.due != nil {
		l.openSpares()
	}
	return true
}

// pick returns the slot that rests the shortest, or an unused one without a
// connection; then more are held ready from now on.
func (l *loop) pick() *slot {
	for n := len(l.rested); n > 0; n = len(l.rested) {
		s := l.rested[n-1]
		l.rested = l.rested[:n-1]
		if s.state == resting {
			l.idle--
			l.timers.remove(s)
			return s
		}
		l.free = append(l.free, s)
	}
	l.spares = min(2*l.spares, wire.MaxSpare)
	return l.unused()
}

// unused returns a slot that has nothing to do.
func (l *loop) unused() *slot {
	if n := len(l.free); n > 0 {
		s := l.free[n-1]
		l.free = l.free[:n-1]
		return s
	}
	return l.adopt(new(slot))
}

// rest puts a slot without a request aside, with its connection if it has one.
func (l *loop) rest(s *slot) {
	if s.fd < 0 && s.pending {
		// Its connection comes too late for the request, and is a spare then.
		s.state = unused
		return
	}
	if s.fd < 0 {
		s.state = unused
		l.free = append(l.free, s)
		return
	}
	s.state = resting
	l.idle++
	l.rested = append(l.rested, s)
	l.timers.set(s, l.clock.Now()+idleTimeout)
}

// openSpares opens connections for the requests to come, before the last one at
// rest is taken.
func (l *loop) openSpares() {
	if l.run.driver.cfg.FreshConnections {
		return
	}
	for ; l.idle+l.coming < l.spares; l.coming++ {
		l.open(nil)
	}
}

package epoll

import (
	"bytes"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

const (
	// readBuffer holds what one read takes: more than a socket does by default.
	readBuffer = 256 << 10
	// longestWait bounds the wait of a loop, as a last resort: to stop the world
	// the runtime sends its thread a signal, which ends the wait at once.
	longestWait = 25 * time.Millisecond
	// lookEvery is how often the wall clock is held against the monotonic one.
	lookEvery = 50 * time.Millisecond
	// spin is how long before its instant an open loop stops to sleep and burns
	// the rest: the kernel wakes up tens of microseconds late.
	spin = 100 * time.Microsecond
	// idleTimeout is below the 5 s after which common servers (uvicorn,
	// cpp-httplib) close an idle connection, so that a request does not meet
	// the close on its way; dialAhead is how long before it is needed a
	// connection is opened again.
	idleTimeout = 4 * time.Second
	dialAhead   = time.Second
)

// A loop is one event loop and all that it needs. Only its own goroutine
// touches it, except for the inbox.
type loop struct {
	run    *run
	poller *poller
	clock  *stamp.Clock
	buf    []byte
	oob    [stamp.ControlSize]byte
	slots  []*slot
	timers timers
	live   int // slots that have a request, or in a closed loop may get one

	parser  *sse.Parser // for streams that are between two events
	parsers []*sse.Parser
	event   sse.Event
	scratch wire.Scratch
	request bytes.Buffer
	header  http.Header

	// Of an open loop.
	start   time.Duration
	due     *pending // the next request; nil once there are no more
	rested  []*slot  // perhaps resting, the last to have been used at the end
	free    []*slot  // unused
	idle    int      // slots that rest
	spares  int
	coming  int // spare connections being opened
	atLimit bool

	inbox struct {
		sync.Mutex
		messages []message
	}

	waited              time.Duration // in which there was nothing to do
	busyShare           float64
	chunks, reads       int
	coalesced           int
	kernel, user        int // requests by how they were stamped
	cold, reopened      int
	retransmits, tokens int
	stampError          time.Duration
	lag, rtt            load.Durations
}

// A pending request of an open loop needs only to be sent.
type pending struct {
	job       load.Job
	scheduled time.Duration
	out       []byte
}

// A message is what another goroutine has done for the loop.
type message struct {
	slot *slot // nil: a spare connection
	fd   int   // -1: none
	err  error
	done bool // the answer of a slot that was away is complete
}

func newLoop(r *run) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	return &loop{
		run: r, poller: p, clock: r.clock, buf: make([]byte, readBuffer),
		parser: new(sse.Parser), header: http.Header{},
	}, nil
}

// close closes what is open, once the loop has ended or before it began.
func (l *loop) close() {
	for _, s := range l.slots {
		if s.fd >= 0 {
			_ = unix.Close(int(s.fd))
			s.fd = -1
		}
	}
	for _, m := range l.inbox.messages {
		if m.fd >= 0 {
			_ = unix.Close(m.fd)
		}
	}
	l.poller.close()
}

// post is for other goroutines.
func (l *loop) post(m message) {
	l.inbox.Lock()
	l.inbox.messages = append(l.inbox.messages, m)
	l.inbox.Unlock()
	l.poller.notify()
}

// main runs the loop until all of its requests have ended.
func (l *loop) main(start time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer fineTimers()()
	// The schedule counts from start: the preparation takes none of its time.
	l.start = start
	if l.run.open {
		if l.due != nil {
			l.due.scheduled += start
		}
	} else {
		l.first()
	}
	drained, look := false, start
	for l.live > 0 || l.due != nil {
		now := l.clock.Now()
		wait := min(longestWait, l.timers.next()-now)
		if l.due != nil {
			wait = min(wait, l.due.scheduled-spin-now)
			if l.atLimit {
				// Another loop may have given back a seat.
				wait = max(wait, spin)
			}
		}
		n := l.poller.wait(wait)
		woken := l.clock.Now()
		l.waited += woken - now
		for i := range n {
			e := &l.poller.events[i]
			if e.Fd == wakeIndex {
				l.poller.notified()
				l.receive()
				continue
			}
			if s := l.slots[e.Fd]; s.gen == e.Pad && s.fd >= 0 {
				now = l.ready(s, e.Events)
			}
			if l.due != nil && now >= l.due.scheduled && !l.atLimit {
				l.dispatch()
			}
		}
		l.expire(woken)
		if l.due != nil {
			l.keepSchedule()
		}
		if woken >= look {
			l.clock.Check()
			look = woken + lookEvery
		}
		if l.tokens > 0 {
			l.run.meter.Tokens.Add(int64(l.tokens))
			l.tokens = 0
		}
		if !drained && l.run.drained.Load() {
			drained = true
			l.abandon()
		}
	}
	if wall := l.clock.Now() - start; wall > 0 {
		l.busyShare = max(0, 1-float64(l.waited)/float64(wall))
	}
}

// first sends the first requests of a closed loop back to back.
func (l *loop) first() {
	for _, s := range l.slots {
		// The job's offset was kept there until the start is known.
		s.req.Scheduled += l.start
		if s.req.Scheduled > l.start {
			l.later(s)
			continue
		}
		l.begin(s, s.out)
	}
}

// expire does what is due by the timers.
func (l *loop) expire(now time.Duration) {
	for len(l.timers) > 0 && l.timers[0].alarm <= now {
		s := l.timers[0]
		l.timers.remove(s)
		switch s.state {
		case resting:
			// The server is about to close it.
			l.hangUp(s)
		case waiting:
			l.later(s)
		case dialing, asked, told:
			l.giveUp(s, s.reason())
		case ending:
			l.judge(s, nil, now)
			l.finish(s, false)
		}
	}
}

// reason returns why a request is given up at its time.
func (s *slot) reason() error {
	if s.planned {
		return wire.PlannedError(s.cancelAfter)
	}
	return wire.DeadlineError(s.deadline)
}

// receive takes in what other goroutines have done.
func (l *loop) receive() {
	l.inbox.Lock()
	messages := l.inbox.messages
	l.inbox.messages = nil
	l.inbox.Unlock()
	for _, m := range messages {
		switch {
		case m.done:
			l.back(m.slot, m.fd)
		case m.slot == nil:
			l.coming--
			if m.fd >= 0 {
				s := l.unused()
				l.connect(s, m.fd)
				l.rest(s)
			}
		default:
			l.dialed(m.slot, m.fd, m.err)
		}
	}
	if l.run.ctx.Err() == nil {
		return
	}
	// Nothing new is sent.
	for _, s := range l.slots {
		if s.state == waiting {
			l.timers.remove(s)
			l.run.record(&s.req, s.place, false)
			l.end(s)
		}
	}
	if l.due != nil {
		q := wire.Unsent(&l.due.job, l.due.scheduled)
		l.run.record(&q, 0, false)
		l.due = nil
	}
}

// abandon ends all that is in flight: the time to drain is over. What is away
// ends by itself.
func (l *loop) abandon() {
	for _, s := range l.slots {
		switch s.state {
		case dialing, asked, told:
			l.giveUp(s, wire.ErrDrained)
		case ending:
			l.judge(s, nil, l.clock.Now())
			l.finish(s, false)
		}
	}
}

// later has a closed loop's slot send when its request is due. A connection
// that would be idle for long is closed now, and opened again in time.
func (l *loop) later(s *slot) {
	now, at := l.clock.Now(), s.req.Scheduled
	s.state = waiting
	switch {
	case at <= now:
		l.begin(s, s.out)
		return
	case l.run.driver.cfg.FreshConnections:
	case at-now > idleTimeout:
		if s.fd >= 0 {
			l.hangUp(s)
		}
		at -= dialAhead
	case s.fd < 0 && !s.pending:
		l.open(s)
	}
	l.timers.set(s, at)
}

// begin sends a request that is due, at once or as soon as there is a
// connection for it. out may be the loop's buffer.
func (l *loop) begin(s *slot, out []byte) {
	now := l.clock.Now()
	s.req.Status, s.req.Error = "", ""
	s.req.Sent = now
	l.run.meter.Sent.Add(1)
	s.until, s.planned = result.Never, false
	if s.deadline > 0 {
		s.until = now + s.deadline
	}
	if at := now + s.cancelAfter; s.cancelAfter > 0 && (s.until == result.Never || at < s.until) {
		s.until, s.planned = at, true
	}
	if s.until != result.Never {
		l.timers.set(s, s.until)
	} else {
		l.timers.remove(s)
	}
	if s.fd >= 0 {
		l.write(s, out)
		return
	}
	s.state = dialing
	s.req.Fresh = true
	l.cold++
	if s.lost && !l.run.driver.cfg.FreshConnections {
		l.reopened++
	}
	s.lost = false
	if len(s.out) == 0 {
		s.out = bytes.Clone(out)
	}
	if !s.pending {
		l.open(s)
	}
}

// write sends the request.
func (l *loop) write(s *slot, out []byte) {
	s.state = asked
	s.nreads, s.marked = 0, true
	s.req.Sent = l.clock.Now()
	s.last = s.req.Sent
	n, errno := send(int(s.fd), out)
	switch {
	case errno != 0 && errno != unix.EAGAIN:
		l.broken(s, l.failure(s, "write", errno))
	case n == len(out):
		s.out = nil
	case len(s.out) == 0:
		s.out = bytes.Clone(out[n:])
	default:
		s.out = s.out[n:]
	}
}

// writable goes on with a request that did not fit.
func (l *loop) writable(s *slot) {
	n, errno := send(int(s.fd), s.out)
	switch {
	case errno == unix.EAGAIN:
	case errno != 0:
		l.broken(s, l.failure(s, "write", errno))
	default:
		s.out = s.out[n:]
	}
}

// giveUp ends a request that did not end by itself. The connection is closed:
// so the server notices.
func (l *loop) giveUp(s *slot, why error) {
	now := l.clock.Now()
	if s.state == told {
		l.judge(s, why, now)
	} else {
		wire.NoAnswer(&s.req, why, nil, now)
	}
	l.finish(s, false)
}

// finish records the request and goes on to the slot's next one. reuse says that
// the connection is at the end of its answer.
func (l *loop) finish(s *slot, reuse bool) {
	l.timers.remove(s)
	l.count(s)
	if s.fd >= 0 && (!reuse || l.run.driver.cfg.FreshConnections) {
		l.hangUp(s)
	}
	if s.parser != nil {
		l.parsers = append(l.parsers, s.parser)
		s.parser = nil
	}
	s.tail, s.out = nil, nil
	if l.run.open {
		l.run.record(&s.req, 0, false)
		l.live--
		l.run.inFlight.Add(-1)
		l.atLimit = false
		l.rest(s)
		return
	}
	job, ok := l.run.record(&s.req, s.place, true)
	if !ok {
		l.end(s)
		return
	}
	scheduled := s.req.End + job.At
	l.assign(s, &job, scheduled)
	out := l.encode(&job)
	if scheduled <= l.clock.Now() && l.run.ctx.Err() == nil {
		l.begin(s, out)
		return
	}
	s.out = bytes.Clone(out)
	l.later(s)
}

// end ends a closed loop's slot.
func (l *loop) end(s *slot) {
	s.state = unused
	s.out = nil
	l.live--
}

// count adds what the request says to the health of the client.
func (l *loop) count(s *slot) {
	q := &s.req
	l.chunks += len(q.ChunkUS)
	l.coalesced += q.Coalesced
	l.stampError = max(l.stampError, q.StampError)
	switch q.Stamp {
	case result.StampKernel:
		l.kernel++
	case result.StampUser:
		l.user++
	}
	if s.fd >= 0 {
		l.sample(s)
	}
}

// sample asks TCP for the round trip of a connection.
func (l *loop) sample(s *slot) {
	if rtt, again, ok := stamp.TCP(int(s.fd)); ok {
		l.rtt.Add(rtt)
		l.retransmits += max(0, again-s.retrans)
		s.retrans = again
	}
}

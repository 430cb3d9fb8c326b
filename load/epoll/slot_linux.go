package epoll

import (
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/http1"
	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// A state is what a slot is at.
type state uint8

const (
	unused  state = iota // nothing to send any more, or not yet
	resting              // open loop: a connection without a request
	waiting              // closed loop: the request is not due yet
	dialing              // due, and without a connection
	asked                // sent, perhaps not all of it; no head yet
	told                 // the body comes
	ending               // there was enough; the end of the body is waited for
	away                 // handed to net/http
)

// A slot is a connection and the request on it. In a closed loop it is the
// source's slot; an open loop has as many as it needs.
type slot struct {
	// The fields that each read touches come first.
	fd     int32 // -1 without a connection
	gen    int32 // counts the connections, so that a late event finds no other
	state  state
	keep   bool // the connection may be used again
	marked bool // all reads were stamped by the kernel
	body   http1.Body
	sse    sse.State
	parser *sse.Parser   // of its own, while the stream is in the middle of an event
	tail   []byte        // of HTTP: the start of something that has not come whole
	last   time.Duration // receive time of the last read, or when the request was sent
	left   int64         // bytes that the answer may still have
	nreads int

	answer wire.Answer
	req    result.Request

	loop  *loop
	index int32 // in the loop's slots
	place int   // the source's slot
	out   []byte

	deadline, cancelAfter time.Duration // the job's
	keepAnswer            bool
	until                 time.Duration // when the request is given up, or Never
	planned               bool          // because the plan says so

	alarm time.Duration // when the slot's timer ends
	heap  int           // its place among the timers, or -1

	pending bool // a dial is under way
	lost    bool // the server closed the last connection
	retrans int  // segments sent again on this connection, as far as counted
}

// adopt makes s a slot of the loop.
func (l *loop) adopt(s *slot) *slot {
	*s = slot{fd: -1, heap: -1, loop: l, index: int32(len(l.slots)), until: result.Never}
	l.slots = append(l.slots, s)
	return s
}

// assign gives s a request that is yet to be sent.
func (l *loop) assign(s *slot, job *load.Job, scheduled time.Duration) {
	s.req = wire.Unsent(job, scheduled)
	s.deadline, s.cancelAfter, s.keepAnswer = job.Deadline, job.CancelAfter, job.KeepAnswer
	s.until = result.Never
}

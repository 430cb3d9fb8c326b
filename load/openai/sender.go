package openai

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// A sender sends requests one after the other with the same buffers.
type sender struct {
	run      *run
	receiver wire.Receiver

	// Of the request under way.
	stamps *stamp.Conn
	last   stamp.Reading // of the stream
	reads  int           // that brought chunks
	known  int           // the last of them
}

func newSender(r *run) *sender {
	s := &sender{run: r}
	s.receiver = wire.Receiver{Config: &r.driver.cfg, Now: s.now, Mark: s.mark, Tokens: s.brought}
	return s
}

// mark returns that of what was read last.
func (s *sender) mark() wire.Mark {
	s.last = s.stamps.Last()
	return s.last.Mark
}

// brought takes in that the last read brought chunks, and so many with a token.
func (s *sender) brought(tokens int) {
	s.run.meter.Tokens.Add(int64(tokens))
	if s.last.Read != s.known {
		s.known = s.last.Read
		s.reads++
		s.run.late(s.last.Lag)
	}
}

// A transit is one request on its way. It is written by net/http, perhaps after
// the request has been given up; so each request has its own.
type transit struct {
	conn      atomic.Pointer[conn]
	cold      atomic.Bool
	unstamped atomic.Int64 // reads of the connection before the answer
	firstByte atomic.Int64
}

// trace has net/http tell which connection a request got, and when its answer
// began.
func (t *transit) trace() *httptrace.ClientTrace {
	t.firstByte.Store(int64(result.Never))
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if c, ok := info.Conn.(*conn); ok {
				c.arm()
				t.cold.Store(c.cold && !info.Reused)
				t.unstamped.Store(int64(c.stamps.Last().Unstamped))
				t.conn.Store(c)
			}
		},
		GotFirstResponseByte: func() {
			// Called by the goroutine that read it.
			t.firstByte.Store(int64(t.conn.Load().stamps.Last().At))
		},
	}
}

func (s *sender) now() time.Duration { return s.run.opts.Anchor.Since() }

// send sends p and fills q with what came of it.
func (s *sender) send(p *prepared, q *result.Request) {
	q.Status, q.Error = "", ""
	ctx, cancel := context.WithCancelCause(s.run.base)
	defer cancel(nil)
	if d := p.job.Deadline; d > 0 {
		t := time.AfterFunc(d, func() { cancel(wire.DeadlineError(d)) })
		defer t.Stop()
	}
	if d := p.job.CancelAfter; d > 0 {
		defer s.giveUp(d, cancel)()
	}
	var way transit
	req := s.request(httptrace.WithClientTrace(ctx, way.trace()), p)

	s.run.meter.Sent.Add(1)
	asked := s.now()
	resp, err := s.run.driver.transport.RoundTrip(req)
	q.Sent = asked
	c := way.conn.Load()
	if c != nil {
		if t := c.written(); t != result.Never {
			q.Sent = t
		}
		q.Fresh = way.cold.Load()
	}
	q.FirstByte = time.Duration(way.firstByte.Load())
	if err != nil {
		wire.NoAnswer(q, context.Cause(ctx), err, s.now())
		return
	}
	defer resp.Body.Close()
	// Before Body.Close, which may wait for an answer that is not wanted.
	defer cancel(wire.ErrEnough)
	s.stamps, s.reads, s.known = c.stamps, 0, 0
	s.receiver.Receive(ctx, cancel, resp, q, p.job.KeepAnswer)
	q.Stamp = result.StampKernel
	if c.stamps.Last().Unstamped > int(way.unstamped.Load()) {
		q.Stamp = result.StampUser
	}
	s.run.add(q, s.reads)
}

// giveUpLead is how long before a request is given up on purpose a connection
// is opened for the one that follows: its own will be thrown away.
const giveUpLead = 100 * time.Millisecond

// giveUp gives a request up after d. The function that it returns forgets it.
func (s *sender) giveUp(d time.Duration, cancel context.CancelCauseFunc) func() {
	dialer := s.run.driver.dialer
	soon := time.AfterFunc(d-giveUpLead, func() { dialer.reserve(1) })
	t := time.AfterFunc(d, func() { cancel(wire.PlannedError(d)) })
	return func() {
		t.Stop()
		if !soon.Stop() {
			dialer.reserve(-1)
		}
	}
}

func (s *sender) request(ctx context.Context, p *prepared) *http.Request {
	d := s.run.driver
	req := &http.Request{
		Method: http.MethodPost, URL: d.url, Host: d.url.Host, Header: d.header.Clone(),
		ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(p.body)),
		// Without GetBody net/http cannot send a request a second time, which
		// it would do unseen when a connection breaks that it used before.
		Body: io.NopCloser(bytes.NewReader(p.body)),
	}
	d.cfg.RequestHeader(req.Header, &p.job, s.run.opts.RequestID)
	return req.WithContext(ctx)
}

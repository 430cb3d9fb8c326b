package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// tailTimeout is how long the end of a connection's answer is waited for once
// its content is complete. It nearly always comes with it; a server that keeps
// the connection open loses it.
const tailTimeout = 250 * time.Millisecond

// A sender sends requests one after the other with the same buffers.
type sender struct {
	run    *run
	buf    []byte
	parser sse.Parser
	stream wire.Answer
}

func newSender(r *run) *sender { return &sender{run: r, buf: make([]byte, readBuffer)} }

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
		t := time.AfterFunc(d, func() { cancel(fmt.Errorf("%w (%s)", wire.ErrDeadline, d)) })
		defer t.Stop()
	}
	if d := p.job.CancelAfter; d > 0 {
		defer s.giveUp(d, cancel)()
	}
	var way transit
	req := s.request(httptrace.WithClientTrace(ctx, way.trace()), p)

	s.run.sent.Add(1)
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
	q.HTTPStatus = resp.StatusCode
	reads := s.answer(ctx, resp, c.stamps, p, q, cancel)
	q.Stamp = result.StampKernel
	if c.stamps.Last().Unstamped > int(way.unstamped.Load()) {
		q.Stamp = result.StampUser
	}
	s.run.add(q, reads)
}

// giveUpLead is how long before a request is given up on purpose a connection
// is opened for the one that follows: its own will be thrown away.
const giveUpLead = 100 * time.Millisecond

// giveUp gives a request up after d. The function that it returns forgets it.
func (s *sender) giveUp(d time.Duration, cancel context.CancelCauseFunc) func() {
	dialer := s.run.driver.dialer
	soon := time.AfterFunc(d-giveUpLead, func() { dialer.reserve(1) })
	t := time.AfterFunc(d, func() { cancel(fmt.Errorf("%w, after %s", wire.ErrPlanned, d)) })
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

// answer reads an answer to its end and returns how many reads brought chunks.
func (s *sender) answer(ctx context.Context, resp *http.Response, stamps *stamp.Conn, p *prepared, q *result.Request, cancel context.CancelCauseFunc) int {
	cfg := &s.run.driver.cfg
	st := &s.stream
	st.Begin(q, cfg.Stream && cfg.IncludeUsage, p.job.KeepAnswer)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var cause error
	reads := 0
	switch {
	case resp.StatusCode != http.StatusOK:
		body, err := s.read(ctx, resp, wire.MaxErrorBody)
		if err != nil && context.Cause(ctx) != nil {
			cause = err
			break
		}
		st.Fail(wire.ClassOfStatus(resp.StatusCode), wire.StatusText(resp.StatusCode, resp.Header.Get("Retry-After"), body), s.now())
	case resp.Header.Get("Content-Encoding") != "":
		st.Fail(result.ErrProtocol, "the answer is compressed, which was not asked for", s.now())
	case !cfg.Stream:
		var body []byte
		if body, cause = s.read(ctx, resp, cfg.MaxResponse); cause == nil {
			st.Whole(body, s.now())
		}
	case media == "application/json" || media == "text/html":
		cause = s.notStream(ctx, resp, media)
	default:
		size := min(q.MaxTokens, 4096) + 4
		q.ChunkUS, q.ChunkTokens = make([]int32, 0, size), make([]int32, 0, size)
		reads, cause = s.events(ctx, resp, stamps, q, cancel)
	}
	st.Close(cause, s.now())
	return reads
}

func (s *sender) notStream(ctx context.Context, resp *http.Response, media string) error {
	body, err := s.read(ctx, resp, wire.MaxErrorBody)
	if err != nil && context.Cause(ctx) != nil {
		return err
	}
	s.stream.NotStream(media, body, s.now())
	return nil
}

// read reads an answer to its end, but at most limit bytes.
func (s *sender) read(ctx context.Context, resp *http.Response, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return body, context.Cause(ctx)
	case err != nil:
		return body, err
	case int64(len(body)) > limit:
		return body[:limit], wire.ErrTooLarge
	}
	return body, nil
}

// events reads a stream to its end and returns how many reads brought chunks,
// and why it ended: io.EOF, nil where there was enough, or what broke it.
func (s *sender) events(ctx context.Context, resp *http.Response, stamps *stamp.Conn, q *result.Request, cancel context.CancelCauseFunc) (reads int, cause error) {
	st := &s.stream
	s.parser.Reset()
	left := s.run.driver.cfg.MaxResponse
	var ev sse.Event
	var last stamp.Reading
	for {
		n, err := resp.Body.Read(s.buf)
		left -= int64(n)
		if n > 0 && !st.Enough() {
			m := stamps.Last()
			if last.Read > 0 && m.Read > last.Read+1 {
				// More than one read: what came with an earlier one came
				// after the last one that is known.
				m.After = last.At
			}
			tokens, chunks := st.Tokens(), len(q.ChunkUS)
			s.parser.Feed(s.buf[:n])
			for !st.Enough() && s.parser.Next(&ev) {
				st.Event(&ev, m.Mark)
			}
			if e := s.parser.Err(); e != nil && !st.Enough() {
				st.Fail(result.ErrProtocol, e.Error(), m.At)
			}
			if n := st.Tokens() - tokens; n > 0 {
				s.run.tokens.Add(int64(n))
			}
			if m.Read != last.Read && len(q.ChunkUS) > chunks {
				reads++
				s.run.late(m.Lag)
			}
			last = m
			if st.Enough() && err == nil {
				// Read on: a connection that is left before its end cannot be
				// used again. What comes now is not looked at.
				t := time.AfterFunc(tailTimeout, func() { cancel(wire.ErrEnough) })
				defer t.Stop()
				left = min(left, wire.MaxErrorBody)
			}
		}
		switch {
		case err != nil && st.Enough():
			return reads, nil
		case errors.Is(err, io.EOF):
			s.flush(last.Mark)
			return reads, io.EOF
		case err != nil && context.Cause(ctx) != nil:
			return reads, context.Cause(ctx)
		case err != nil:
			return reads, err
		case left < 0 && st.Enough():
			return reads, nil
		case left < 0:
			st.Fail(result.ErrProtocol, wire.ErrTooLarge.Error(), s.now())
			return reads, nil
		}
	}
}

// flush takes in an event that lacks its blank line.
func (s *sender) flush(m wire.Mark) {
	var ev sse.Event
	if s.parser.Flush(&ev) {
		s.stream.Rest(&ev, m)
	}
}

package epoll

import (
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/load/http1"
	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// ready reads what has come on a connection, and returns the time at which it
// looked.
func (l *loop) ready(s *slot, events uint32) time.Duration {
	if len(s.out) > 0 && s.state == asked && events&unix.EPOLLOUT != 0 {
		if l.writable(s); s.state != asked {
			return l.clock.Now()
		}
	}
	gen := s.gen
	for {
		have := copy(l.buf, s.tail)
		n, wall, errno := stamp.Recv(int(s.fd), l.buf[have:], l.oob[:])
		now := l.clock.Now()
		switch {
		case errno == unix.EAGAIN:
			return now
		case errno != 0:
			l.broken(s, l.failure(s, "read", errno))
			return now
		case n == 0:
			l.closed(s)
			return now
		}
		s.tail = s.tail[:0]
		m := l.mark(s, wall, now)
		l.take(s, l.buf[:have+n], m)
		// A short read took all there was; what comes later is an event of its
		// own, but the end of the connection may be in this one.
		all := n < len(l.buf)-have && events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) == 0
		if all || s.gen != gen || s.fd < 0 {
			return now
		}
	}
}

// mark returns when the bytes of a read that returned at now were received.
func (l *loop) mark(s *slot, wall int64, now time.Duration) wire.Mark {
	s.nreads++
	m := wire.Mark{At: now, After: s.last, Read: s.nreads}
	if wall == 0 {
		s.marked = false
	} else {
		at := l.clock.At(wall)
		if at > now || at < s.last {
			// The wall clock was set since the last check.
			l.clock.Check()
			at = l.clock.At(wall)
		}
		// Segments come in order: what is read later came later.
		m.At = min(max(at, s.last), now)
		l.lag.Add(now - m.At)
	}
	s.last = m.At
	return m
}

// take takes in the bytes of one read, after those that were left of the one
// before.
func (l *loop) take(s *slot, b []byte, m wire.Mark) {
	switch s.state {
	case told, ending:
		l.stream(s, b, m)
		return
	case asked:
	default:
		// Bytes that no request asked for: what comes next cannot be trusted.
		l.drop(s)
		return
	}
	if s.req.FirstByte == result.Never {
		s.req.FirstByte = m.At
	}
	// Interim answers are kept until the one that counts is there: what is
	// handed over has to be whole.
	for all := b; ; {
		h, n, err := http1.ParseHead(b)
		switch {
		case err == http1.ErrMore && len(all) <= 2*http1.MaxHead: //nolint:errorlint // never wrapped
			s.hold(all)
			return
		case err != nil:
			l.handOver(s, all, nil)
			return
		}
		b = b[n:]
		if !h.Interim {
			s.body, s.keep = h.Body, h.Keep
			break
		}
	}
	cfg := &l.run.driver.cfg
	s.state = told
	s.req.HTTPStatus = 200
	s.req.Stamp = result.StampUser
	if s.marked {
		s.req.Stamp = result.StampKernel
	}
	s.left = cfg.ResponseLimit(s.req.MaxTokens)
	s.sse = sse.State{}
	wire.Lists(&s.req)
	s.answer.Share(&l.scratch)
	s.answer.Begin(&s.req, cfg.Stream && cfg.IncludeUsage, s.keepAnswer)
	l.stream(s, b, m)
}

// stream takes in bytes of the body.
func (l *loop) stream(s *slot, b []byte, m wire.Mark) {
	st, p := &s.answer, s.parser
	if p == nil {
		p = l.parser
		p.Resume(s.sse)
	}
	tokens, chunks := st.Tokens(), len(s.req.ChunkUS)
	var why error
	for why == nil {
		var content []byte
		var n int
		content, n, why = s.body.Next(b)
		b = b[n:]
		s.left -= int64(len(content))
		if st.Wants() && len(content) > 0 {
			p.Feed(content)
			for st.Wants() && p.Next(&l.event) {
				st.Event(&l.event, m)
			}
			if err := p.Err(); err != nil && !st.Enough() {
				st.Fail(result.ErrProtocol, err.Error(), m.At)
			}
			if s.left < 0 && !st.Enough() {
				st.Fail(result.ErrProtocol, wire.ErrTooLarge.Error(), m.At)
			}
			if st.Enough() {
				s.left = min(s.left, wire.MaxErrorBody)
			}
		}
		if s.left < 0 {
			break
		}
	}
	l.tokens += st.Tokens() - tokens
	if len(s.req.ChunkUS) > chunks {
		l.reads++
	}
	if !s.marked {
		s.req.Stamp = result.StampUser
	}
	if s.left < 0 {
		l.judge(s, nil, m.At)
		l.finish(s, false)
		return
	}
	if why == http1.ErrMore { //nolint:errorlint // never wrapped, and this is run for every chunk
		s.hold(b)
		l.pause(s, p)
		if st.Enough() && s.state != ending {
			s.state = ending
			l.timers.set(s, l.clock.Now()+wire.TailTimeout)
		}
		return
	}
	switch {
	case errors.Is(why, io.EOF):
		if !st.Enough() && p.Flush(&l.event) {
			st.Rest(&l.event, m)
		}
		l.judge(s, why, m.At)
		s.lost = !s.keep
		l.finish(s, s.keep && len(b) == 0 && len(s.out) == 0)
	case errors.Is(why, http1.ErrOdd):
		l.pause(s, p)
		l.handOver(s, b, nil)
	default:
		l.judge(s, why, m.At)
		l.finish(s, false)
	}
}

// pause keeps what is known of the stream until its next bytes come: nearly
// always it stands between two events, and needs no parser of its own.
func (l *loop) pause(s *slot, p *sse.Parser) {
	state, whole := p.Between()
	if s.answer.Enough() {
		whole = true // what comes is of no interest
	}
	switch {
	case whole && s.parser != nil:
		l.parsers = append(l.parsers, s.parser)
		s.parser = nil
	case !whole && s.parser == nil:
		s.parser = p
		l.parser = l.spareParser()
	}
	s.sse = state
}

func (l *loop) spareParser() *sse.Parser {
	n := len(l.parsers)
	if n == 0 {
		return new(sse.Parser)
	}
	p := l.parsers[n-1]
	l.parsers = l.parsers[:n-1]
	return p
}

// hold keeps the start of something that has not come whole.
func (s *slot) hold(b []byte) {
	if len(b) == 0 {
		return
	}
	s.tail = append(s.tail[:0], b...)
}

// judge ends the answer; cause is why its reading ended.
func (l *loop) judge(s *slot, cause error, at time.Duration) {
	if s.answer.Enough() {
		cause = nil
	}
	s.answer.Close(cause, at)
}

// closed handles the end of a connection by the server.
func (l *loop) closed(s *slot) {
	switch s.state {
	case asked:
		l.handOver(s, s.tail, io.EOF)
	case told, ending:
		why := s.body.EOF()
		if errors.Is(why, http1.ErrTrailer) {
			l.handOver(s, s.tail, io.EOF)
			return
		}
		now := l.clock.Now()
		if errors.Is(why, io.EOF) && !s.answer.Enough() && s.parser != nil && s.parser.Flush(&l.event) {
			s.answer.Rest(&l.event, wire.Mark{At: now, After: s.last, Read: s.nreads + 1})
		}
		l.judge(s, why, now)
		s.lost = true
		l.finish(s, false)
	default:
		l.drop(s)
	}
}

// broken handles the end of a connection by an error.
func (l *loop) broken(s *slot, err error) {
	switch s.state {
	case asked:
		l.handOver(s, s.tail, err)
	case told, ending:
		l.judge(s, err, l.clock.Now())
		s.lost = true
		l.finish(s, false)
	default:
		l.drop(s)
	}
}

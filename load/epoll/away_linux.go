package epoll

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// A handover is an answer that net/http is to read: what has come of it, and
// where the rest comes from.
type handover struct {
	loop *loop
	slot *slot // not touched by the loop until it is back
	came []byte
	fd   int   // -1: nothing more will come,
	end  error // because of this
	body bool  // the head was read by the loop
	mark wire.Mark
}

// handOver gives the answer to s to net/http: b has come of it, and end is why
// no more will come, nil if the connection is whole.
func (l *loop) handOver(s *slot, b []byte, end error) {
	e := &handover{loop: l, slot: s, fd: -1, end: end, body: s.state != asked}
	if e.body {
		if s.answer.Enough() {
			// Its end alone was waited for.
			l.judge(s, nil, l.clock.Now())
			l.finish(s, false)
			return
		}
		e.came = append(e.came, s.body.Resume()...)
	}
	e.came = append(e.came, b...)
	e.mark = wire.Mark{At: s.last, After: s.last, Read: max(1, s.nreads)}
	if end != nil {
		_ = unix.Close(int(s.fd))
	} else {
		e.fd = int(s.fd)
		_ = unix.EpollCtl(l.poller.fd, unix.EPOLL_CTL_DEL, e.fd, nil)
	}
	s.fd = -1
	s.gen++
	s.state = away
	s.tail = nil
	l.timers.remove(s)
	if s.parser == nil {
		s.parser = l.parser
		s.parser.Resume(s.sse)
		l.parser = l.spareParser()
	}
	l.run.helpers.Go(e.run)
}

// back takes in the answer of a slot that was away, and its connection if that
// can be used again.
func (l *loop) back(s *slot, fd int) {
	if fd >= 0 {
		l.connect(s, fd)
	}
	l.finish(s, fd >= 0)
}

// run reads the answer.
func (e *handover) run() {
	s, r := e.slot, e.loop.run
	ctx, cancel := context.WithCancelCause(r.base)
	defer cancel(nil)
	if s.until != result.Never {
		t := time.AfterFunc(s.until-r.clock.Now(), func() { cancel(s.reason()) })
		defer t.Stop()
	}
	fd := -1
	if conn, err := e.connect(); err != nil {
		wire.NoAnswer(&s.req, nil, err, r.clock.Now())
	} else if e.read(ctx, cancel, conn) && conn != nil {
		fd = e.again(conn)
	} else if conn != nil {
		conn.Close()
	}
	e.loop.post(message{slot: s, fd: fd, done: true})
}

// connect makes the file a connection of the runtime's; nil if there is
// none.
func (e *handover) connect() (*stamp.Conn, error) {
	if e.fd < 0 {
		return nil, nil
	}
	f := os.NewFile(uintptr(e.fd), "tcp")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("connection: %w", err)
	}
	return stamp.Wrap(c, e.loop.run.clock), nil
}

// again takes the connection back from the runtime.
func (e *handover) again(c *stamp.Conn) int {
	fd, err := detach(c.Conn)
	if err != nil {
		return -1
	}
	return fd
}

// read reads the answer from conn, and reports whether that can be used again.
func (e *handover) read(ctx context.Context, cancel context.CancelCauseFunc, conn *stamp.Conn) bool {
	s, r := e.slot, e.loop.run
	rest := io.Reader(&fault{e.end})
	if conn != nil {
		rest = conn
		stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	limited := &limitedReader{r: io.MultiReader(bytes.NewReader(e.came), rest), left: maxHeader}
	in := bufio.NewReaderSize(limited, 16<<10)
	mark := func() wire.Mark {
		if conn == nil || conn.Last().Read == 0 {
			return e.mark
		}
		m := conn.Last().Mark
		m.Read += e.mark.Read
		return m
	}
	if _, err := in.Peek(1); err == nil && s.req.FirstByte == result.Never {
		s.req.FirstByte = mark().At
	}
	resp, err := e.head(in, limited)
	if err != nil {
		wire.NoAnswer(&s.req, context.Cause(ctx), err, r.clock.Now())
		s.lost = context.Cause(ctx) == nil
		return false
	}
	defer resp.Body.Close()
	limited.left = 1<<63 - 1
	v := wire.Receiver{
		Config: &r.driver.cfg, Now: r.clock.Now, Mark: mark,
		Tokens: func(n int) { r.meter.Tokens.Add(int64(n)) },
	}
	var whole bool
	if e.body {
		v.Answer, v.Parser = s.answer, *s.parser
		v.Answer.Share(new(wire.Scratch))
		whole = v.Stream(ctx, cancel, resp.Body, s.left)
	} else {
		whole = v.Receive(ctx, cancel, resp, &s.req, s.keepAnswer)
	}
	s.req.Stamp = result.StampKernel
	if !s.marked || conn != nil && conn.Last().Unstamped > 0 {
		s.req.Stamp = result.StampUser
	}
	keep := !resp.Close && (!e.body || s.keep)
	s.lost = context.Cause(ctx) == nil
	return whole && keep && in.Buffered() == 0 && len(s.out) == 0 && context.Cause(ctx) == nil
}

// maxHeader bounds the head of an answer, as the standard driver does.
const maxHeader = 256 << 10

// head reads the head of the answer that counts. Its errors are worded as
// those of net/http's transport.
func (e *handover) head(in *bufio.Reader, limited *limitedReader) (*http.Response, error) {
	if _, err := in.Peek(1); err != nil {
		return nil, fmt.Errorf("net/http: Transport failed to read from server: %w", err)
	}
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		switch {
		case err != nil && limited.left <= 0:
			return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded %d bytes; aborted", maxHeader)
		case err != nil:
			return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", err)
		case resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols:
			return resp, nil
		}
		resp.Body.Close()
	}
}

// A fault is a reader of nothing but an error.
type fault struct{ err error }

func (f *fault) Read([]byte) (int, error) { return 0, f.err }

// A limitedReader ends after so many bytes.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, io.EOF
	}
	n, err := l.r.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

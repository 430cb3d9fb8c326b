package nullserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// longestWait bounds a system call that the runtime does not know of: what
// stops the world has to wait for it.
const longestWait = 5 * time.Millisecond

// Clock returns what the clock of the stamps (CLOCK_MONOTONIC) shows at t, which has
// a monotonic reading. Both are the same clock, so that it holds for any other
// time since t as well.
func Clock(t time.Time) int64 {
	var at int64
	narrowest := time.Duration(1<<63 - 1)
	for range 8 {
		var ts unix.Timespec
		from := time.Since(t)
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // never fails for this clock
		to := time.Since(t)
		if to-from < narrowest {
			narrowest = to - from
			at = ts.Nano() - int64(from+to)/2
		}
	}
	return at
}

const head = "HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\n" +
	"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"

// chunked returns a chunk of HTTP's: each event is one.
func chunked(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// A Server is one epoll loop on one thread, for any number of streams.
type Server struct {
	url                string
	listener, ep, wake int
	start              time.Time
	base               int64 // Clock(start)

	conns  []*conn // by descriptor
	queue  queue
	frame  frame
	role   []byte
	out    []byte
	in     []byte
	random *rand.Rand
	stats  Stats
	coarse bool // the kernel has no epoll_pwait2

	closing sync.Once
}

// A conn is one connection. What it asked for is answered before it may ask
// again.
type conn struct {
	fd      int
	in      []byte // not yet understood
	pending []byte // not yet taken by the kernel
	active  bool
	ask
	due, end, step int64 // end 0: none
	sent           int
	place          int // in the queue, from 1; 0 is none
}

// New makes a server on a free port of loopback. Serve or Close must follow.
func New() (_ *Server, err error) {
	s := &Server{listener: -1, ep: -1, wake: -1, start: time.Now(), frame: newFrame(chunked(event(token))), role: []byte(chunked(event(role))), in: make([]byte, 64<<10)}
	s.base = Clock(s.start)
	s.random = rand.New(rand.NewPCG(1, 2))
	s.out = make([]byte, 0, maxBatch*len(s.frame.bytes)+len(s.role))
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("null server: %w", err)
		}
	}()
	if s.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err = unix.Bind(s.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, err
	}
	if err = unix.Listen(s.listener, 4096); err != nil {
		return nil, err
	}
	name, err := unix.Getsockname(s.listener)
	if err != nil {
		return nil, err
	}
	addr, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return nil, fmt.Errorf("listening on a %T", name)
	}
	s.url = "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port))
	if s.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, err
	}
	for _, fd := range []int{s.listener, s.wake} {
		if err = unix.EpollCtl(s.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// URL returns where the server listens.
func (s *Server) URL() string { return s.url }

// Close releases what New took. Serve does it itself.
func (s *Server) Close() {
	s.closing.Do(func() {
		for fd, c := range s.conns {
			if c != nil {
				_ = unix.Close(fd)
			}
		}
		for _, fd := range []int{s.listener, s.ep, s.wake} {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
		}
	})
}

func (s *Server) now() int64 { return s.base + int64(time.Since(s.start)) }

// Serve answers until ctx is done, and closes everything. It keeps one thread
// to itself and allocates nothing per chunk. The error is the loop's own; a client's
// mistake returns none.
func (s *Server) Serve(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		one := [8]byte{1}
		_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(s.wake), uintptr(unsafe.Pointer(&one[0])), 8)
	})
	defer func() {
		if !stop() {
			<-woken
		}
		s.Close()
	}()
	events := make([]unix.EpollEvent, 256)
	const beats = 16 // of the queue, before connections are looked at again
	for turn := 0; ; turn++ {
		wait := longestWait
		if len(s.queue) > 0 {
			wait = min(wait, max(0, time.Duration(s.queue[0].due-s.now())))
		}
		if wait > 0 || turn%beats == 0 {
			n, err := s.poll(events, wait)
			if err != nil {
				return fmt.Errorf("null server: %w", err)
			}
			for i := range events[:n] {
				if int(events[i].Fd) == s.wake {
					return nil
				}
				s.event(&events[i])
			}
		}
		now := s.now()
		for range 64 {
			if len(s.queue) == 0 || s.queue[0].due > now {
				break
			}
			s.tick(s.queue[0])
		}
	}
}

// poll waits without the scheduler's knowledge, which costs less than with it.
func (s *Server) poll(events []unix.EpollEvent, wait time.Duration) (int, error) {
	ts := unix.NsecToTimespec(int64(wait))
	var n uintptr
	var errno unix.Errno
	if s.coarse {
		ms := (wait + time.Millisecond - 1) / time.Millisecond
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.ep), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(ms), 0, 0)
	} else {
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(s.ep), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
	switch {
	case errno == 0:
		return int(n), nil
	case errno == unix.EINTR:
		return 0, nil
	case errno == unix.ENOSYS && !s.coarse:
		s.coarse = true
		return 0, nil
	}
	return 0, errno
}

func (s *Server) event(e *unix.EpollEvent) {
	if int(e.Fd) == s.listener {
		s.accept()
		return
	}
	if c := s.conn(int(e.Fd)); c != nil && e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.drop(c)
	}
	if c := s.conn(int(e.Fd)); c != nil && e.Events&unix.EPOLLOUT != 0 {
		s.flush(c)
	}
	if c := s.conn(int(e.Fd)); c != nil && e.Events&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0 {
		s.read(c)
	}
}

func (s *Server) conn(fd int) *conn {
	if fd < len(s.conns) {
		return s.conns[fd]
	}
	return nil
}

func (s *Server) accept() {
	for {
		fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
			continue
		}
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		for len(s.conns) <= fd {
			s.conns = append(s.conns, nil)
		}
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(fd)}
		if unix.EpollCtl(s.ep, unix.EPOLL_CTL_ADD, fd, &e) != nil {
			_ = unix.Close(fd)
			continue
		}
		s.conns[fd] = &conn{fd: fd}
	}
}

func (s *Server) drop(c *conn) {
	s.queue.remove(c)
	s.conns[c.fd] = nil
	_ = unix.Close(c.fd)
}

// read takes everything there is, as an edge-triggered descriptor wants it.
func (s *Server) read(c *conn) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&s.in[0])), uintptr(len(s.in)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			s.requests(c)
			return
		case errno != 0 || n == 0:
			s.drop(c)
			return
		}
		c.in = append(c.in, s.in[:n]...)
		if len(c.in) > maxBody {
			s.drop(c)
			return
		}
	}
}

// requests answers what has come whole.
func (s *Server) requests(c *conn) {
	for !c.active {
		line, length, ok := request(c.in)
		if !ok {
			return
		}
		method, target, _ := bytes.Cut(line, []byte(" "))
		target, _, _ = bytes.Cut(target, []byte(" "))
		path, query, _ := bytes.Cut(target, []byte("?"))
		stats := string(method) == "GET" && string(path) == "/stats"
		post := string(method) == "POST"
		a, err := parse(string(query))
		c.in = append(c.in[:0], c.in[length:]...)
		switch {
		case stats:
			body, _ := json.Marshal(s.stats) // of integers
			s.whole(c, "200 OK", body)
		case !post:
			s.whole(c, "405 Method Not Allowed", refusal(errors.New("POST a request, or GET /stats")))
		case err != nil:
			s.whole(c, "400 Bad Request", refusal(err))
		default:
			s.begin(c, a)
		}
		if s.conns[c.fd] != c {
			return
		}
	}
}

// request finds the first line and the whole length of the request at the
// beginning of b. What is no HTTP never comes to an end, and is bounded.
func request(b []byte) (line []byte, length int, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, 0, false
	}
	line, fields, _ := bytes.Cut(b[:end], []byte("\r\n"))
	length = end + 4
	for field := range bytes.SplitSeq(fields, []byte("\r\n")) {
		name, value, _ := bytes.Cut(field, []byte(":"))
		if bytes.EqualFold(name, []byte("content-length")) {
			n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil || n < 0 || n > maxBody {
				n = maxBody
			}
			length += n
		}
	}
	return line, length, len(b) >= length
}

func refusal(err error) []byte {
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": err.Error(), "code": 400}}) // of texts
	return b
}

func (s *Server) whole(c *conn, status string, body []byte) {
	s.write(c, fmt.Appendf(nil, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", status, len(body), body))
}

func (s *Server) begin(c *conn, a ask) {
	s.stats.Requests++
	now := s.now()
	c.ask, c.active, c.sent, c.end, c.step = a, true, 0, 0, 0
	c.due = a.first(now, s.random.Int64N)
	if a.dur > 0 {
		c.end = c.due + a.dur
	}
	if a.every > 0 {
		c.step = now + a.every
	}
	if s.write(c, []byte(head)) {
		s.queue.push(c)
	}
}

// tick sends what is due on a stream: the role with the first chunk.
func (s *Server) tick(c *conn) {
	if len(c.pending) > 0 {
		s.stats.Blocked++
		if c.mode == Flood {
			s.queue.remove(c) // until the client has read
			return
		}
	} else if !s.send(c) {
		return // the client has left
	}
	now := s.now()
	if c.sent >= c.chunks || c.end > 0 && now >= c.end {
		s.finish(c)
		return
	}
	for c.step > 0 && now >= c.step {
		c.faster()
		c.step += c.every
	}
	var skipped int
	c.due, skipped = c.next(c.due, now)
	s.stats.Skipped += skipped
	if c.stall > 0 && c.sent >= c.chunks/2 {
		c.due += c.stall
		c.stall = 0
	}
	s.queue.down(c.place)
}

func (s *Server) send(c *conn) bool {
	out := s.out[:0]
	if c.sent == 0 {
		out = append(out, s.role...)
	}
	for range min(c.batch, c.chunks-c.sent) {
		s.frame.stamp(s.now())
		out = append(out, s.frame.bytes...)
		c.sent++
		s.stats.Chunks++
	}
	return s.write(c, out)
}

func (s *Server) finish(c *conn) {
	s.queue.remove(c)
	c.active = false
	var b []byte
	for _, e := range ending(c.sent) {
		b = append(b, chunked(e)...)
	}
	if s.write(c, append(b, "0\r\n\r\n"...)) {
		s.requests(c)
	}
}

// write hands b to the kernel; what it does not take waits. False means that
// the client has left, and so has the connection.
func (s *Server) write(c *conn, b []byte) bool {
	if len(c.pending) > 0 {
		c.pending = append(c.pending, b...)
		return true
	}
	n, ok := s.hand(c.fd, b)
	if !ok {
		s.drop(c)
		return false
	}
	if n < len(b) {
		c.pending = append(c.pending, b[n:]...)
	}
	return true
}

func (s *Server) hand(fd int, b []byte) (n int, ok bool) {
	for len(b) > n {
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[n])), uintptr(len(b)-n), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return n, true
		case errno != 0:
			return n, false
		}
		s.stats.Writes++
		n += int(sent)
	}
	return n, true
}

func (s *Server) flush(c *conn) {
	n, ok := s.hand(c.fd, c.pending)
	if !ok {
		s.drop(c)
		return
	}
	c.pending = append(c.pending[:0], c.pending[n:]...)
	if len(c.pending) == 0 && c.active && c.place == 0 {
		c.due = s.now()
		s.queue.push(c)
	}
}

// A queue is a heap of streams, the one that is due first at its top.
type queue []*conn

func (q queue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

func (q *queue) push(c *conn) {
	*q = append(*q, c)
	c.place = len(*q)
	q.up(c.place)
}

func (q *queue) remove(c *conn) {
	if c.place == 0 {
		return
	}
	i, last := c.place-1, len(*q)-1
	q.swap(i, last)
	(*q)[last] = nil
	*q = (*q)[:last]
	c.place = 0
	if i < last {
		q.up(i + 1)
		q.down((*q)[i].place)
	}
}

func (q queue) up(place int) {
	for i := place - 1; i > 0; {
		above := (i - 1) / 2
		if q[above].due <= q[i].due {
			return
		}
		q.swap(i, above)
		i = above
	}
}

func (q queue) down(place int) {
	for i := place - 1; ; {
		first := i
		for _, below := range [2]int{2*i + 1, 2*i + 2} {
			if below < len(q) && q[below].due < q[first].due {
				first = below
			}
		}
		if first == i {
			return
		}
		q.swap(i, first)
		i = first
	}
}

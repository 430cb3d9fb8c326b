package stamp

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// A Reading is what is known of a connection's last read that brought bytes.
type Reading struct {
	wire.Mark // Read counts those of the connection
	// Lag is how long after the stamp of its last segment the read returned, or
	// [result.Never] if there was no stamp.
	Lag time.Duration
	// Unstamped counts the reads so far that had to be stamped here.
	Unstamped int
}

// A Conn knows when the bytes came that were last read from it. It stands below
// TLS and HTTP: the mark of the last read survives both. One goroutine may read
// at a time, as from any connection; Last may be asked by another.
type Conn struct {
	net.Conn
	clock *Clock
	raw   syscall.RawConn // nil if the kernel does not stamp
	recv  func(fd uintptr) bool

	// Of the read that is under way.
	b      []byte
	n      int
	wall   int64
	errno  syscall.Errno
	waited bool // there was nothing to read at first

	returned time.Duration // when the last read returned, or Never
	asked    time.Duration // when it was called, if it took all there was; or Never

	mu   sync.Mutex
	last Reading
}

// Wrap asks for stamps on a TCP connection. If there are none (another
// system, a pipe, a channel of SSH) reads are stamped when they return.
func Wrap(c net.Conn, clock *Clock) *Conn {
	w := &Conn{Conn: c, clock: clock, returned: result.Never, asked: result.Never}
	w.last = Reading{Mark: wire.Mark{At: result.Never, After: result.Never}, Lag: result.Never}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return w
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return w
	}
	enabled := false
	if err := raw.Control(func(fd uintptr) { enabled = Enable(int(fd)) == nil }); err != nil || !enabled {
		return w
	}
	w.raw, w.recv = raw, w.receive
	return w
}

// Last returns the last read that brought bytes.
func (c *Conn) Last() Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// TCP returns the kernel's figures on the connection; see [TCP].
func (c *Conn) TCP() (rtt time.Duration, retransmits int, ok bool) {
	if c.raw == nil {
		return 0, 0, false
	}
	if err := c.raw.Control(func(fd uintptr) { rtt, retransmits, ok = TCP(int(fd)) }); err != nil {
		return 0, 0, false
	}
	return rtt, retransmits, ok
}

// Read implements [net.Conn].
func (c *Conn) Read(b []byte) (int, error) {
	if c.raw == nil {
		return c.readPlain(b)
	}
	if len(b) == 0 {
		return 0, nil
	}
	c.b, c.waited = b, false
	err := c.raw.Read(c.recv)
	c.b = nil
	switch {
	case err != nil:
		return 0, err
	case c.errno != 0:
		return 0, &net.OpError{
			Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
			Err: os.NewSyscallError("recvmsg", c.errno),
		}
	case c.n == 0:
		return 0, io.EOF
	}
	c.mark()
	return c.n, nil
}

// receive is called by the runtime's poller: first at once, and then whenever
// there may be something.
func (c *Conn) receive(fd uintptr) bool {
	var oob [ControlSize]byte // here, where memory is warm
	c.n, c.wall, c.errno = Recv(int(fd), c.b, oob[:])
	if c.errno == syscall.EAGAIN {
		c.waited = true
		return false
	}
	return true
}

// mark notes a read that brought bytes.
func (c *Conn) mark() {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := Reading{
		Mark: wire.Mark{At: now, After: result.Never, Read: c.last.Read + 1},
		Lag:  result.Never, Unstamped: c.last.Unstamped,
	}
	switch {
	case c.waited:
		// Since the last read returned, if not before, there was nothing.
		m.After = c.returned
	case c.last.Lag != result.Never:
		// Bytes that are read later came later.
		m.After = c.last.At
	}
	if c.wall != 0 {
		at := c.clock.At(c.wall)
		if at > now || at < c.last.At && c.last.Lag != result.Never {
			// The wall clock was set since the last check.
			c.clock.Check()
			at = c.clock.At(c.wall)
		}
		// A later read gets no earlier time, even if the last one had to be
		// stamped here.
		m.At = min(max(at, m.After, c.last.At), now)
		m.Lag = now - m.At
	} else {
		m.Unstamped++
	}
	c.returned = now
	c.last = m
}

// readPlain stamps a read when it returns.
func (c *Conn) readPlain(b []byte) (int, error) {
	asked := c.clock.Now()
	n, err := c.Conn.Read(b)
	if n == 0 {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = Reading{
		// If the last read left nothing behind, the next bytes came after its call.
		Mark: wire.Mark{At: c.clock.Now(), After: c.asked, Read: c.last.Read + 1},
		Lag:  result.Never, Unstamped: c.last.Unstamped + 1,
	}
	c.asked = result.Never
	if n < len(b) {
		c.asked = asked
	}
	return n, err
}

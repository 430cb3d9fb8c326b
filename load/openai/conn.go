package openai

import (
	"net"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/result"
)

// A conn is a connection as net/http has it: over TLS, if there is TLS, over
// one that knows its receive times.
//
// It also tells when the next thing is written to it. net/http writes a request
// in a goroutine of its own: where a thousand of them start at once it may have
// to wait for a CPU, and that is no time of the server's.
type conn struct {
	net.Conn
	stamps *stamp.Conn
	dialer *dialer
	cold   bool // a request waited while it was opened

	armed atomic.Bool
	sent  atomic.Int64 // the first write since it was armed

	over atomic.Bool // closed by us, or known to be by the server
}

// arm has the next write noted, and forgets the last.
func (c *conn) arm() {
	c.sent.Store(int64(result.Never))
	c.armed.Store(true)
}

// written returns when the first write began since the connection was armed.
func (c *conn) written() time.Duration { return time.Duration(c.sent.Load()) }

func (c *conn) Write(b []byte) (int, error) {
	if c.armed.Load() {
		c.sent.Store(int64(c.dialer.clock.Now()))
		c.armed.Store(false)
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !c.over.Swap(true) {
		c.dialer.lost.Add(1)
	}
	return n, err
}

func (c *conn) Close() error {
	c.over.Store(true)
	c.dialer.forget(c)
	return c.Conn.Close()
}

package openai

import (
	"net"
	"sync/atomic"
)

// A conn tells when the next thing is written to it. net/http writes a request
// in a goroutine of its own: where a thousand of them start at once it may have
// to wait for a CPU, and that is no time of the server's.
type conn struct {
	net.Conn
	next atomic.Pointer[func()]
}

// arm has f called immediately before the next write.
func (c *conn) arm(f func()) { c.next.Store(&f) }

func (c *conn) Write(b []byte) (int, error) {
	if f := c.next.Swap(nil); f != nil {
		(*f)()
	}
	return c.Conn.Write(b)
}

// Package epoll is the fast driver of load: plain HTTP/1.1 on Linux, by event
// loops of its own.
//
// Each loop is one goroutine on a thread of its own. It waits for its
// connections in one epoll, reads them into one buffer, takes the receive times
// from the kernel (package stamp), parses in place (packages http1 and sse) and
// sends what is due, so that thousands of streams cost little more than the
// system calls that no client can do without. Nothing is allocated per chunk.
//
// An answer that is no plain event stream (an error status, a JSON answer, an odd
// head) is handed to net/http, with the connection and the bytes that have come so
// far: no request is sent twice, and its row is the one that the standard driver
// would make. A load that this driver cannot send is refused before the first
// request, with [ErrUnsuitable].
package epoll

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/wire"
)

// ErrUnsuitable says that this driver cannot measure that server from here. It
// comes before anything is sent.
var ErrUnsuitable = errors.New("the fast client cannot be used")

func unsuitable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsuitable, fmt.Errorf(format, args...))
}

// A Driver asks one server. It implements [load.Driver]; one Run at a time. Its
// connections are closed when a Run ends.
type Driver struct {
	cfg     wire.Config
	url     *url.URL
	addr    string
	encoder *wire.Encoder
	loops   int // event loops; 0 is as many as the load needs
}

var _ load.Driver = (*Driver)(nil)

// New checks the configuration and makes a driver. It opens no connection: Run
// returns ErrUnsuitable too, where what connects makes no plain TCP connections
// or the kernel gives no receive times.
func New(c wire.Config) (*Driver, error) {
	u, enc, err := c.Prepare()
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if err := supported(); err != nil {
		return nil, err
	}
	if u.Scheme != "http" {
		return nil, unsuitable("it speaks no TLS, and the server is at %s://%s", u.Scheme, u.Host)
	}
	if !c.Stream {
		return nil, unsuitable("answers are not streamed")
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return &Driver{cfg: c, url: u, encoder: enc, addr: net.JoinHostPort(u.Hostname(), port)}, nil
}

// Close is there for symmetry with other drivers: nothing outlives a Run.
func (d *Driver) Close() {}

package openai

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/load/wire"
)

const (
	dialTimeout = 5 * time.Second
	// dialsAtOnce keeps a thousand connections from overflowing the backlog of
	// the server's listener, which would cost each of the lost ones a second.
	dialsAtOnce = 32

	// spareOpen is how many idle connections an open loop holds ready at
	// first, and maxSpare at most. Few, because some servers (cpp-httplib)
	// have a thread for each connection and few threads: an idle one takes
	// away what a request needs. A closed loop has one for each slot and needs
	// none.
	spareOpen = 2
	maxSpare  = 32
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// A dialer opens connections before they are needed. net/http opens one when a
// request finds none idle, and the request waits for it; here it gets one that
// stands already, and the time to the first token has no connect in it.
type dialer struct {
	dial dialFunc
	tls  *tls.Config // nil for http
	addr string

	cold atomic.Int64 // requests that had to wait for a dial

	mu    sync.Mutex
	spare []net.Conn    // the oldest first
	want  int           // spares that keep holds ready
	taken chan struct{} // tells keep that one is gone
}

func newDialer(c *wire.Config, host, port string, secure bool) *dialer {
	d := &dialer{dial: c.Dial, addr: net.JoinHostPort(host, port), taken: make(chan struct{}, 1)}
	if d.dial == nil {
		d.dial = netguard.Dial
	}
	if secure {
		d.tls = &tls.Config{}
		if c.TLS != nil {
			d.tls = c.TLS.Clone()
		}
		if d.tls.ServerName == "" {
			d.tls.ServerName = host
		}
		d.tls.NextProtos = []string{"http/1.1"}
	}
	return d
}

// take is what net/http dials with.
func (d *dialer) take(ctx context.Context, _, _ string) (net.Conn, error) {
	for {
		c := d.pop()
		if c == nil {
			break
		}
		if alive(c) {
			return &conn{Conn: c}, nil
		}
		c.Close()
	}
	d.cold.Add(1)
	c, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// pop takes the oldest spare: a server that gives each connection a thread has
// given that one its own. If there is none, more are wanted from now on.
func (d *dialer) pop() net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() {
		select {
		case d.taken <- struct{}{}:
		default:
		}
	}()
	if len(d.spare) == 0 {
		d.want = min(2*d.want, maxSpare)
		return nil
	}
	c := d.spare[0]
	d.spare = d.spare[1:]
	return c
}

func (d *dialer) open(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := d.dial(ctx, "tcp", d.addr)
	if err != nil {
		return nil, &wire.ConnectError{Err: err}
	}
	if t, ok := c.(*net.TCPConn); ok {
		// Go's default, but a dialer that was handed in may have its own.
		_ = t.SetNoDelay(true)
	}
	if d.tls == nil {
		return c, nil
	}
	t := tls.Client(c, d.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, &wire.ConnectError{Err: err}
	}
	return t, nil
}

// fill opens spare connections until there are n. It gives up at the first
// error: if the server is not there, each request will find that out itself.
func (d *dialer) fill(ctx context.Context, n int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	missing := n - len(d.spare)
	d.mu.Unlock()
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(missing))
	for range min(missing, dialsAtOnce) {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				c, err := d.open(ctx)
				if err != nil {
					cancel()
					return
				}
				d.mu.Lock()
				d.spare = append(d.spare, c)
				d.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// keep holds n spare connections ready until the context is done, and more
// once a request has found none.
func (d *dialer) keep(ctx context.Context, n int) {
	d.mu.Lock()
	d.want = n
	d.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.taken:
			d.mu.Lock()
			n = d.want
			d.mu.Unlock()
			d.fill(ctx, n)
		}
	}
}

// drop closes the spare connections.
func (d *dialer) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.spare {
		c.Close()
	}
	d.spare = nil
}

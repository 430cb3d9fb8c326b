package openai

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// A dialer opens connections before they are needed. net/http opens one when a
// request finds none idle, and the request waits for it; here it gets one that
// stands already, and the time to the first token has no connect in it.
type dialer struct {
	dial  dialFunc
	tls   *tls.Config // nil for http
	addr  string
	fresh bool // no connection is used twice

	clock *stamp.Clock // of the run

	cold     atomic.Int64 // requests that had to wait for a dial
	lost     atomic.Int64 // connections that the server has closed
	reopened atomic.Int64 // those of cold that replaced one of lost

	mu       sync.Mutex
	open     map[*conn]bool // all that are not closed
	spare    []*conn        // the oldest first
	want     int            // spares that keep holds ready
	reserved int            // and those that will be needed soon
	taken    chan struct{}  // tells keep that one is gone
	rtt      load.Durations
	again    int // segments that were sent again
}

func newDialer(c *wire.Config, host, port string, secure bool) *dialer {
	d := &dialer{dial: c.Dial, addr: net.JoinHostPort(host, port), fresh: c.FreshConnections, taken: make(chan struct{}, 1)}
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

// begin starts the counts of a run. No connection is open.
func (d *dialer) begin(clock *stamp.Clock) {
	d.clock = clock
	d.cold.Store(0)
	d.lost.Store(0)
	d.reopened.Store(0)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open, d.rtt, d.again = map[*conn]bool{}, load.Durations{}, 0
	d.want, d.reserved = 0, 0
}

// take returns what net/http dials with.
func (d *dialer) take(ctx context.Context, _, _ string) (net.Conn, error) {
	for {
		c := d.pop()
		if c == nil {
			break
		}
		if alive(c) {
			return c, nil
		}
		d.lost.Add(1)
		c.Close()
	}
	d.cold.Add(1)
	// One that the server closed is replaced once.
	if n := d.reopened.Add(1); n > d.lost.Load() || d.fresh {
		d.reopened.Add(-1)
	}
	c, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.cold = true
	return c, nil
}

// pop takes the oldest spare: a server that gives each connection a thread has had
// most time to start that one's. If no spare is left, more are kept from now on.
func (d *dialer) pop() *conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.tell()
	if len(d.spare) == 0 {
		d.want = min(2*d.want, wire.MaxSpare)
		return nil
	}
	c := d.spare[0]
	d.spare = d.spare[1:]
	return c
}

// tell has keep look.
func (d *dialer) tell() {
	select {
	case d.taken <- struct{}{}:
	default:
	}
}

// reserve has keep hold n more spares ready for a while, or fewer.
func (d *dialer) reserve(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved += n
	d.tell()
}

func (d *dialer) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wire.DialTimeout)
	defer cancel()
	c, err := d.dial(ctx, "tcp", d.addr)
	if err != nil {
		return nil, &wire.ConnectError{Err: err}
	}
	if t, ok := c.(*net.TCPConn); ok {
		// Go's default, but a dialer that was handed in may have its own.
		_ = t.SetNoDelay(true)
	}
	stamps := stamp.Wrap(c, d.clock)
	w := &conn{Conn: stamps, stamps: stamps, dialer: d}
	if d.tls != nil {
		t := tls.Client(stamps, d.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, &wire.ConnectError{Err: err}
		}
		w.Conn = t
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[w] = true
	return w, nil
}

// forget takes in what TCP knows of a connection that is about to be closed.
func (d *dialer) forget(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open[c] {
		return
	}
	delete(d.open, c)
	if rtt, again, ok := c.stamps.TCP(); ok {
		d.rtt.Add(rtt)
		d.again += again
	}
}

// maxAsked bounds how many connections are asked for their round trip at once:
// a question costs as much as several chunks.
const maxAsked = 16

// measure asks open connections for their round trip.
func (d *dialer) measure() {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := 0
	for c := range d.open { // in no order: others come another time
		if asked++; asked > maxAsked {
			return
		}
		if rtt, _, ok := c.stamps.TCP(); ok {
			d.rtt.Add(rtt)
		}
	}
}

// health adds what the connections of a run were like. All are closed.
func (d *dialer) health(h *load.Health) {
	h.ColdDials, h.Reopened = int(d.cold.Load()), int(d.reopened.Load())
	d.mu.Lock()
	defer d.mu.Unlock()
	h.RTT, h.Retransmits = d.rtt, d.again
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
	for range min(missing, wire.DialsAtOnce) {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				c, err := d.connect(ctx)
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
			n = d.want + d.reserved
			d.mu.Unlock()
			d.fill(ctx, n)
		}
	}
}

// drop closes the spare connections.
func (d *dialer) drop() {
	d.mu.Lock()
	spare := d.spare
	d.spare = nil
	d.mu.Unlock()
	for _, c := range spare {
		c.Close()
	}
}

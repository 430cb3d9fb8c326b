package collectors

import (
	"context"
	"net"
	"sync"
)

// Dials are the connections that a session is making. net/http lets a dial outlive
// the request that asked for it; End waits for those.
type Dials struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	life context.Context
	end  context.CancelFunc

	mu    sync.Mutex // held to begin a dial, and to end them
	under sync.WaitGroup
}

// NewDials connects with dial.
func NewDials(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *Dials {
	d := &Dials{dial: dial}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// Dial connects like the function it was made with, until End.
func (d *Dials) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.under.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	return d.dial(ctx, network, addr)
}

// begin counts a dial, unless End was called: a WaitGroup must not grow beside its
// Wait.
func (d *Dials) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.life.Err(); err != nil {
		return err
	}
	d.under.Add(1)
	return nil
}

// End ends the dials under way, waits for them, and lets no other begin.
func (d *Dials) End() {
	d.mu.Lock()
	d.end()
	d.mu.Unlock()
	d.under.Wait()
}

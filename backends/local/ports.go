package local

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/ports"
)

const loopback = "127.0.0.1"

// given are the ports of this machine that we have given to our servers. The zero
// value is none.
type given struct {
	mu   sync.Mutex
	held map[int]bool
}

// take finds a free port, or checks that the n-th after want is free.
func (g *given) take(ctx context.Context, want, n int) (int, error) {
	if want != 0 {
		if !ports.Free(ctx, want+n) || !g.hold(want+n) {
			return 0, fmt.Errorf("port %d is in use", want+n)
		}
		return want + n, nil
	}
	for range 1000 {
		port, err := ports.Find(ctx)
		if errors.Is(err, ports.ErrNone) {
			break
		}
		if err != nil || g.hold(port) {
			return port, err
		}
	}
	return 0, fmt.Errorf("%w: %w", backends.ErrCapacity, ports.ErrNone)
}

// hold takes a port, unless one of our servers has it.
func (g *given) hold(port int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held[port] {
		return false
	}
	if g.held == nil {
		g.held = map[int]bool{}
	}
	g.held[port] = true
	return true
}

func (g *given) give(list []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, port := range list {
		delete(g.held, port)
	}
}

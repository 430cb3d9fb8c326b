package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"sweep.dev/sweep/backends"
)

const loopback = "127.0.0.1"

// Ports below firstPort are where well-known services are looked for.
const firstPort = 10000

// ports are the ports of this machine that we have given to our servers. The
// zero value is none.
type ports struct {
	mu   sync.Mutex
	held map[int]bool
}

// take finds a free port, or checks that the n-th after want is free.
func (p *ports) take(ctx context.Context, want, n int) (int, error) {
	if want != 0 {
		if !p.hold(ctx, want+n) {
			return 0, fmt.Errorf("port %d is in use", want+n)
		}
		return want + n, nil
	}
	end := ephemeral()
	for range 1000 {
		if port := firstPort + rand.IntN(end-firstPort); p.hold(ctx, port) {
			return port, nil
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return 0, fmt.Errorf("%w: no port from %d to %d is free", backends.ErrCapacity, firstPort, end-1)
}

// hold takes a port that nobody listens on, neither on the loopback address
// nor on all of them.
func (p *ports) hold(ctx context.Context, port int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[port] {
		return false
	}
	for _, address := range []string{loopback, ""} {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		l.Close()
	}
	if p.held == nil {
		p.held = map[int]bool{}
	}
	p.held[port] = true
	return true
}

func (p *ports) give(held []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range held {
		delete(p.held, port)
	}
}

// ephemeral is the first port that the kernel may give to an outgoing
// connection.
func ephemeral() int {
	const byDefault = 32768
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return byDefault
	}
	fields := strings.Fields(string(b))
	if len(fields) == 0 {
		return byDefault
	}
	first, err := strconv.Atoi(fields[0])
	if err != nil || first < firstPort+1000 { // a range that leaves no room is no reason to fail
		return byDefault
	}
	return first
}

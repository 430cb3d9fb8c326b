// Package ports finds TCP ports of this machine for servers to listen on.
package ports

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// ErrNone means that no port is free.
var ErrNone = errors.New("no port is free")

// Ports below first are where well-known services are looked for.
const first = 10000

// Find finds a port that is free. It is below those that the kernel gives to
// outgoing connections: one of these may take any other port at once. Nothing holds
// it, so two callers may get the same, though seldom. Without one the error is
// [ErrNone], or why ctx ended.
func Find(ctx context.Context) (int, error) {
	end := ephemeral()
	for range 1000 {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if port := first + rand.IntN(end-first); Free(ctx, port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%w from %d to %d", ErrNone, first, end-1)
}

// Free reports whether a port is free on the loopback address and on all addresses.
func Free(ctx context.Context, port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// ephemeral returns the first port that the kernel may give to an outgoing
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
	n, err := strconv.Atoi(fields[0])
	if err != nil || n < first+1000 { // a range that leaves no room is no reason to fail
		return byDefault
	}
	return n
}

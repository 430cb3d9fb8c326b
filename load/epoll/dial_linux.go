package epoll

import (
	"cmp"
	"context"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
)

// dial opens one connection and returns its file, which is then ours alone: the
// runtime's poller does not know it.
func (d *Driver) dial(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, wire.DialTimeout)
	defer cancel()
	open := d.cfg.Dial
	if open == nil {
		open = netguard.Dial
	}
	c, err := open(ctx, "tcp", d.addr)
	if err != nil {
		return -1, &wire.ConnectError{Err: err}
	}
	return detach(c)
}

// detach takes the file out of a connection, which it closes.
func detach(c net.Conn) (int, error) {
	defer c.Close()
	t, ok := c.(*net.TCPConn)
	if !ok {
		return -1, unsuitable("the way to the server is no plain TCP connection (%T)", c)
	}
	// Go's default, but a dialer that was handed in may have its own.
	if err := t.SetNoDelay(true); err != nil {
		return -1, &wire.ConnectError{Err: err}
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return -1, &wire.ConnectError{Err: err}
	}
	fd := -1
	control := raw.Control(func(f uintptr) { fd, err = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 0) })
	if control != nil || err != nil {
		return -1, &wire.ConnectError{Err: cmp.Or(control, err)}
	}
	if err := stamp.Enable(fd); err != nil {
		_ = unix.Close(fd)
		return -1, unsuitable("%w", err)
	}
	return fd, nil
}

// fill opens n connections and hands each to got, by one goroutine at a time. It
// gives up at the first error: if the server is not there, each request will
// find that out itself.
func (d *Driver) fill(ctx context.Context, n int, got func(fd int)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	var mu sync.Mutex
	var left atomic.Int64
	left.Store(int64(n))
	for range min(n, wire.DialsAtOnce) {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				fd, err := d.dial(ctx)
				if err != nil {
					cancel()
					return
				}
				mu.Lock()
				got(fd)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
}

package stamp

import (
	"context"
	"net"
	"time"

	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/result"
)

// keepWait bounds how long Keep waits for the first stamp. The kernel begins to
// stamp in a work item of its own, on a busy machine tens of milliseconds late.
const keepWait = 2 * time.Second

// Keep has the kernel stamp what is received until stop, also while no connection
// asks for it: else the first reads of each trial may come unstamped. It returns
// when a stamp has come, and at the latest after 2 s. On a system without stamps,
// or without a loopback address, it does nothing.
func Keep(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	client, server, err := connect(ctx)
	if err != nil {
		return func() {}
	}
	deadline, _ := ctx.Deadline()
	_ = client.SetReadDeadline(deadline) // it fails on a closed connection alone
	c := Wrap(client, NewClock(result.NewAnchor()))
	b := make([]byte, 1)
	for ctx.Err() == nil && c.raw != nil && c.Last().Lag == result.Never {
		if _, err := server.Write(b); err != nil {
			break
		}
		if _, err := c.Read(b); err != nil {
			break
		}
		if c.Last().Lag == result.Never {
			time.Sleep(time.Millisecond)
		}
	}
	return func() {
		client.Close()
		server.Close()
	}
}

// connect makes a connection on the loopback address.
func connect(ctx context.Context) (client, server net.Conn, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if client, err = netguard.Dial(ctx, "tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if server, err = l.Accept(); err != nil {
		client.Close()
		return nil, nil, err
	}
	return client, server, nil
}

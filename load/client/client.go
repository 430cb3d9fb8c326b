// Package client picks the driver that measures a server.
package client

import (
	"context"
	"errors"
	"fmt"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/epoll"
	"sweep.dev/sweep/load/openai"
	"sweep.dev/sweep/load/wire"
)

// The kinds of client.
const (
	Auto = "auto" // fast if it can be, else std
	Std  = "std"  // net/http: TLS, tunnels, every system
	Fast = "fast" // event loops of its own: plain HTTP/1.1 on Linux
)

// A Driver is a load driver that may hold connections.
type Driver interface {
	load.Driver
	Close()
}

// New makes the client of a kind; "" is Auto. With Fast it fails if the
// server cannot be measured so, with an error that wraps [epoll.ErrUnsuitable];
// what only the first connection shows is the error of Run. Close must follow.
func New(c wire.Config, kind string) (Driver, error) {
	switch kind {
	case Std:
		return openai.New(c)
	case Fast:
		return epoll.New(c)
	case Auto, "":
	default:
		return nil, fmt.Errorf("client %q is none of auto, std, fast", kind)
	}
	fast, err := epoll.New(c)
	if errors.Is(err, epoll.ErrUnsuitable) {
		return openai.New(c)
	}
	if err != nil {
		return nil, err
	}
	std, err := openai.New(c)
	if err != nil {
		return nil, err
	}
	return &either{fast: fast, std: std}, nil
}

// either is the fast driver, or the standard one where that will not do.
type either struct {
	fast *epoll.Driver
	std  *openai.Driver
}

// Run implements [load.Driver]. The fast driver says that it will not do before
// it takes a job from the source.
func (e *either) Run(ctx context.Context, src load.Source, rec load.Recorder, opts load.Options) (load.Health, error) {
	h, err := e.fast.Run(ctx, src, rec, opts)
	if errors.Is(err, epoll.ErrUnsuitable) {
		return e.std.Run(ctx, src, rec, opts)
	}
	return h, err
}

func (e *either) Close() {
	e.fast.Close()
	e.std.Close()
}

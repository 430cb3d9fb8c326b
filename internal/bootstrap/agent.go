package bootstrap

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/secret"
)

// An Agent is our end of the talk with the agent of one pod. All methods may be
// called concurrently; their contexts bound one request.
type Agent struct {
	base  string
	token secret.String
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
}

// NewAgent makes the client of an agent at base ("http://127.0.0.1:8081").
// Connections are made by dial; nil is a [net.Dialer]. It does not connect.
func NewAgent(dial func(ctx context.Context, network, addr string) (net.Conn, error), base string, token secret.String) *Agent {
	return &Agent{base: base, token: token, dial: dial}
}

// Status is what a bootstrap says of itself.
type Status struct {
	Left   time.Duration // until the hard lifetime is over
	Kept   time.Duration // how long no heartbeat is needed; 0 where one is
	Engine int           // its process id on the pod; 0 where it does not run
	Exit   *int          // its exit status as a shell has it (128+n for a signal); nil while it runs
	Beats  int           // that have arrived
}

var errSkeleton = errors.New("no agent")

// Beat tells the pod that somebody is there.
func (a *Agent) Beat(ctx context.Context) error { return errSkeleton }

// Keep tells the pod that no heartbeat is needed until then, and that it ends
// itself then where there was none; its hard lifetime stays. A time that is
// past, or the zero one, takes an earlier Keep back.
func (a *Agent) Keep(ctx context.Context, until time.Time) error { return errSkeleton }

// End tells the pod to end now.
func (a *Agent) End(ctx context.Context) error { return errSkeleton }

// Exec runs nvidia-smi on the pod and returns its stdout, at most 4 MiB.
// [host.ErrNotSupported] for everything else and where there is none.
func (a *Agent) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return nil, host.ErrNotSupported
}

// Log is the engine's output from an offset on, followed until the engine has
// ended. The context bounds the whole reading.
func (a *Agent) Log(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return nil, errSkeleton
}

// Status asks how the pod is.
func (a *Agent) Status(ctx context.Context) (Status, error) { return Status{}, errSkeleton }

// Keepalive calls beat ([Agent.Beat], counted as the effect that it is) at once
// and then every interval, until ctx ends. No beat gets longer than an
// interval. lost is called, from here, with the error of each beat that failed.
// The caller runs it in a goroutine of its own and waits for it.
func Keepalive(ctx context.Context, every time.Duration, beat func(context.Context) error, lost func(error)) {
}

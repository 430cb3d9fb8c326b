package backends

import (
	"context"
	"net"
	"time"

	"sweep.dev/sweep/internal/secret"
)

// ClientsWant says which clients a plan wants for the loads of a deployment where its
// servers run. The zero value is none.
type ClientsWant struct {
	N         int    // at most, of all its loads; 0: this process sends
	Namespace string // "" is that of the servers
	// Image is one of sweep, whose program is /sweep. "" has sweep copy itself into pods of
	// Base, "" for the backend's own choice.
	Image, Base string
	CPUs        float64 // of each; 0 is the backend's own choice
	// Processes says that the plan wants several processes of this machine instead.
	Processes bool
}

// A ClientHost is a deployment that can run clients where its servers run. Optional, found
// by type assertion.
type ClientHost interface {
	// Clients are n clients, which obey nobody else. It makes them if there are fewer that
	// live. They end with the deployment.
	Clients(ctx context.Context, n int) ([]Client, error)
	// Remote says that the servers cannot be reached from here: only a client there can
	// measure them, and Host's connections pass through one.
	Remote() bool
}

// A Client is one, see package worker.
type Client struct {
	URL         string // of its control port
	Token       secret.String
	Coordinator string // by what it knows this process again
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	Gone        func() string // how it ended; "" if it has not, or that is not known
}

// ClientsStart is how long clients may take to start again for a trial, with the pull of their
// image. The first ones have the time of the launch.
const ClientsStart = 5 * time.Minute

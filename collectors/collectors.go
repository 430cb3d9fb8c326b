// Package collectors defines the interface to the measurements beside the requests:
// the engine's metrics, the GPU, the processes. The folders below implement it;
// collectors/all lists them.
package collectors

import (
	"context"
	"io"
	"net/http"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
)

// A Target is one server that a collector looks at.
type Target struct {
	Role    string
	Replica int
	Tier    string // what it is to a request: see [engine.Role]
	Host    host.Host
	// Metrics is how this role names its series; nil if it exposes none.
	Metrics *engine.Metrics
	// MetricsAddr is where they are, host:port as seen from the role; "" is the
	// address of its URL.
	MetricsAddr string
	// Keyless says that requests there must not carry what Authorize adds: the
	// plan's key is for another host.
	Keyless bool
	// Args are the engine's arguments that the plan gave this role, by name.
	Args map[string]any
}

// A Trial is what a collector watches: everything that serves one trial.
type Trial struct {
	// Targets are the replicas of all roles, at least one, in the profile's order.
	Targets []Target
	Profile *engine.Profile
	Anchor  result.Anchor // the trial's clock
	// Authorize adds what requests to this server must carry; may be nil.
	Authorize func(http.Header)
	// Given says that sweep did not start the servers: no request may change them.
	Given bool
	// Asked is called for each request to the servers, by several goroutines; may
	// be nil.
	Asked func()
	// Bounds are those of the plan.
	Bounds bounds.Bounds
	// Clients are the process ids of the measuring client itself.
	Clients []int
	// Loaded is closed when the load begins, right after the slowest collector's
	// Start: what is seen between a baseline and then shows a server at rest.
	// Nil stands for a load that begins when Start returns.
	Loaded <-chan struct{}
}

// AwaitLoad waits until the load begins, and is false if ctx was done first.
func (t *Trial) AwaitLoad(ctx context.Context) bool {
	if t.Loaded == nil {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-t.Loaded:
		return true
	}
}

// A Collector watches the servers of one trial while it runs. What it says of
// them is of all together, and of each role if there are several.
type Collector interface {
	// Start takes the baseline before it returns; ctx bounds the whole
	// session. A failure ends this collector, never the trial.
	Start(ctx context.Context, t Trial, s Sink) (Session, error)
}

// A Session is one collector at work.
type Session interface {
	// Finish takes the last look, waits for everything that Start started, and
	// returns the columns that this collector knows (nil values where it could
	// not measure). ctx bounds it. The row may be partial beside an error.
	Finish(ctx context.Context) (result.Row, error)
}

// A Sink takes what a collector sees. Its methods may be called concurrently
// until Finish has returned, and not after.
type Sink interface {
	Sample(result.Sample)
	// Artifact keeps a file under the attempt's directory; name is relative,
	// with forward slashes.
	Artifact(name string, r io.Reader) error
	// Note records a finding, once for each code.
	Note(result.Finding)
}

// A Factory makes a Collector from its part of the plan.
type Factory struct {
	Kind   string
	Doc    string
	Config any // zero value of what New decodes into
	New    func(decode func(any) error) (Collector, error)
}

// Configured returns a factory's New: defaults, the plan's keys decoded over them,
// and what make makes of that.
func Configured[C any, T Collector](defaults C, make func(C) (T, error)) func(decode func(any) error) (Collector, error) {
	return func(decode func(any) error) (Collector, error) {
		c := defaults
		if err := decode(&c); err != nil {
			return nil, err
		}
		return make(c)
	}
}

package backends

import (
	"context"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/result"
)

// A Found is a deployment whose servers its launch has found, and not started. Optional,
// found by type assertion.
type Found interface {
	// Roles are those of the spec that there are, each with the replicas that are
	// there by now. The entry is among them.
	Roles() []Role
	// Metrics is where those of a replica are, or why they cannot be read.
	Metrics(role string, replica int) (h host.Host, why string)
}

// A Described is a backend that says in one line what of somebody else's it will measure.
// Optional, found by type assertion.
type Described interface{ Describe() string }

// A Watched is a deployment that may become another one while its servers answer, since
// somebody else runs it. Optional, found by type assertion.
type Watched interface {
	// Watch looks at it from now on, and first of all finds its servers anew. The
	// returned function must be called: it takes the last look, and returns columns
	// of the row and what was found.
	Watch(ctx context.Context) (finish func(context.Context) (result.Row, []result.Finding))
}

// A Logged is a deployment that keeps the logs of the servers that its launch has found,
// in files beside those of its roles. Optional, found by type assertion.
type Logged interface {
	// Logs are the files that there are by now.
	Logs() []Log
	// CatchUp waits until what the servers have printed by now stands in the files, as far
	// as that can be seen, and at most as long as ctx.
	CatchUp(ctx context.Context)
}

// A Log is the file of one container. Each of its lines begins with a time as
// [time.RFC3339Nano] has it, and a space.
type Log struct {
	Path      string
	Role      string // of the stack: prefill, decode, router
	Pod       string
	Container string
	Previous  bool // of a run of the container that was over when it was read
}

// A Paired is a deployment of which some servers compute prompts and others answers, and
// which knows them one by one. Optional, found by type assertion.
type Paired interface {
	// Pairs are these servers by the names that their logs have. state is another word as
	// soon as one of them is another one or was restarted.
	Pairs() (prefill, decode []string, state string)
}

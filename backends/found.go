package backends

import (
	"context"

	"sweep.dev/sweep/host"
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

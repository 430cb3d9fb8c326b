// Package fleet is the simulated engine in several processes: Dynamo's frontend
// and its workers, llm-d's gateway, endpoint picker, routing sidecar, prefill
// and decode servers. Each role is one process; what computes in it is the same
// simulated engine that runs alone.
package fleet

import (
	"context"
	"net/http"
	"strings"

	"sweep.dev/sweep/sim/core"
)

// An Engine is a simulated engine that is about to serve.
type Engine struct {
	Handler http.Handler // its own HTTP dialect
	Config  core.Config
	Served  []string // the names that requests may use
	URL     string   // where it listens
}

// An Inside is what a role does with the engine in it.
type Inside struct {
	// Metrics says that the engine has its metrics with any flags.
	Metrics bool
	// Wrap puts the role around the engine's HTTP server. It is called once the
	// address is known and before the first request.
	Wrap func(Engine) http.Handler
}

// A Single runs one engine with its own command line until ctx is done, and
// returns its exit status. in is nil for one on its own.
type Single func(ctx context.Context, args []string, in *Inside) int

// Is reports whether a command line is one of a role.
func Is(args []string) bool {
	for _, a := range args {
		if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); strings.HasPrefix(a, "-") && name == "role" {
			return true
		}
	}
	return false
}

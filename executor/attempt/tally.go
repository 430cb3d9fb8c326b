package attempt

import (
	"slices"
	"sync/atomic"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/result"
)

// A Tally counts what a deployment's servers were sent beyond the load, until a row
// takes it. It may be used by several goroutines.
type Tally struct{ requests, completions atomic.Int64 }

// Add counts requests, of which some asked the model for tokens.
func (t *Tally) Add(requests, completions int) {
	t.requests.Add(int64(requests))
	t.completions.Add(int64(completions))
}

// Asked counts a question by its path.
func (t *Tally) Asked(path string, api *engine.API) {
	completions := 0
	if path == api.Chat || path == api.Completions {
		completions = 1
	}
	t.Add(1, completions)
}

// of counts the requests of a load, or of a phase of one, that no row has.
func (t *Tally) of(requests []result.Request, phases ...result.Phase) {
	for i := range requests {
		if r := &requests[i]; r.Sent >= 0 && (len(phases) == 0 || slices.Contains(phases, r.Phase)) {
			t.Add(1, 1)
		}
	}
}

// Drop counts the requests of an attempt that no row will have.
func (a *Attempt) Drop() { a.subject.Extra.of(a.requests) }

// extra returns how much the servers were sent beyond the load since the last row.
func (a *Attempt) extra() outcome.Extra {
	t := a.subject.Extra
	t.of(a.requests, result.Warmup)
	return outcome.Extra{Requests: t.requests.Swap(0), Completions: t.completions.Swap(0)}
}

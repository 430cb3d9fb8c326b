package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/result"
)

// upTo8 is a search among 1, 2, 3, 4, 6 and 8 requests at once, of which the server
// carries all.
var upTo8 = []string{
	`matrix: {engine: sim}`,
	`load: {requests: 20, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24, length: words}}`,
	`find: {axis: concurrency, from: 1, to: 8, within: 50%, confidence: 90%, objectives: {kept: p50_ttft_ms < 60000}}`,
}

// asked is at which concurrency each VALID outcome was measured, in the journal's order: on
// a busy machine some are INVALID, and measured again.
func (w *world) asked() string {
	w.t.Helper()
	var parts []string
	for _, o := range w.outcomes() {
		if o.Row["status"] != result.StatusInvalid {
			parts = append(parts, fmt.Sprint(o.Row["concurrency"]))
		}
	}
	return strings.Join(parts, " ")
}

// askedUpTo8 holds that the search doubled up to 8, and confirmed that by three trials at
// least: on a busy machine the client may be at its limit, or leave few requests on a
// plateau, and a load is asked for again.
func (w *world) askedUpTo8() {
	w.t.Helper()
	asked := strings.Fields(w.asked())
	if loads := slices.Compact(slices.Clone(asked)); !slices.Equal(loads, []string{"1", "2", "4", "8"}) || len(asked) < 7 {
		w.t.Errorf("asked for %s", asked)
	}
}

// A search doubles the load, and then repeats the greatest; the levels between have no
// row. Its trials share a server.
func TestFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, upTo8...)
	rep := w.must()
	w.askedUpTo8()
	want(t, "planned", rep.Planned, len(w.committed()))
	want(t, "launched", w.backend.count("launch"), 1)
	want(t, "planned afterwards", w.must().Planned, rep.Planned)
	want(t, "launched", w.backend.count("launch"), 1)
}

// A search that is ended after any of its trials goes on as if it had not been: as it
// doubles and as it confirms; after each of six if tests may be slow.
func TestFind_resumes(t *testing.T) {
	t.Parallel()
	after := []int{2, 5}
	if slow.Tests {
		after = []int{1, 2, 3, 4, 5, 6}
	}
	for _, n := range after {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			w := newWorld(t, nil, upTo8...)
			w.on = func(e event.Event) {
				if e.Type == event.TrialStarted && len(w.committed()) == n {
					stop(errStop)
				}
			}
			if rep, err := w.run(ctx); err != nil || !errors.Is(rep.Interrupted, errStop) || rep.Missing != 1 {
				t.Fatalf("%+v, %v", rep, err)
			}
			w.on = nil
			w.must()
			w.askedUpTo8()
		})
	}
}

// A server that dies under a load has not kept its objectives there.
func TestFind_dies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(n int, _ backends.Spec) script {
		if n <= 2 {
			return dies(2)
		}
		return script{}
	}, append(upTo8, `retries: 0`)...)
	w.must()
	want(t, "asked", w.asked(), "1 1")
	want(t, "outcomes", strings.Count(w.summary(), "failed"), 2)
}

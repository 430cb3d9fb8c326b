package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
)

// An open port, a good health check and a list of no model are not readiness.
func TestReady_needsACompletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{
		models: func(look int) []string {
			if look < 3 {
				return []string{}
			}
			return []string{"other", "m"}
		},
		probe: func(look int) (int, string) {
			if look < 3 {
				return http.StatusServiceUnavailable, ""
			}
			return http.StatusOK, "m"
		},
	}))
	w.must()
	s := w.backend.list()[0]
	// Twice no model, then twice no completion, then both.
	want(t, "looks at the models", s.looked("models"), 5)
	want(t, "one-token completions", s.looked("probe"), 3)
	want(t, "outcomes", w.summary(), "ok/1 ok/1")
	for _, o := range w.outcomes() {
		want(t, "engine_version", o.Row["engine_version"].(string), "1.2.3")
	}
}

// A server that answers for another model will do so for ever: no waiting.
func TestReady_wrongModel(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]script{
		"list":       {models: func(int) []string { return []string{"other"} }},
		"completion": {probe: func(int) (int, string) { return http.StatusOK, "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(s), `timeouts: {ready: 10m, stop: 5s}`)
			rep := w.must()
			want(t, "committed", rep.Committed, 2)
			want(t, "outcomes", w.summary(), "failed/wrong_model/1 failed/wrong_model/1")
			for _, o := range w.outcomes() {
				if text := o.Row["error"].(string); !strings.Contains(text, `"other"`) || !strings.Contains(text, `"m"`) {
					t.Errorf("the text does not name both models: %s", text)
				}
				want(t, "start failure", o.StartFailure, true)
			}
			want(t, "launches", w.backend.count("launch"), 1)
			want(t, "stops", w.backend.count("stop"), 1)
		})
	}
}

// A limit that is reached is told by its name, with the last answer.
func TestReady_timeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{health: http.StatusServiceUnavailable}), `timeouts: {ready: 300ms, stop: 5s}`)
	w.must()
	want(t, "outcomes", w.summary(), "failed/timeout/1 failed/timeout/1")
	for _, o := range w.outcomes() {
		text := o.Row["error"].(string)
		for _, part := range []string{"timeouts.ready: not done after 300ms", "/health answered 503"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in: %s", part, text)
			}
		}
	}
	want(t, "stops", w.backend.count("stop"), 1)
}

func TestLaunch_timeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{slow: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}),
		`timeouts: {launch: 100ms, stop: 5s}`)
	w.must()
	want(t, "outcomes", w.summary(), "failed/timeout/1 failed/timeout/1")
	if text := w.outcomes()[0].Row["error"].(string); !strings.Contains(text, "timeouts.launch") {
		t.Error(text)
	}
	want(t, "stops", w.backend.count("stop"), 0)
}

// A server that ends before it is ready fails every cell of its deployment
// with the reason that its log gives, and no other deployment's.
func TestLaunch_failsItsCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ int, spec backends.Spec) script {
		if spec.GPU == "b" {
			return script{}
		}
		return script{
			log: []string{
				"INFO starting", "RuntimeError: CUDA error",
				"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "bye",
			},
			exit: &backends.Exit{Role: "server", Code: 1},
		}
	}, `matrix: {engine: sim, gpu: [a, b], concurrency: [1, 2]}`)
	rep := w.must()
	want(t, "committed", rep.Committed, 4)
	want(t, "outcomes", w.summary(), "failed/oom.cuda/1 failed/oom.cuda/1 ok/1 ok/1")
	for _, o := range w.outcomes()[:2] {
		want(t, "start failure", o.StartFailure, true)
		if text := o.Row["error"].(string); !strings.Contains(text, "out of memory") {
			t.Error(text)
		}
		if log := strings.Join(o.LogTail, "\n"); !strings.HasSuffix(log, "bye") || !strings.Contains(log, "INFO starting") {
			t.Errorf("log tail: %q", log)
		}
		if o.Row["valid"] != nil || o.Row["slo_pass"] != nil || o.Row["p50_ttft_ms"] != nil {
			t.Errorf("a row of nothing has figures: %v", o.Row)
		}
	}
	want(t, "launches", w.backend.count("launch"), 2)
	want(t, "launch failures told", len(w.seen(event.LaunchFailed)), 1)
}

// The ways in which Launch itself says no.
func TestLaunch_errors(t *testing.T) {
	t.Parallel()
	for class, err := range map[string]error{
		"no_capacity": fmt.Errorf("no gpu left: %w", backends.ErrCapacity),
		"spec":        fmt.Errorf("%w: no such command", backends.ErrSpec),
		"unknown":     errors.New("it did not work"),
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(script{launch: err}))
			w.must()
			want(t, "outcomes", w.summary(), "failed/"+class+"/1 failed/"+class+"/1")
			want(t, "launches", w.backend.count("launch"), 1)
			if text := w.outcomes()[0].Row["error"].(string); !strings.Contains(text, err.Error()) {
				t.Error(text)
			}
		})
	}
}

// Refused credentials are no result of a cell.
func TestLaunch_refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{launch: fmt.Errorf("401: %w", backends.ErrRefused)}))
	rep, err := w.run(t.Context())
	if !errors.Is(err, backends.ErrRefused) {
		t.Errorf("run: %v", err)
	}
	want(t, "missing", rep.Missing, 2)
	want(t, "outcomes", w.summary(), "")
}

func TestProbe_beforeAnyLaunch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.backend.probe = backends.ErrRefused
	rep, err := w.run(t.Context())
	if !errors.Is(err, backends.ErrRefused) {
		t.Errorf("run: %v", err)
	}
	want(t, "missing", rep.Missing, 2)
	want(t, "launches", w.backend.count("launch"), 0)
}

// A port that somebody took between its choice and the bind is bad luck, once.
func TestLaunch_portTaken(t *testing.T) {
	t.Parallel()
	taken := script{log: []string{"OSError: [Errno 98] Address already in use"}, exit: &backends.Exit{Role: "server", Code: 1}}
	for name, tt := range map[string]struct {
		bad      int
		launches int
		outcomes string
	}{
		"once":  {1, 2, "ok/1 ok/1"},
		"twice": {2, 2, "failed/port/1 failed/port/1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(n int, _ backends.Spec) script {
				if n <= tt.bad {
					return taken
				}
				return script{}
			})
			w.must()
			want(t, "launches", w.backend.count("launch"), tt.launches)
			want(t, "stops", w.backend.count("stop"), tt.launches)
			want(t, "outcomes", w.summary(), tt.outcomes)
		})
	}
}

// A backend whose server has ended without saying why must not look ready.
func TestReady_endWithoutReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{health: http.StatusServiceUnavailable}), `timeouts: {ready: 20s, stop: 5s}`)
	var once sync.Once
	w.on = func(e event.Event) {
		if e.Type == event.Waiting { // it has answered that it is not ready
			once.Do(func() { close(w.backend.list()[0].done) })
		}
	}
	w.must()
	want(t, "outcomes", w.summary(), "failed/unknown/1 failed/unknown/1")
}

// A server that ends while it is asked must not be waited for until the
// question's time is over.
func TestReady_endsWhatHangs(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, always(script{probe: func(int) (int, string) {
		s := w.backend.list()[0]
		s.tell(killed())
		<-s.hung() // its connections stay as they are
		return http.StatusOK, "m"
	}}), `timeouts: {ready: 10m, stop: 5s}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rep, err := w.run(ctx)
	if err != nil || rep.Interrupted != nil {
		t.Errorf("run: %+v, %v", rep, err)
	}
	want(t, "outcomes", w.summary(), "failed/signal/1 failed/signal/1")
}

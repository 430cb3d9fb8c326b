package executor

import (
	"context"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/rundir"
)

// dies returns a server that is killed by its nth streamed request.
func dies(n int) script {
	return script{
		log: []string{"INFO ready"},
		request: func(s *fakeServer, i int) {
			if i == n {
				s.die(killed())
			}
		},
	}
}

// firstLaunches gives the first launches scripts of their own.
func firstLaunches(scripts ...script) func(int, backends.Spec) script {
	return func(n int, _ backends.Spec) script {
		if n <= len(scripts) {
			return scripts[n-1]
		}
		return script{}
	}
}

// The attempt that the server died under does not count, and the trial is
// tried again on a new launch.
func TestDeath_triedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, firstLaunches(dies(2)))
	w.must()
	want(t, "outcomes", w.summary(), "ok/2 ok/1")
	want(t, "launches", w.backend.count("launch"), 2)
	want(t, "stops", w.backend.count("stop"), 2)
	want(t, "discarded", len(w.seen(event.TrialDiscarded)), 1)
	want(t, "deaths told", len(w.seen(event.ServerDied)), 1)
	// The dead server is gone before the next one starts.
	want(t, "at once", w.backend.peak, 1)
	if text := w.seen(event.TrialDiscarded)[0].Text; !strings.Contains(text, "signal: killed") {
		t.Error(text)
	}
	want(t, "launches in the journal", w.state().Launches[w.plan.Deployments()[0].ID], 2)
}

// A server may be gone before any connection says so. Run often: it is a race
// that only luck loses.
func TestDeath_quiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, firstLaunches(script{request: func(s *fakeServer, n int) {
		if n == 2 {
			s.tell(killed())
		}
	}}), `retries: 0`, `matrix: {engine: sim, concurrency: [1]}`)
	for range 20 {
		w.dir = t.TempDir() + "/run"
		w.backend = &fakeBackend{script: w.backend.script}
		w.must()
		want(t, "outcomes", w.summary(), "failed/signal/1")
	}
}

// A death ends the measurement at once, whatever the connections say.
func TestDeath_endsWhatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, firstLaunches(script{request: func(s *fakeServer, n int) {
		if n == 2 {
			s.tell(killed())
			<-s.hung()
		}
	}}), `timeouts: {request: 1h, trial: 2h, stop: 5s}`)
	w.must()
	want(t, "outcomes", w.summary(), "ok/2 ok/1")
}

// Without retries the cause stands in a row, and the next trial has a server.
func TestDeath_noRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, firstLaunches(dies(2)), `retries: 0`)
	w.must()
	want(t, "outcomes", w.summary(), "failed/signal/1 ok/1")
	want(t, "launches", w.backend.count("launch"), 2)
	o := w.outcomes()[0]
	if text := o.Row["error"].(string); !strings.Contains(text, "signal: killed") {
		t.Error(text)
	}
	want(t, "start failure", o.StartFailure, false)
	want(t, "log tail", strings.Join(o.LogTail, "\n"), "INFO ready")
}

// A deployment is launched again twice at most, whatever the plan's retries
// say; after that its trials are failed rows.
func TestDeath_givenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ retries, outcomes string }{
		"retries 5": {"5", "failed/signal/3 failed/signal/1 failed/signal/1 failed/signal/1"},
		"retries 0": {"0", "failed/signal/1 failed/signal/1 failed/signal/1 failed/signal/1"},
		"retries 1": {"1", "failed/signal/2 failed/signal/1 failed/signal/1 failed/signal/1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(dies(1)), `retries: `+tt.retries,
				`matrix: {engine: sim, concurrency: [1], max_tokens: [4, 5, 6, 7]}`, `load: {requests: 2, prompts: {input_tokens: 24}}`)
			rep := w.must()
			want(t, "committed", rep.Committed, 4)
			want(t, "outcomes", w.summary(), tt.outcomes)
			want(t, "launches", w.backend.count("launch"), 3)
			want(t, "stops", w.backend.count("stop"), 3)
			last := w.outcomes()[3]
			if text := last.Row["error"].(string); !strings.Contains(text, "died 3 times") || !strings.Contains(text, "killed") {
				t.Error(text)
			}
			want(t, "start failure", last.StartFailure, false)
		})
	}
}

// A new launch that fails also fails the trial that needed it, and the rest.
func TestDeath_relaunchFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, firstLaunches(dies(2), script{exit: &backends.Exit{Role: "server", Code: 3}}))
	w.must()
	want(t, "outcomes", w.summary(), "failed/exit/2 failed/exit/1")
	want(t, "launches", w.backend.count("launch"), 2)
}

// A server that dies between two trials has harmed neither.
func TestDeath_betweenTrials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `retries: 0`)
	w.on = func(e event.Event) {
		if e.Type == event.TrialCommitted && e.Done == 1 {
			w.backend.list()[0].die(killed())
		}
	}
	w.must()
	want(t, "outcomes", w.summary(), "ok/1 ok/1")
	want(t, "launches", w.backend.count("launch"), 2)
	want(t, "deaths told", len(w.seen(event.ServerDied)), 1)
}

// The launches and attempts of a resumed run go on counting.
func TestDeath_numbersOverResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, firstLaunches(script{request: hang(2, nil)}))
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	w.backend.script = firstLaunches(script{request: hang(2, func() { stop(errStop) })})
	if rep, err := w.run(ctx); err != nil || rep.Missing != 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	w.must()
	want(t, "outcomes", w.summary(), "ok/2 ok/1")
	d := w.plan.Deployments()[0]
	want(t, "launches", w.state().Launches[d.ID], 2)
	want(t, "attempts", w.state().Attempts[rundir.Key{Cell: d.Cells[0].ID, Trial: 1}], 2)
}

// hang returns a server that says nothing more from its nth request on; then is
// called when that has come.
func hang(n int, then func()) func(*fakeServer, int) {
	return func(s *fakeServer, i int) {
		if i < n {
			return
		}
		if i == n && then != nil {
			then()
		}
		<-s.hung()
	}
}

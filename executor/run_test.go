package executor

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

// Cells that share their server's axes are measured on one launch; others are
// not.
func TestRun_oneLaunchForEachServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, gpu: [a, b], concurrency: [1, 2]}`)
	rep := w.must()
	want(t, "committed", rep.Committed, 4)
	want(t, "outcomes", w.summary(), "ok/1 ok/1 ok/1 ok/1")
	want(t, "launches", w.backend.count("launch"), 2)
	want(t, "stops", w.backend.count("stop"), 2)
	want(t, "at once", w.backend.peak, 1)
	for _, s := range w.backend.list() {
		want(t, "requests of a server", len(s.prompts()), (1+1+2)+(1+2+2)) // of one worker and of two: warm-up, the first of each, requests
		want(t, "cache resets of a server", s.looked("reset"), 2)
	}
	st := w.state()
	want(t, "owed pods", len(st.Owed), 0)
	want(t, "finished", st.Finished, true)
}

// The first trials of all cells come before the second ones.
func TestRun_repeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `repeats: 2`)
	w.must()
	cells := w.plan.Deployments()[0].Cells
	var got []rundir.Key
	for _, c := range w.committed() {
		got = append(got, c.Key)
	}
	wantKeys := []rundir.Key{{Cell: cells[0].ID, Trial: 1}, {Cell: cells[1].ID, Trial: 1}, {Cell: cells[0].ID, Trial: 2}, {Cell: cells[1].ID, Trial: 2}}
	if !slices.Equal(got, wantKeys) {
		t.Errorf("order: %v, want %v", got, wantKeys)
	}
	want(t, "launches", w.backend.count("launch"), 1)
}

// A shuffled order is the seed's, and the same each time.
func TestRun_shuffled(t *testing.T) {
	t.Parallel()
	order := func(lines ...string) (keys []rundir.Key) {
		w := newWorld(t, nil, append([]string{
			`matrix: {engine: sim, gpu: [a, b], concurrency: [1], max_tokens: [1, 2, 3, 4]}`,
			`load: {requests: 1, warmup: {requests: 0}, prompts: {input_tokens: 24}}`,
		}, lines...)...)
		w.must()
		for _, c := range w.committed() {
			keys = append(keys, c.Key)
		}
		return keys
	}
	declared, first, second := order(), order(`order: shuffled`), order(`order: shuffled`)
	if !slices.Equal(first, second) {
		t.Errorf("the same seed gave\n%v and\n%v", first, second)
	}
	if slices.Equal(declared, first) {
		t.Error("shuffled is as declared")
	}
}

// An ended run discards the trial at hand and starts nothing more.
func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	// The second trial: three requests have been answered before it.
	w := newWorld(t, always(script{request: hang(5, func() { stop(errStop) })}), `repeats: 2`)
	rep, err := w.run(ctx)
	if err != nil || !errors.Is(rep.Interrupted, errStop) || rep.Left.Cleanup != nil {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "planned", rep.Planned, 4)
	want(t, "committed", rep.Committed, 1)
	want(t, "missing", rep.Missing, 3)
	want(t, "outcomes", w.summary(), "ok/1")
	discarded := w.seen(event.TrialDiscarded)
	if len(discarded) != 1 || discarded[0].Text != errStop.Error() {
		t.Errorf("discarded: %+v", discarded)
	}
	last := w.seen(event.RunFinished)
	if len(last) != 1 || last[0].Error != errStop.Error() || last[0].Done != 1 || last[0].Total != 4 {
		t.Errorf("the last event: %+v", last)
	}
	want(t, "launches", w.backend.count("launch"), 1)
	want(t, "stops", w.backend.count("stop"), 1)
}

// A trial that was measured to its end is kept if the run ends before its commit,
// once it is known that its server did not die under it.
func TestRun_interruptedAfterTheMeasurement(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dies      bool
		outcomes  string
		discarded string
	}{
		"alive": {outcomes: "ok/1"},
		"dies":  {dies: true, discarded: "the server died"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			var answered, looks atomic.Int32
			w := newWorld(t, always(script{
				request: func(_ *fakeServer, n int) {
					if answered.Store(int32(n)); n == 4 && tt.dies {
						panic(http.ErrAbortHandler)
					}
				},
				watched: func(s *fakeServer) {
					if answered.Load() < 4 { // a warm-up, the first and two requests
						return
					}
					stop(errStop)
					if looks.Add(1) == 2 && tt.dies {
						s.tell(killed())
					}
				},
			}))
			rep, err := w.run(ctx)
			if err != nil || !errors.Is(rep.Interrupted, errStop) || rep.Left.Cleanup != nil {
				t.Errorf("%+v, %v", rep, err)
			}
			want(t, "outcomes", w.summary(), tt.outcomes)
			var discarded string
			for _, e := range w.seen(event.TrialDiscarded) {
				discarded += e.Text
			}
			if !strings.HasPrefix(discarded, tt.discarded) || tt.discarded == "" && discarded != "" {
				t.Errorf("discarded: %q, want %q", discarded, tt.discarded)
			}
		})
	}
}

// A run can be ended in every phase of a deployment.
func TestRun_interruptedInPhases(t *testing.T) {
	t.Parallel()
	forever := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, tt := range map[string]struct {
		script script
		when   func(event.Event) bool
		stops  int
	}{
		"launch": {script{slow: forever}, func(e event.Event) bool { return e.Step == "launch" }, 0},
		"ready":  {script{health: 503}, func(e event.Event) bool { return e.Step == "ready" }, 1},
		"reset":  {script{}, func(e event.Event) bool { return e.Step == "reset" }, 1},
		"warmup": {script{}, func(e event.Event) bool { return e.Step == "warm up" }, 1},
		"death":  {dies(2), func(e event.Event) bool { return e.Type == event.ServerDied }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			w := newWorld(t, always(tt.script))
			w.on = func(e event.Event) {
				if tt.when(e) {
					stop(errStop)
				}
			}
			rep, err := w.run(ctx)
			if err != nil || !errors.Is(rep.Interrupted, errStop) || rep.Left.Cleanup != nil {
				t.Errorf("%+v, %v", rep, err)
			}
			want(t, "missing", rep.Missing, 2)
			want(t, "launches", w.backend.count("launch"), 1)
			want(t, "stops", w.backend.count("stop"), tt.stops)
			want(t, "owed pods", len(w.state().Owed), 0)
		})
	}
}

func TestRun_maxTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{request: hang(5, nil)}))
	rep, err := w.run(t.Context(), func(c *Config) { c.MaxTime = 3 * time.Second }) // the first trial ends in it on a busy machine too
	if err != nil || !errors.Is(rep.Interrupted, ErrMaxTime) {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "committed", rep.Committed, 1)
	want(t, "missing", rep.Missing, 1)
	want(t, "stops", w.backend.count("stop"), 1)
}

func TestRun_failFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{status: 429}), `repeats: 2`)
	rep, err := w.run(t.Context(), func(c *Config) { c.FailFast = true })
	if err != nil || !errors.Is(rep.Interrupted, ErrFailFast) {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "outcomes", w.summary(), "failed/overload/1")
	want(t, "missing", rep.Missing, 3)
}

// A plan that expects servers to fail does not end at the first that does.
func TestRun_failFastRecordsStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{models: func(int) []string { return []string{"other"} }}), `on_start_failure: record`)
	w.must(func(c *Config) { c.FailFast = true })
	want(t, "outcomes", w.summary(), "failed/wrong_model/1 failed/wrong_model/1")
}

func TestRun_only(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, gpu: [a, b], concurrency: [1, 2]}`)
	only, err := w.plan.Filter(`gpu == "b" && concurrency == 2`)
	if err != nil {
		t.Fatal(err)
	}
	rep := w.must(func(c *Config) { c.Only = only })
	want(t, "planned", rep.Planned, 1)
	want(t, "launches", w.backend.count("launch"), 1)
	row := w.outcomes()[0].Row
	want(t, "gpu", row["gpu"].(string), "b")
	want(t, "concurrency", row["concurrency"].(int64), 2)
	if _, err := w.run(t.Context(), func(c *Config) {
		c.Only = func(plan.Cell) (bool, error) { return false, errStop }
	}); !errors.Is(err, errStop) {
		t.Errorf("an expression that fails: %v", err)
	}
}

// A resumed run leaves alone what has an outcome by the same specification.
func TestResume(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	w := newWorld(t, always(script{request: hang(5, func() { stop(errStop) })}))
	if rep, err := w.run(ctx); err != nil || rep.Missing != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	first := w.committed()[0]

	w.backend = &fakeBackend{}
	rep := w.must()
	want(t, "before", rep.Before, 1)
	want(t, "committed", rep.Committed, 1)
	want(t, "outcomes", w.summary(), "ok/1 ok/2")
	want(t, "the first commit", w.state().Committed[first.Key], first)

	w.backend = &fakeBackend{}
	rep = w.must()
	want(t, "before", rep.Before, 2)
	want(t, "launches of a finished run", w.backend.count("launch"), 0)

	// Another seed is another load: what was measured does not stand for it.
	w.plan = plantest.Parse(t, `seed: 7`)
	w.backend = &fakeBackend{}
	rep = w.must()
	want(t, "before", rep.Before, 0)
	want(t, "committed", rep.Committed, 2)
	want(t, "outcomes", w.summary(), "ok/1 ok/2 ok/2 ok/3")
}

func TestResume_retry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{request: nil, tokens: 3}), `matrix: {engine: sim, concurrency: [1], max_tokens: [3, 4]}`, `load: {requests: 2, prompts: {input_tokens: 24}}`)
	w.must()
	want(t, "outcomes", w.summary(), "ok/1 invalid/1")
	w.backend = &fakeBackend{}
	rep := w.must(func(c *Config) { c.Retry = []string{"invalid", "failed"} })
	want(t, "before", rep.Before, 1)
	want(t, "outcomes", w.summary(), "ok/1 invalid/1 ok/2")
}

// Parallel deployments run at the same time, and no more than were asked for.
func TestRun_parallel(t *testing.T) {
	t.Parallel()
	var meet sync.WaitGroup
	meet.Add(2)
	together := make(chan struct{})
	go func() { meet.Wait(); close(together) }()
	var once [2]sync.Once
	w := newWorld(t, nil, `matrix: {engine: sim, gpu: [a, b, c, d], concurrency: [1]}`)
	w.backend.script = always(script{request: func(s *fakeServer, n int) {
		for i, server := range w.backend.list() {
			if server == s && i < 2 {
				once[i].Do(meet.Done)
				<-together // hangs for ever where the two are not up at once
			}
		}
	}})
	rep := w.must(func(c *Config) { c.Parallel = 2 })
	want(t, "committed", rep.Committed, 4)
	want(t, "at once", w.backend.peak, 2)
	want(t, "stops", w.backend.count("stop"), 4)
}

// Deployments that run at the same time have no more GPUs together than were asked for.
func TestRun_maxGPUs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, gpu: [a, b, c], args.tensor-parallel-size: 2, concurrency: [1]}`)
	rep := w.must(func(c *Config) { c.Parallel, c.MaxGPUs = 3, 3 })
	want(t, "committed", rep.Committed, 3)
	want(t, "at once", w.backend.peak, 1)
}

// A trial that is over its time is a failed row, and the next one goes on.
func TestRun_trialTimeout(t *testing.T) {
	t.Parallel()
	var once sync.Once
	committed := make(chan struct{}) // the first trial
	w := newWorld(t, always(script{request: func(s *fakeServer, n int) {
		if n == 2 {
			<-committed
		}
	}}), `timeouts: {trial: 3s, stop: 5s}`, `load: {requests: 1, warmup: {requests: 1}, prompts: {input_tokens: 24}}`,
		`matrix: {engine: sim, concurrency: [1], max_tokens: [4, 5]}`)
	w.on = func(e event.Event) {
		if e.Type == event.TrialCommitted {
			once.Do(func() { close(committed) })
		}
	}
	w.must()
	want(t, "outcomes", w.summary(), "failed/timeout/1 ok/1")
	if text := w.outcomes()[0].Row["error"].(string); !strings.Contains(text, "timeouts.trial: not done after 3s") {
		t.Error(text)
	}
	want(t, "launches", w.backend.count("launch"), 1)
}

// An engine without the reset of its cache is no fault; one whose reset does
// not work is reported, and the trial goes on with prompts that it never saw.
func TestRun_cacheReset(t *testing.T) {
	t.Parallel()
	for status, failed := range map[int]bool{200: false, 404: false, 500: true} {
		w := newWorld(t, always(script{reset: status}))
		w.must()
		want(t, "outcomes", w.summary(), "ok/1 ok/1")
		for _, o := range w.outcomes() {
			found := false
			for _, f := range o.Findings {
				found = found || f.Code == finding.CacheNotReset
			}
			want(t, "finding", found, failed)
		}
	}
}

// A given server keeps its cache, unless the plan says that its owner permits a
// reset; then a reset that fails is a finding, also if the server has no such call.
func TestRun_cacheResetOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		guest   backends.Backend
		status  int
		resets  int
		finding bool
	}{
		"not a guest":         {nil, 200, 0, false},
		"not permitted":       {guestBackend{permits: false}, 200, 0, false},
		"permitted":           {guestBackend{permits: true}, 200, 2, false},
		"permitted, no route": {guestBackend{permits: true}, 404, 2, true},
	} {
		w := newWorld(t, always(script{reset: c.status}))
		w.must(func(config *Config) {
			config.Servers.Given = true
			if g, ok := c.guest.(guestBackend); ok {
				g.fakeBackend = w.backend
				config.Backend = g
			}
		})
		want(t, name+": resets", w.backend.list()[0].looked("reset"), c.resets)
		for _, o := range w.outcomes() {
			want(t, name+": finding", slices.ContainsFunc(o.Findings, func(f result.Finding) bool { return f.Code == finding.CacheNotReset }), c.finding)
		}
	}
}

// A guestBackend has servers of somebody else.
type guestBackend struct {
	*fakeBackend
	permits bool
}

func (b guestBackend) MayResetCache() bool { return b.permits }

// Two runs of one plan send different prompts to a given server, and the same to
// servers of their own.
func TestRun_promptsOfOthers(t *testing.T) {
	t.Parallel()
	first := func(given bool, run string) string {
		w := newWorld(t, nil)
		w.id = run
		w.must(func(c *Config) { c.Servers.Given = given })
		return w.prompts()[0].prompt
	}
	want(t, "own servers", first(false, "run-1") == first(false, "run-2"), true)
	given := first(true, "run-1")
	want(t, "one run", given == first(true, "run-1"), true)
	want(t, "given servers", given == first(true, "run-2"), false)
}

// The journal that cannot be written ends the run as our own fault.
func TestRun_ownFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, gpu: [a, b], concurrency: [1]}`)
	w.fault = "commit.journal:err=ENOSPC"
	rep, err := w.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "missing", rep.Missing, 2)
	want(t, "launches", w.backend.count("launch"), 1)
	want(t, "stops", w.backend.count("stop"), 1)
}

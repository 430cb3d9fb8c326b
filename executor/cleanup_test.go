package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
)

var errStop = errors.New("somebody said stop")

// Whatever ends a run, each launch is stopped once, on a context that the
// run's end did not end.
func TestStop_survivesTheRun(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var alive error
	var bounded bool
	w := newWorld(t, always(script{
		request: hang(2, func() { stop(errStop) }),
		stop: func(ctx context.Context) error {
			alive = ctx.Err()
			_, bounded = ctx.Deadline()
			return nil
		},
	}))
	rep, err := w.run(ctx)
	if err != nil || rep.Left.Cleanup != nil {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "stops", w.backend.count("stop"), 1)
	want(t, "context of the stop", alive, nil)
	want(t, "the stop is bounded", bounded, true)
	want(t, "owed pods", len(w.state().Owed), 0)
}

// Nothing more is started where something may still run; other deployments go
// on.
func TestStop_failsAfterDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ int, spec backends.Spec) script {
		if spec.GPU == "b" {
			return script{}
		}
		s := dies(2)
		s.stop = func(context.Context) error { return errors.New("it is still there") }
		return s
	}, `matrix: {engine: sim, gpu: [a, b], concurrency: [1, 2]}`)
	rep, err := w.run(t.Context())
	if err != nil {
		t.Error(err)
	}
	if rep.Left.Cleanup == nil || strings.Count(rep.Left.Cleanup.Error(), "still there") != 1 {
		t.Errorf("clean-up: %v", rep.Left.Cleanup)
	}
	want(t, "outcomes", w.summary(), "ok/1 ok/1")
	want(t, "missing", rep.Missing, 2)
	want(t, "interrupted", rep.Interrupted, nil)
	want(t, "launches", w.backend.count("launch"), 2)
	want(t, "stops", w.backend.count("stop"), 2)
	want(t, "owed pods", len(w.state().Owed), 1)
}

// A stop that fails at the end of a deployment is told as well.
func TestStop_fails(t *testing.T) {
	t.Parallel()
	errStill := errors.New("it is still there")
	w := newWorld(t, always(script{stop: func(context.Context) error { return errStill }}))
	rep, err := w.run(t.Context())
	if err != nil || !errors.Is(rep.Left.Cleanup, errStill) {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "outcomes", w.summary(), "ok/1 ok/1")
	want(t, "stops", w.backend.count("stop"), 1)
	st := w.state()
	if len(st.Owed) != 1 || st.Owed[0].Ref == nil {
		t.Errorf("owed: %+v", st.Owed)
	}
}

// A server that never became ready and cannot be stopped: its cells have no
// outcome, so that a resume can give them one.
func TestStop_failsBeforeReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{
		models: func(int) []string { return []string{"other"} },
		stop:   func(context.Context) error { return errors.New("it is still there") },
	}))
	rep, err := w.run(t.Context())
	if err != nil || rep.Left.Cleanup == nil || rep.Missing != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "launches", w.backend.count("launch"), 1)
	want(t, "stops", w.backend.count("stop"), 1)
	want(t, "outcomes", w.summary(), "")
}

// The second signal cuts the clean-up short.
func TestStop_teardownCancelled(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	teardown, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	w := newWorld(t, always(script{
		request: hang(2, func() { stop(errStop) }),
		stop:    func(ctx context.Context) error { cut(errors.New("at once")); <-ctx.Done(); return context.Cause(ctx) },
	}), `timeouts: {stop: 10m}`)
	rep, err := w.run(ctx, func(c *Config) { c.Teardown = teardown })
	if err != nil || rep.Left.Cleanup == nil || !strings.Contains(rep.Left.Cleanup.Error(), "at once") {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "owed pods", len(w.state().Owed), 1)
}

// Pods that an earlier run left are ended before anything starts. Pods of others are
// left alone.
func TestReclaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{stop: func(context.Context) error { return errors.New("no") }}),
		`matrix: {engine: sim, gpu: [a, b], concurrency: [1]}`)
	if rep, err := w.run(t.Context()); err != nil || rep.Left.Cleanup == nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	owed := w.state().Owed
	if len(owed) != 2 {
		t.Fatalf("owed: %+v", owed)
	}
	again := &fakeBackend{known: []backends.Listed{
		{Ref: backends.Ref{Kind: "fake", RunID: testRun, Pod: owed[0].Pod, ID: owed[0].Ref.ID}},
		{Ref: backends.Ref{Kind: "fake", RunID: testRun, Pod: owed[0].Pod, ID: "duplicate"}}, // a create that was sent twice
		{Ref: backends.Ref{Kind: "fake", RunID: "run-2", Pod: owed[0].Pod, ID: "stranger"}},
		{Ref: backends.Ref{Kind: "fake", RunID: testRun, Pod: "another", ID: "not-owed"}},
	}}
	w.backend = again
	w.must(func(c *Config) { c.Retry = []string{"ok"} })
	got := slices.Sorted(slices.Values(again.calls[:4])) // all at once, and before anything else
	wantCalls := []string{"list " + testOwner, "terminate " + owed[0].Ref.ID, "terminate duplicate", "terminate " + owed[1].Ref.ID}
	if slices.Sort(wantCalls); !slices.Equal(got, wantCalls) {
		t.Errorf("calls:\n%v\nwant:\n%v", got, wantCalls)
	}
	want(t, "terminated", again.count("terminate"), 3)
	want(t, "owed pods", len(w.state().Owed), 0)
}

// A pod that cannot be ended prevents every new start. The other owed pods are
// still ended.
func TestReclaim_fails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{stop: func(context.Context) error { return errors.New("no") }}),
		`matrix: {engine: sim, gpu: [a, b], concurrency: [1]}`)
	if _, err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := &fakeBackend{refuse: fmt.Errorf("still there")}
	w.backend = again
	rep, err := w.run(t.Context(), func(c *Config) { c.Retry = []string{"ok"} })
	if err == nil || rep.Left.Cleanup == nil {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "missing", rep.Missing, 2)
	want(t, "launches", again.count("launch"), 0)
	want(t, "terminated", again.count("terminate"), 2)
	want(t, "owed pods", len(w.state().Owed), 2)
}

// Pods that a failed launch could not release are ended at once, by the names
// that the provider knows.
func TestLaunch_leaves(t *testing.T) {
	t.Parallel()
	leak := always(script{launch: errors.New("it did not work"), leak: true})
	w := newWorld(t, leak)
	pod := w.plan.Deployments()[0].ID + "-l01"
	w.backend.known = []backends.Listed{
		{Ref: backends.Ref{Kind: "fake", RunID: testRun, Pod: pod, ID: "left"}},
		{Ref: backends.Ref{Kind: "fake", RunID: "run-2", Pod: pod, ID: "stranger"}},
	}
	w.must()
	want(t, "outcomes", w.summary(), "failed/unknown/1 failed/unknown/1")
	want(t, "ended", w.backend.count("terminate left"), 1)
	want(t, "ended in all", w.backend.count("terminate"), 2) // and whatever of its name may show up late
	want(t, "owed pods", len(w.state().Owed), 0)

	w = newWorld(t, leak)
	w.backend.known = []backends.Listed{{Ref: backends.Ref{Kind: "fake", RunID: testRun, Pod: pod, ID: "left"}}}
	w.backend.refuse = errors.New("it is still there")
	rep, err := w.run(t.Context())
	if err != nil || rep.Left.Cleanup == nil || rep.Missing != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "launches", w.backend.count("launch"), 1)
	want(t, "owed pods", len(w.state().Owed), 1)
}

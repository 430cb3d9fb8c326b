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

// eachLaunch is a plan of two cells with three trials, each on its own launch.
var eachLaunch = []string{
	`matrix: {engine: sim, concurrency: [1, 2]}`,
	`repeats: {n: 3, launch: each}`,
}

// launches is what each outcome was measured on, as concurrency.trial@launch, in the
// journal's order.
func (w *world) launches() string {
	w.t.Helper()
	var parts []string
	for _, o := range w.outcomes() {
		parts = append(parts, fmt.Sprintf("%v.%d@%v", o.Row["concurrency"], o.Trial, o.Row["launch"]))
	}
	return strings.Join(parts, " ")
}

// Trials share the launch of their deployment unless the plan says otherwise.
func TestRepeats_launchSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, concurrency: [1, 2]}`, `repeats: {n: 2, launch: same}`)
	w.must()
	want(t, "launches", w.launches(), "1.1@1 2.1@1 1.2@1 2.2@1")
	want(t, "launched", w.backend.count("launch"), 1)
}

// Trial n of all cells is measured on the nth launch, and no two servers are up at
// once.
func TestRepeats_launchEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, eachLaunch...)
	w.must()
	want(t, "launches", w.launches(), "1.1@1 2.1@1 1.2@2 2.2@2 1.3@3 2.3@3")
	want(t, "outcomes", w.summary(), strings.TrimSpace(strings.Repeat("ok/1 ", 6)))
	want(t, "stops", w.backend.count("stop"), 3)
	want(t, "servers at once", w.backend.peak, 1)
	want(t, "owed pods", len(w.state().Owed), 0)
}

// A run that goes on launches for the rest of the trial at which it was ended, and
// then for each trial that is left.
func TestRepeats_launchEachResumes(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	w := newWorld(t, func(n int, _ backends.Spec) script {
		if n == 2 { // in its second cell
			return script{request: hang(7, func() { stop(errStop) })}
		}
		return script{}
	}, eachLaunch...)
	if rep, err := w.run(ctx); err != nil || !errors.Is(rep.Interrupted, errStop) || rep.Missing != 3 {
		t.Fatalf("%+v, %v", rep, err)
	}
	want(t, "before", w.launches(), "1.1@1 2.1@1 1.2@2")
	w.backend.script = nil
	w.must()
	want(t, "launches", w.launches(), "1.1@1 2.1@1 1.2@2 2.2@3 1.3@4 2.3@4")
	w.must()
	want(t, "launched", w.backend.count("launch"), 4)
}

// A launch that fails costs its trials alone if another one came up, and is not
// tried again where none did.
func TestRepeats_launchEachFails(t *testing.T) {
	t.Parallel()
	fails := func(which int) func(int, backends.Spec) script {
		return func(n int, _ backends.Spec) script {
			if n == which {
				return script{launch: errors.New("it did not work")}
			}
			return script{}
		}
	}
	w := newWorld(t, fails(2), eachLaunch...)
	w.must()
	want(t, "outcomes", w.summary(), "ok/1 ok/1 failed/unknown/1 failed/unknown/1 ok/1 ok/1")
	want(t, "launches", w.launches(), "1.1@1 2.1@1 1.2@<nil> 2.2@<nil> 1.3@3 2.3@3")

	w = newWorld(t, fails(1), eachLaunch...)
	w.must()
	want(t, "outcomes", w.summary(), strings.TrimSpace(strings.Repeat("failed/unknown/1 ", 6)))
	want(t, "launched", w.backend.count("launch"), 1)
}

// A server that dies under a trial is launched again for it, and the next trial has
// its own launch all the same.
func TestRepeats_launchEachDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(n int, _ backends.Spec) script {
		if n == 2 {
			return dies(2)
		}
		return script{}
	}, eachLaunch...)
	w.must()
	want(t, "launches", w.launches(), "1.1@1 2.1@1 1.2@3 2.2@3 1.3@4 2.3@4")
	want(t, "outcomes", w.summary(), "ok/1 ok/1 ok/2 ok/1 ok/1 ok/1")
}

// Where a server cannot be stopped nothing more is launched, and the trials that are
// left stay without an outcome.
func TestRepeats_launchEachStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{stop: func(context.Context) error { return errors.New("it is still there") }}), eachLaunch...)
	rep, err := w.run(t.Context())
	if err != nil || rep.Left.Cleanup == nil || rep.Missing != 4 {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "launched", w.backend.count("launch"), 1)
}

// What is sent beyond the load is announced for each launch.
func TestRepeats_launchEachAnnounced(t *testing.T) {
	t.Parallel()
	for lines, ready := range map[string]int{`repeats: 3`: 1, eachLaunch[1]: 3} {
		w := newWorld(t, nil, eachLaunch[0], lines)
		list := Extras(w.plan, w.plan.Deployments()[0], w.backend, false)
		i := slices.IndexFunc(list, func(x Extra) bool { return x.What == "ready" })
		if i < 0 || *list[i].Completions != ready {
			t.Errorf("%s: %+v", lines, list)
		}
	}
}

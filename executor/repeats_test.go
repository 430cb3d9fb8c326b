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
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// eachLaunch is a plan of two cells with three trials, each on its own launch.
var eachLaunch = []string{
	`matrix: {engine: sim, concurrency: [1, 2]}`,
	`repeats: {n: 3, launch: each}`,
}

// launches returns what each outcome was measured on, as concurrency.trial@launch, in the
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

// The same where deployments take turns: the next would share its machine with it.
func TestTurns_stuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{stop: func(context.Context) error { return errors.New("it is still there") }}),
		`engines: {other: {profile: sim}}`, `matrix: {engine: [sim, other], concurrency: [2]}`,
		`compare: {axis: engine, baseline: sim}`, `repeats: {n: 2, launch: each}`)
	rep, err := w.run(t.Context())
	if err != nil || rep.Left.Cleanup == nil || rep.Missing != 3 {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "launched", w.backend.count("launch"), 1)
}

// The requests beyond the load are announced for each launch.
func TestRepeats_launchEachAnnounced(t *testing.T) {
	t.Parallel()
	for lines, ready := range map[string]int{`repeats: 3`: 1, eachLaunch[1]: 3} {
		w := newWorld(t, nil, eachLaunch[0], lines)
		list := Extras(w.plan, w.plan.Deployments()[0], w.backend, serving.Options{})
		i := slices.IndexFunc(list, func(x Extra) bool { return x.What == "ready" })
		if i < 0 || *list[i].Completions != ready {
			t.Errorf("%s: %+v", lines, list)
		}
	}
}

// enoughSoon is a plan whose trials agree as soon as there are as many as there must
// be: at a confidence of 1 % no spread is too wide.
var enoughSoon = []string{
	`matrix: {engine: sim, concurrency: [1, 2]}`,
	`load: {requests: 20, max_tokens: 4, prompts: {input_tokens: 24, length: words}}`,
	`repeats: {launch: each, max: 6, until: {metric: e2e_ms, within: 99%, confidence: 1%}}`,
}

// Trials that are not needed are outcomes that say so, and cost no launch.
func TestRepeats_until(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, enoughSoon...)
	w.must()
	launched := w.enough(3)
	want(t, "launched", w.backend.count("launch"), launched)
	w.must()
	want(t, "launched after all", w.backend.count("launch"), launched)
}

// enough fails unless each cell has so many trials with a figure and no trial after
// them; on a busy machine a trial may have none. It returns the number of the last trial
// that was run.
func (w *world) enough(least int) (last int) {
	w.t.Helper()
	have := map[string]int{}
	outcomes := w.outcomes()
	want(w.t, "outcomes", len(outcomes), 12)
	for _, o := range outcomes {
		text := fmt.Sprint(o.Row["error"])
		switch {
		case have[o.CellID] < least && o.Row["status"] == result.StatusSkipped:
			w.t.Errorf("trial %d after %d figures: %s", o.Trial, have[o.CellID], text)
		case have[o.CellID] < least:
			last = max(last, o.Trial)
			if o.Row["valid"] == true && o.Row["mean_e2e_ms"] != nil {
				have[o.CellID]++
			}
		case !strings.HasPrefix(text, fmt.Sprintf("not run: the mean of mean_e2e_ms over %d valid trials is known within ", least)) || o.Row["findings"] != "trials_enough" || o.Row["launch"] != nil:
			w.t.Errorf("trial %d: %s, %v, launch %v", o.Trial, text, o.Row["findings"], o.Row["launch"])
		}
	}
	return last
}

// A mean that is never known well enough gets all trials.
func TestRepeats_untilCap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, enoughSoon[0], `repeats: {max: 4, until: {metric: e2e_ms, within: 0.000001}}`)
	w.must()
	want(t, "outcomes", w.summary(), strings.TrimSpace(strings.Repeat("ok/1 ", 8)))
}

// A run that was ended after the deciding trial, and before what follows from it was
// written, concludes the same when it goes on.
func TestRepeats_untilResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, enoughSoon...)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	w.on = func(e event.Event) {
		if e.Type == event.TrialCommitted && e.Done == 6 {
			stop(errStop)
		}
	}
	if rep, err := w.run(ctx); err != nil || rep.Missing != 6 {
		t.Fatalf("%+v, %v", rep, err)
	}
	w.on = nil
	w.must()
	want(t, "launched", w.backend.count("launch"), w.enough(3))
}

// The figures of the valid trials decide, in the order of their numbers and not of their
// measurement. They decide about later trials alone.
func TestSkipFurther(t *testing.T) {
	t.Parallel()
	type committed struct {
		trial int
		valid any
		value any
	}
	row := func(c committed) result.Row {
		return result.Row{"valid": c.valid, "throughput_tok_s": c.value}
	}
	for name, c := range map[string]struct {
		rows []committed
		want string // numbers of the trials that are skipped
	}{
		"three that agree":        {[]committed{{1, true, 100.0}, {2, true, 100.1}, {3, true, 100.2}}, "4 5 6"},
		"two":                     {[]committed{{1, true, 100.0}, {2, true, 100.1}}, ""},
		"an INVALID one between":  {[]committed{{1, true, 100.0}, {2, false, 900.0}, {3, true, 100.1}, {4, true, 100.2}}, "5 6"},
		"one without the figure":  {[]committed{{1, true, 100.0}, {2, true, nil}, {3, true, 100.1}, {4, true, 100.2}}, "5 6"},
		"one that was not judged": {[]committed{{1, true, 100.0}, {2, nil, 100.3}, {3, true, 100.1}}, ""},
		"they differ":             {[]committed{{1, true, 100.0}, {2, true, 150.0}, {3, true, 120.0}}, ""},
		"a retried one last":      {[]committed{{1, true, 100.0}, {3, true, 100.1}, {2, true, 100.2}}, "4 5 6"},
		"a retried one earlier":   {[]committed{{2, true, 100.0}, {3, true, 100.1}, {4, true, 100.2}}, "5 6"},
	} {
		w := newWorld(t, nil, `repeats: {max: 6, until: {metric: throughput_tok_s, within: 5%}}`, `matrix: {engine: sim, concurrency: [1, 2]}`)
		of := w.plan.Deployments()[0]
		d := &deployment{config: &Config{Plan: w.plan}}
		for n := 1; n <= 6; n++ {
			for _, cell := range of.Cells {
				d.trials = append(d.trials, trial{key: rundir.Key{Cell: cell.ID, Trial: n}, cell: cell})
			}
		}
		for _, r := range c.rows {
			d.skipFurther(&trial{key: rundir.Key{Cell: of.Cells[0].ID, Trial: r.trial}, cell: of.Cells[0]}, row(r))
		}
		var got []string
		for _, one := range d.trials {
			if one.skip != nil {
				got = append(got, fmt.Sprint(one.key.Trial))
				want(t, name+": cell", one.key.Cell, of.Cells[0].ID)
			}
		}
		want(t, name, strings.Join(got, " "), c.want)
	}
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// add gives a run further trials, as a resume does.
func (w *world) add(keys ...rundir.Key) {
	w.t.Helper()
	d, _ := w.open()
	if err := errors.Join(d.AddTrials(keys), d.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// TestAdded holds that trials that were added are run after those of the plan, that a run
// which is ended among them goes on with them, and that a turn each has its launch.
func TestAdded(t *testing.T) {
	t.Parallel()
	for _, launch := range []string{"same", "each"} {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		w := newWorld(t, nil, `matrix: {engine: sim, concurrency: [1, 2]}`, fmt.Sprintf(`repeats: {n: 2, launch: %s}`, launch))
		w.must()
		cells := w.plan.Deployments()[0].Cells
		w.add(rundir.Key{Cell: cells[0].ID, Trial: 3}, rundir.Key{Cell: cells[0].ID, Trial: 4}, rundir.Key{Cell: cells[1].ID, Trial: 3})
		want(t, launch+": planned", w.state().Planned(), 0+3)
		w.backend.script = func(int, backends.Spec) script { return script{request: hang(7, func() { stop(errStop) })} }
		if rep, err := w.run(ctx); err != nil || !errors.Is(rep.Interrupted, errStop) || rep.Before != 4 || rep.Missing+rep.Committed != 3 || rep.Missing == 0 {
			t.Fatalf("%s: %+v, %v", launch, rep, err)
		}
		w.backend.script = nil
		w.must()
		var got []string
		for _, o := range w.outcomes() {
			got = append(got, fmt.Sprintf("%v.%d", o.Row["concurrency"], o.Trial))
		}
		want(t, launch+": trials", strings.Join(got, " "), "1.1 2.1 1.2 2.2 1.3 2.3 1.4")
		before := w.backend.count("launch")
		w.must()
		want(t, launch+": launched once more", w.backend.count("launch"), before)
	}
}

// TestSkipDecided holds that the trials that were added to a cell end once its objectives are
// decided, by the cell's trials together, and that those of the plan and of other cells do not.
func TestSkipDecided(t *testing.T) {
	t.Parallel()
	part := func(requests, over int) *result.Outcome {
		return &result.Outcome{Row: result.Row{"valid": true}, SLOs: []result.SLOResult{{
			Name: "fast", Expr: "p95_ttft_ms < 1", Severity: "fail", Verdict: result.SLOUndecided,
			Parts: []result.SLOPart{{Expr: "p95_ttft_ms < 1", Rule: result.RuleShare, Allowed: 0.05, Requests: requests, N: requests, Over: over, Deff: 1, Confidence: 0.95, Verdict: result.SLOUndecided}},
		}}}
	}
	invalid := part(1000, 0)
	invalid.Row["valid"] = false
	warn := part(30, 0)
	warn.SLOs = append(warn.SLOs, part(30, 2).SLOs[0])
	warn.SLOs[1].Name, warn.SLOs[1].Severity = "nice", "warn"
	for name, c := range map[string]struct {
		outcomes []*result.Outcome
		want     string // numbers of the trials that are skipped
	}{
		"not yet":           {[]*result.Outcome{part(30, 0), part(30, 0)}, ""},
		"they pass":         {[]*result.Outcome{part(30, 0), part(30, 0), part(30, 0)}, "4 5 6"},
		"they fail":         {[]*result.Outcome{part(30, 7), part(30, 8)}, "3 4 5 6"},
		"an INVALID one":    {[]*result.Outcome{part(30, 0), invalid, part(30, 0)}, ""},
		"one only warns":    {[]*result.Outcome{warn, warn, warn}, "4 5 6"},
		"those of the plan": {[]*result.Outcome{part(1000, 0)}, ""},
	} {
		w := newWorld(t, nil, `matrix: {engine: sim, concurrency: [1, 2]}`)
		of := w.plan.Deployments()[0]
		d := &deployment{config: &Config{Plan: w.plan}}
		for n := 1; n <= 6; n++ {
			for _, cell := range of.Cells {
				d.trials = append(d.trials, trial{key: rundir.Key{Cell: cell.ID, Trial: n}, cell: cell})
			}
		}
		for n, o := range c.outcomes {
			d.trials[2*n].done = true
			d.skipDecided(&d.trials[2*n], o)
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

// TestClaim holds that a trial that is added gets prompts of its own, after those of all
// others, and is refused if there are none.
func TestClaim(t *testing.T) {
	t.Parallel()
	texts := make([]string, 20)
	for i := range texts {
		texts[i] = fmt.Sprintf("text-%d", i)
	}
	w := newWorld(t, nil, `matrix: {engine: sim, concurrency: [1, 2]}`, `load: {requests: 2, warmup: {requests: 1}, max_tokens: 4, prompts: {kind: inline, texts: [`+strings.Join(texts, ", ")+`]}}`)
	cells := w.plan.Deployments()[0].Cells
	firsts := func(added ...rundir.Key) (out []int, err error) {
		r := &run{config: Config{Plan: w.plan, State: &rundir.State{Added: added}}}
		if _, err := r.plan(); err != nil {
			return nil, err
		}
		for _, tr := range r.all[0].trials {
			out = append(out, tr.first)
		}
		return out, nil
	}
	second := func(cell int) rundir.Key { return rundir.Key{Cell: cells[cell].ID, Trial: 2} }
	got, err := firsts(second(1), second(0)) // trials 1 of both cells, then 2 of both
	if err != nil || fmt.Sprint(got) != "[0 4 14 9]" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := firsts(second(1), second(0), rundir.Key{Cell: cells[0].ID, Trial: 3}); err == nil || !strings.Contains(err.Error(), "prompts") {
		t.Errorf("more than there are: %v", err)
	}
}

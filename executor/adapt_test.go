package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/event"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/search/adapt"
)

// adapts is a plan of two curves, which has the levels of neither in order. The server
// takes as long for an answer at each of them, so that some are interpolated on any
// machine that is not at its limit.
var adapts = []string{
	`matrix: {engine: sim, concurrency: [3, 1, 2, 8, 4, 12, 6], max_tokens: [2, 4]}`,
	`load: {requests: 24, warmup: {requests: 1}, prompts: {input_tokens: 24, length: words}}`,
	`adapt: {metric: mean_e2e_ms, within: 50%}`,
}

func waits(int, backends.Spec) script {
	return script{request: func(*fakeServer, int) { time.Sleep(20 * time.Millisecond) }}
}

// courses are the curves of the world's plan, of which nothing is known yet.
func (w *world) courses() []*course {
	return coursesOf(Curves(w.plan, w.plan.Deployments()[0].Cells))
}

// followed fails unless the journal has every trial, each as the outcomes before it have
// it: the one that tells most, or skipped since its curve asks for no more. It returns how
// many are skipped.
func (w *world) followed() (skipped int) {
	w.t.Helper()
	all, outcomes := w.courses(), w.outcomes()
	want(w.t, "outcomes", len(outcomes), len(w.plan.Cells())*w.plan.Repeats.Most())
	for _, o := range outcomes {
		key := rundir.Key{Cell: o.CellID, Trial: o.Trial}
		of, next := most(all)
		for _, c := range all {
			if p, more := adapt.Next(c.Settings, c.outcomes()); more && o.Row["status"] == result.StatusSkipped && c.level(key.Cell) >= 0 {
				w.t.Errorf("concurrency %v is skipped while its curve asks for level %d", o.Row["concurrency"], p.Level)
			}
		}
		switch {
		case o.Row["status"] == result.StatusSkipped:
			skipped++
			text := fmt.Sprint(o.Row["error"])
			if !strings.HasPrefix(text, "not run: interpolated between concurrency=") || o.Row["findings"] != "interpolated" || o.Row["why"] != nil || o.Row["valid"] != nil || o.Row["mean_e2e_ms"] != nil || o.Row["launch"] != nil {
				w.t.Errorf("%s, %v", text, o.Row)
			}
		case of == nil:
			w.t.Errorf("concurrency %v is run, and no curve asks for anything", o.Row["concurrency"])
		default:
			want(w.t, "why", o.Row["why"], any(next.Why))
			want(w.t, "trial", key, rundir.Key{Cell: of.Cells[next.Level].ID, Trial: next.Trial})
		}
		for _, c := range all {
			c.tell(key, o)
		}
	}
	return skipped
}

// The ends of all curves come first. A second run has nothing to do.
func TestAdapt(t *testing.T) {
	t.Parallel()
	for try := 1; ; try++ {
		w := newWorld(t, waits, adapts...)
		rep := w.must()
		skipped := w.followed()
		want(t, "planned", rep.Planned, 14)
		var first []string
		for _, o := range w.outcomes()[:6] {
			first = append(first, fmt.Sprint(o.Row["max_tokens"], " ", o.Row["concurrency"], " ", o.Row["why"]))
		}
		want(t, "first", strings.Join(first, ", "), "2 1 grid, 4 1 grid, 2 12 grid, 4 12 grid, 2 3 grid, 4 3 grid")
		want(t, "launched", w.backend.count("launch"), 1)
		want(t, "committed afterwards", w.must().Committed, 0)
		want(t, "launched afterwards", w.backend.count("launch"), 1)
		if skipped > 0 {
			return
		}
		if try == 5 { // a machine that is at its limit may have no flat curve
			t.Fatal("nothing is skipped")
		}
	}
}

// A run that is ended after any of its trials goes on as the outcomes say.
func TestAdapt_resumes(t *testing.T) {
	t.Parallel()
	for n := 1; n < 14; n += 2 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			w := newWorld(t, waits, append(adapts, `repeats: 2`)...)
			w.on = func(e event.Event) {
				if e.Type == event.TrialCommitted && e.Done == n {
					stop(errStop)
				}
			}
			if rep, err := w.run(ctx); err != nil || !errors.Is(rep.Interrupted, errStop) || rep.Missing != 28-n {
				t.Fatalf("%+v, %v", rep, err)
			}
			w.on = nil
			w.must()
			w.followed()
		})
	}
}

// Trials that are INVALID tell nothing, so that every level is run.
func TestAdapt_invalid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{tokens: 3}), `matrix: {engine: sim, concurrency: [1, 2, 3, 4, 5]}`,
		`load: {requests: 10, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24, length: words}}`, adapts[2])
	w.must()
	want(t, "skipped", w.followed(), 0)
	want(t, "outcomes", w.summary(), strings.TrimSpace(strings.Repeat("invalid/1 ", 5)))
}

// A trial that is asked for again is run, although its curve is known without it.
func TestAdapt_retry(t *testing.T) {
	t.Parallel()
	for try := 1; ; try++ {
		w := newWorld(t, waits, adapts...)
		w.must()
		skipped := w.followed()
		if skipped == 0 && try < 5 {
			continue // a machine that is at its limit may have no flat curve
		}
		rep := w.must(func(c *Config) { c.Retry = []string{result.StatusSkipped} })
		want(t, "committed again", rep.Committed, skipped)
		for _, o := range w.outcomes()[rep.Planned:] {
			if o.Row["status"] == result.StatusSkipped {
				t.Errorf("concurrency %v is skipped, and was asked for", o.Row["concurrency"])
			}
		}
		if skipped == 0 {
			t.Fatal("nothing is skipped")
		}
		return
	}
}

// The text of a level that is not run says from what it is interpolated, and how well.
func TestCourse_why(t *testing.T) {
	t.Parallel()
	w := &world{t: t, plan: plantest.Parse(t, `matrix: {engine: sim, concurrency: [1, 2, 4, 8, 16, 32, 64]}`, `load: {requests: 64, max_tokens: 4, prompts: {input_tokens: 24}}`,
		`adapt: {metric: throughput_tok_s, within: 5%}`)}
	c := w.courses()[0]
	tell := func(level int, value float64, more result.Row) {
		row := result.Row{"status": "ok", "valid": true, "throughput_tok_s": value}
		maps.Copy(row, more)
		c.tell(rundir.Key{Cell: c.Cells[level].ID, Trial: 1}, &result.Outcome{Row: row})
	}
	for level, v := range map[int]float64{0: 100, 3: 800, 5: 3200, 6: 6500} {
		tell(level, v, nil)
	}
	c.tell(rundir.Key{Cell: "another", Trial: 1}, &result.Outcome{})
	const text = "not run: interpolated between concurrency=8 and concurrency=32: by the levels around, throughput_tok_s is within 1.6 % of the line between them"
	want(t, "why", c.why(4).Text, text)
	// Levels that do not tell their scatter are taken to have the largest that is told.
	wide := result.Row{"throughput_tok_s_low": 5500.0, "throughput_tok_s_high": 8000.0}
	tell(6, 7500, wide)
	if got := c.why(4).Text; !strings.HasSuffix(got, " of the line between them, and the scatter of the trials is 43.0 %") {
		t.Error(got)
	}
}

// Trials that a search chose say why, and those that nothing chose do not.
func TestWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, upTo8...)
	w.must()
	var seen []string
	for _, o := range w.outcomes() {
		seen = append(seen, fmt.Sprint(o.Row["why"]))
	}
	if got := strings.Join(slices.Compact(seen), " "); !strings.HasPrefix(got, "find confirm") {
		t.Error(got)
	}
	w = newWorld(t, nil)
	w.must()
	for _, o := range w.outcomes() {
		want(t, "why", o.Row["why"], nil)
	}
}

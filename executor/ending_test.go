package executor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
)

// The load ends as soon as its figure is precise enough for the plan. Requests that
// were sent by then run to their end.
func TestEnding_precision(t *testing.T) {
	t.Parallel()
	// A machine that becomes faster or slower meanwhile has no mean, and the load rightly
	// goes on: five such in a row are none of the machine's.
	for try := 1; ; try++ {
		w := newWorld(t, nil, `matrix: {engine: sim, concurrency: [2]}`,
			`load: {requests: 2000, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}, until: {metric: e2e_ms, within: 99%, confidence: 0.5, min_requests: 20}}`)
		w.must()
		o := w.outcomes()[0]
		if o.Row["ended_by"] == stopping.Requests && try < 5 {
			continue
		}
		want(t, "status", o.Row["status"], "ok")
		want(t, "ended by", o.Row["ended_by"], stopping.Precise)
		want(t, "findings", strings.Join(codesOf(o), ","), "ended_early")
		want(t, "cancelled", o.Row["cancelled"], any(int64(0)))
		if n := o.Row["completed"].(int64); n < 20 || n >= 2000 {
			t.Errorf("%d requests", n)
		}
		return
	}
}

// A server that fails more than the plan wants to see ends the load; the row is
// a result, and the levels above two such trials are not run.
func TestEnding_errorRate(t *testing.T) {
	t.Parallel()
	lines := []string{
		`repeats: 2`,
		`matrix: {engine: sim, concurrency: [8, 16, 32]}`,
		`load: {requests: 400, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}, stop: {error_rate: 30%, skip_higher: true}}`,
	}
	w := newWorld(t, always(script{after: 30, status: 429}), lines...)
	rep := w.must()
	want(t, "committed", rep.Committed, 6)
	var got []string
	for _, o := range w.outcomes() {
		by, _ := o.Row["ended_by"].(string)
		got = append(got, o.Row["status"].(string)+"/"+by)
		if o.Row["status"] == result.StatusSkipped {
			text, _ := o.Row["error"].(string)
			if !strings.Contains(text, "concurrency=8 was ended by error_rate") || o.Row["valid"] != nil || !slices.Contains(codesOf(o), "level_skipped") {
				t.Errorf("%q, %v, %v", text, o.Row["valid"], codesOf(o))
			}
		}
	}
	want(t, "outcomes", strings.Join(got, " "), "ok/error_rate failed/error_rate skipped/ failed/error_rate skipped/ skipped/")
	want(t, "rows of what was cut", w.outcomes()[0].Row["requests"].(int64) < 100, true)
	want(t, "launches", w.backend.count("launch"), 1)
}

// A server that refuses at once ends the load long before its time, in both
// loops, and is asked no more often than the pauses allow.
func TestEnding_refused(t *testing.T) {
	t.Parallel()
	for _, axis := range []string{"concurrency: [16]", "request_rate: [200]"} {
		t.Run(axis, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(script{after: 1, status: 503}), `matrix: {engine: sim, `+axis+`}`,
				`load: {duration: 2m, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}}`, `timeouts: {launch: 20s, ready: 20s, request: 20s, trial: 5m, stop: 5s}`)
			w.must()
			o := w.outcomes()[0]
			want(t, "status", o.Row["status"], result.StatusFailed)
			want(t, "error class", o.Row["error_class"], any(result.ErrOverload))
			want(t, "ended by", o.Row["ended_by"], any(stopping.Refused))
			want(t, "finding", slices.Contains(codesOf(o), "load_refused"), true)
			// How many it takes is the machine's: a slow answer breaks a row of 50.
			if n := o.Row["requests"].(int64); n < 50 {
				t.Errorf("%d requests", n)
			}
			paused, closed := o.Row["slot_paused_s"].(float64)
			if want := strings.HasPrefix(axis, "concurrency"); closed != want || closed && paused < 0.3 {
				t.Errorf("slot_paused_s is %v", o.Row["slot_paused_s"])
			}
		})
	}
}

// A run that ended between the trial and the rows that are skipped because of it
// goes on with them, and starts no server for it.
func TestEnding_skipAfterResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{after: 30, status: 429}),
		`matrix: {engine: sim, concurrency: [8, 12, 16]}`,
		`load: {requests: 400, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}, stop: {error_rate: 30%, skip_higher: true}}`)
	first := func(c *Config) { c.Only = func(c plan.Cell) (bool, error) { return c.Load.Concurrency < 16, nil } }
	w.must(first)
	w.must()
	want(t, "outcomes", w.summary(), "ok/1 failed/overload/1 skipped/1")
	want(t, "launches", w.backend.count("launch"), 1)
}

// Probes are sent beside the load, have rows of their own and are in no figure
// of it.
func TestEnding_probe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(int, backends.Spec) script {
		return script{request: func(*fakeServer, int) { time.Sleep(20 * time.Millisecond) }}
	}, `matrix: {engine: sim, concurrency: [1]}`,
		`load: {requests: 20, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}, probe: {rate: 10, input_tokens: 9, max_tokens: 2}}`)
	w.must()
	o := w.outcomes()[0]
	want(t, "requests", o.Row["requests"], any(int64(21)))
	if n, _ := o.Row["probe_requests"].(int64); n < 2 {
		t.Errorf("%v probes", o.Row["probe_requests"])
	}
	want(t, "ended by", o.Row["ended_by"], stopping.Requests)
}

func TestAbove(t *testing.T) {
	p := plantest.Parse(t, `matrix: {engine: sim, gpu: [a, b], request_rate: [1, 2.5], max_tokens: [4, 8]}`,
		`load: {requests: 4, prompts: {input_tokens: 24}}`)
	var cells []plan.Cell
	for _, d := range p.Deployments() {
		cells = append(cells, d.Cells...)
	}
	for _, a := range cells {
		for _, b := range cells {
			higher := a.Server.GPU == b.Server.GPU && a.Load.MaxTokens == b.Load.MaxTokens && a.Load.RequestRate > b.Load.RequestRate
			want(t, Label(a)+" above "+Label(b), above(a, b), higher)
		}
	}
}

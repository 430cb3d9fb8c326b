package attempt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/executor/workload"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/result/validity"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/stopping"
	"sweep.dev/sweep/verdict"
)

// judged is an attempt that nothing is wrong with, and its row.
func judged(t *testing.T, lines ...string) (*Attempt, result.Row) {
	t.Helper()
	p := plantest.Parse(t, append([]string{
		`validity: {max_error_rate: 5%, max_schedule_lag: 10ms, max_client_cpu: 0.85, max_stall: 1s}`,
		`matrix: {engine: sim, concurrency: [1]}`,
	}, lines...)...)
	d := p.Deployments()[0]
	inputs := workload.New(p)
	first, err := inputs.Claim(d.Cells[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	a := New(&Config{Plan: p, Inputs: inputs}, &Subject{Of: d}, Trial{Key: rundir.Key{Cell: d.Cells[0].ID, Trial: 1}, Cell: d.Cells[0], First: first}, 1, nil)
	a.health = load.Health{CPU: 0.85, MaxGap: time.Second}
	for n := range 100 {
		at := time.Duration(n) * time.Second
		q := result.Request{
			N: n, Phase: result.Plateau, Scheduled: at, Sent: at + 10*time.Millisecond,
			Status: result.Completed, MaxTokens: 4, CompletionTokens: 4, FinishReason: "length",
		}
		if n < 5 {
			q.Status, q.ErrorClass, q.Error = result.Failed, result.ErrOverload, "429 slow down"
		}
		a.requests = append(a.requests, q)
	}
	return a, result.Row{"error_rate": 0.05, "duration_s": 10.0}
}

// A server that serves nobody in their time hangs, and one that serves some of
// them, refuses them or begins to answer is only slow or wrong.
func TestHung(t *testing.T) {
	t.Parallel()
	given := result.Request{Status: result.Failed, ErrorClass: result.ErrTimeout, FirstTokenChunk: -1}
	begun, refused, warm := given, given, given
	begun.FirstTokenChunk, refused.ErrorClass, warm.Phase = 1, result.ErrOverload, result.Warmup
	for name, c := range map[string]struct {
		requests []result.Request
		want     bool
	}{
		"all without a token": {[]result.Request{given, given}, true},
		"one began":           {[]result.Request{given, begun}, false},
		"one was refused":     {[]result.Request{given, refused}, false},
		"the warm-up alone":   {[]result.Request{warm}, false},
		"none":                {nil, false},
	} {
		if got := (&Attempt{requests: c.requests}).Hung(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The verdict is given what the plan says of the load, and what it was ended by
// is no fault of it.
func TestEvidence(t *testing.T) {
	t.Parallel()
	a, row := judged(t)
	e := a.evidence(row, timeline.Span{}, nil)
	if e.Open || !e.Exact || e.Warmup != 1 || e.Ceiling != 0 || e.Expected != nil || len(e.Requests) != 100 {
		t.Errorf("%+v", e)
	}
	a, row = judged(t, `matrix: {engine: sim, request_rate: [1]}`,
		`load: {requests: 100, max_in_flight: 7, max_tokens: 4, output: natural, prompts: {input_tokens: 24}}`)
	a.config.Calibration = &calibrate.Result{Ceiling: calibrate.Ceiling{Chunks: 5, By: calibrate.ByCPU}}
	for by, reason := range map[string]finding.Code{stopping.Saturated: finding.Drift, stopping.Failing: finding.ErrorRate} {
		a.ended.By = by
		e = a.evidence(row, timeline.Span{}, nil)
		if !e.Open || e.Exact || e.MaxInFlight != 7 || e.Ceiling != 5 || !slices.Equal(e.Expected, []finding.Code{reason}) {
			t.Errorf("%+v", e)
		}
	}
	// A ceiling that nobody came to is none.
	a.config.Calibration.Ceiling.By = calibrate.ByOffered
	if got := a.evidence(row, timeline.Span{}, nil).Ceiling; got != 0 {
		t.Errorf("a ceiling of %v", got)
	}
	// Made-up text says nothing of speculative decoding.
	if e.Unrepresentative != "" {
		t.Errorf("content: %s", e.Unrepresentative)
	}
	a, row = judged(t, `engines: {sim: {args: {speculative-config: {method: ngram}}}}`)
	if said := verdict.Remarks(a.evidence(row, timeline.Span{}, nil), validity.Defaults()); !slices.ContainsFunc(said, func(f result.Finding) bool {
		return f.Code == finding.ContentUnrepresentative && strings.Contains(f.Text, "speculative-config")
	}) {
		t.Errorf("remarks %+v", said)
	}
	a.config.Calibration = &calibrate.Result{}
	// One of a disturbed machine judges nothing.
	a.config.Calibration.Ceiling.By = calibrate.ByDisturbed
	if got := a.evidence(row, timeline.Span{}, nil).Disturbed; got != a.config.Calibration.Disturbance() {
		t.Errorf("disturbed: %v", got)
	}
}

func TestScaleOf(t *testing.T) {
	t.Parallel()
	for version, scale := range map[string]float64{"0.32.0+sim": 1, "b5000+sim.x0.5": 0.5, "1.3.0+sim.x1000": 1000} {
		if got, ok := scaleOf(version); got != scale || !ok {
			t.Errorf("%s: %v, %v", version, got, ok)
		}
	}
	for _, version := range []string{"", "0.32.0", "0.32.0+simd", "0.32.0+sim.x", "0.32.0+sim.20", "0.32.0+cu129"} {
		if got, ok := scaleOf(version); ok {
			t.Errorf("%q has the time scale %v", version, got)
		}
	}
}

func TestMostCommon(t *testing.T) {
	a, _ := judged(t)
	class, text := mostCommon(a.requests)
	if class != result.ErrOverload || text != "no request was completed: 429 slow down" {
		t.Errorf("%q, %q", class, text)
	}
	if class, _ := mostCommon(nil); class != nothingMeasured {
		t.Errorf("of nothing: %q", class)
	}
}

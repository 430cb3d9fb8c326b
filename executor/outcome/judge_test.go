package outcome

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/judge/validity"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
)

// judged returns a trial that nothing is wrong with, what was measured of it, and its row.
func judged(t *testing.T, lines ...string) (*Trial, *Measured, result.Row) {
	t.Helper()
	p := plantest.Parse(t, append([]string{
		`validity: {max_error_rate: 5%, max_moved: 5%}`,
		`matrix: {engine: sim, concurrency: [1]}`,
	}, lines...)...)
	m := &Measured{Health: load.Health{CPU: 0.85, MaxGap: time.Second}}
	for n := range 100 {
		at := time.Duration(n) * time.Second
		q := result.Request{
			N: n, Phase: result.Plateau, Scheduled: at, Sent: at + time.Millisecond,
			Status: result.Completed, MaxTokens: 4, CompletionTokens: 4, FinishReason: "length",
		}
		if n < 5 {
			q.Status, q.ErrorClass, q.Error = result.Failed, result.ErrOverload, "429 slow down"
		}
		m.Requests = append(m.Requests, q)
	}
	return &Trial{Plan: p, Cell: p.Deployments()[0].Cells[0]}, m, result.Row{"error_rate": 0.05, "duration_s": 10.0}
}

// The verdict is given what the plan says of the load, and what it was ended by
// is no fault of it.
func TestEvidence(t *testing.T) {
	t.Parallel()
	trial, m, row := judged(t)
	e := evidence(row, trial, m, timeline.Drifts{})
	if e.Open || !e.Exact || e.Warmup != 1 || e.Ceiling != 0 || e.Expected != nil || len(e.Requests) != 100 {
		t.Errorf("%+v", e)
	}
	trial, m, row = judged(t, `matrix: {engine: sim, request_rate: [1]}`,
		`load: {requests: 100, max_in_flight: 7, max_tokens: 4, output: natural, prompts: {input_tokens: 24}}`)
	trial.Calibration = &calibrate.Result{Ceiling: calibrate.Ceiling{Chunks: 5, By: calibrate.ByCPU}}
	for by, reason := range map[string]finding.Code{stopping.Saturated: finding.Drift, stopping.Failing: finding.ErrorRate} {
		m.Ended.By = by
		e = evidence(row, trial, m, timeline.Drifts{})
		if !e.Open || e.Exact || e.MaxInFlight != 7 || e.Ceiling != 5 || !slices.Equal(e.Expected, []finding.Code{reason}) {
			t.Errorf("%+v", e)
		}
	}
	// A ceiling that was not reached is none.
	trial.Calibration.Ceiling.By = calibrate.ByOffered
	if got := evidence(row, trial, m, timeline.Drifts{}).Ceiling; got != 0 {
		t.Errorf("a ceiling of %v", got)
	}
	// Made-up text says nothing of speculative decoding.
	if e.Unrepresentative != "" {
		t.Errorf("content: %s", e.Unrepresentative)
	}
	trial, m, row = judged(t, `engines: {sim: {args: {speculative-config: {method: ngram}}}}`)
	if said := validity.Remarks(evidence(row, trial, m, timeline.Drifts{}), bounds.Defaults()); !slices.ContainsFunc(said, func(f result.Finding) bool {
		return f.Code == finding.ContentUnrepresentative && strings.Contains(f.Text, "speculative-config")
	}) {
		t.Errorf("remarks %+v", said)
	}
	trial.Calibration = &calibrate.Result{}
	// One of a disturbed machine judges nothing.
	trial.Calibration.Ceiling.By = calibrate.ByDisturbed
	if got := evidence(row, trial, m, timeline.Drifts{}).Disturbed; got != trial.Calibration.Disturbance() {
		t.Errorf("disturbed: %v", got)
	}
}

// The finding that another start could decide otherwise is on cells with one trial whose
// figures are used.
func TestOf_oneCycle(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines []string
		want  bool
	}{
		"near":      {[]string{`slo: {quick: p95_ttft_ms < 60}`}, true},
		"an or":     {[]string{`slo: {quick: p95_ttft_ms < 60 or p95_e2e_ms < 1}`}, true},
		"far":       {[]string{`slo: {quick: p95_ttft_ms < 600}`}, false},
		"none":      {nil, false},
		"until":     {[]string{`load: {requests: 100, max_tokens: 4, prompts: {input_tokens: 24}, until: {metric: p95_ttft_ms, within: 5%}}`}, true},
		"repeats":   {[]string{`slo: {quick: p95_ttft_ms < 60}`, `repeats: 3`}, false},
		"INVALID":   {[]string{`slo: {quick: p95_ttft_ms < 60}`}, false},
		"open loop": {[]string{`slo: {quick: p95_ttft_ms < 60}`, `matrix: {engine: sim, request_rate: [1]}`}, false},
	} {
		trial, m, _ := judged(t, append([]string{`matrix: {engine: sim, concurrency: [2]}`}, tt.lines...)...)
		for i := range m.Requests {
			q := &m.Requests[i]
			q.Status, q.ErrorClass, q.Error, q.Slot = result.Completed, "", "", i%2
			q.PromptTokens, q.ChunkUS, q.End = 24, []int32{50_000, 20_000, 20_000, 20_000}, q.Sent+1900*time.Millisecond
			q.FirstToken, q.LastToken = q.Sent+50*time.Millisecond, q.Sent+110*time.Millisecond
		}
		if name != "INVALID" { // without a warm-up it is
			m.Requests = append([]result.Request{{Phase: result.Warmup, Status: result.Completed}}, m.Requests...)
		}
		m.Span = timeline.Assign(m.Requests, 2)
		o, err := Of(*trial, nil, *m, End{})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(o.Findings, func(f result.Finding) bool { return f.Code == finding.OneCycle }); got != tt.want {
			t.Errorf("%s: %v, want %v; invalid %v, objectives %+v", name, got, tt.want, o.Invalid, o.SLOs)
		}
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
	_, m, _ := judged(t)
	class, text := mostCommon(m.Requests)
	if class != result.ErrOverload || text != "no request was completed: 429 slow down" {
		t.Errorf("%q, %q", class, text)
	}
	if class, _ := mostCommon(nil); class != nothingMeasured {
		t.Errorf("of nothing: %q", class)
	}
}

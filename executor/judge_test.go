package executor

import (
	"slices"
	"strings"
	"testing"
	"time"

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

// judged is a measurement that nothing is wrong with, and its row.
func judged(t *testing.T, lines ...string) (*measurement, result.Row) {
	t.Helper()
	p := plantest.Parse(t, append([]string{
		`validity: {max_error_rate: 5%, max_schedule_lag: 10ms, max_client_cpu: 0.85, max_stall: 1s}`,
		`matrix: {engine: sim, concurrency: [1]}`,
	}, lines...)...)
	r := &run{config: Config{Plan: p, State: &rundir.State{}}}
	if _, err := r.plan(); err != nil {
		t.Fatal(err)
	}
	m := newMeasurement(r.all[0], &r.all[0].trials[0])
	m.health = load.Health{CPU: 0.85, MaxGap: time.Second}
	for n := range 100 {
		at := time.Duration(n) * time.Second
		q := result.Request{
			N: n, Phase: result.Plateau, Scheduled: at, Sent: at + 10*time.Millisecond,
			Status: result.Completed, MaxTokens: 4, CompletionTokens: 4, FinishReason: "length",
		}
		if n < 5 {
			q.Status, q.ErrorClass, q.Error = result.Failed, result.ErrOverload, "429 slow down"
		}
		m.requests = append(m.requests, q)
	}
	return m, result.Row{"error_rate": 0.05, "duration_s": 10.0}
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
		want(t, name, hung(c.requests), c.want)
	}
}

// The verdict is given what the plan says of the load, and what it was ended by
// is no fault of it.
func TestEvidence(t *testing.T) {
	t.Parallel()
	m, row := judged(t)
	e := m.evidence(row, timeline.Span{}, nil)
	if e.Open || !e.Exact || e.Warmup != 1 || e.Ceiling != 0 || e.Expected != nil || len(e.Requests) != 100 {
		t.Errorf("%+v", e)
	}
	m, row = judged(t, `matrix: {engine: sim, request_rate: [1]}`,
		`load: {requests: 100, max_in_flight: 7, max_tokens: 4, output: natural, prompts: {input_tokens: 24}}`)
	m.config.Calibration = &calibrate.Result{Ceiling: calibrate.Ceiling{Chunks: 5, By: calibrate.ByCPU}}
	for by, reason := range map[string]finding.Code{stopping.Saturated: finding.Drift, stopping.Failing: finding.ErrorRate} {
		m.ended.By = by
		e = m.evidence(row, timeline.Span{}, nil)
		if !e.Open || e.Exact || e.MaxInFlight != 7 || e.Ceiling != 5 || !slices.Equal(e.Expected, []finding.Code{reason}) {
			t.Errorf("%+v", e)
		}
	}
	// A ceiling that nobody came to is none.
	m.config.Calibration.Ceiling.By = calibrate.ByOffered
	want(t, "ceiling", m.evidence(row, timeline.Span{}, nil).Ceiling, 0)
	// Made-up text says nothing of speculative decoding.
	want(t, "content", e.Unrepresentative, "")
	m, row = judged(t, `engines: {sim: {args: {speculative-config: {method: ngram}}}}`)
	if said := verdict.Remarks(m.evidence(row, timeline.Span{}, nil), validity.Defaults()); !slices.ContainsFunc(said, func(f result.Finding) bool {
		return f.Code == finding.ContentUnrepresentative && strings.Contains(f.Text, "speculative-config")
	}) {
		t.Errorf("remarks %+v", said)
	}
	m.config.Calibration = &calibrate.Result{}
	// One of a disturbed machine judges nothing.
	m.config.Calibration.Ceiling.By = calibrate.ByDisturbed
	want(t, "disturbed", m.evidence(row, timeline.Span{}, nil).Disturbed, m.config.Calibration.Disturbance())
}

// A scaled backend is a simulator whose servers' time is not the real one.
type scaled struct {
	*fakeBackend
	scale float64
}

func (s scaled) TimeScale() float64 { return s.scale }

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

// The verdicts as they stand in a committed row.
func TestJudged_rows(t *testing.T) {
	t.Parallel()
	slo := `slo: {clean: error_rate == 0, cool: {expr: max_gpu_temp_c < 80, severity: warn}}`
	w := newWorld(t, nil, slo)
	w.must()
	for _, o := range w.outcomes() {
		want(t, "status", o.Row["status"], "ok")
		want(t, "valid", o.Row["valid"], true)
		want(t, "slo_clean", o.Row["slo_clean"], true)
		want(t, "slo_cool", o.Row["slo_cool"], nil)
		want(t, "slo_pass", o.Row["slo_pass"], true)
		want(t, "output tokens", o.Row["output_tokens"], any(int64(8)))
		want(t, "network path", o.Row["network_path"], "direct")
		want(t, "simulated", o.Row["simulated"], false)
		want(t, "time_scale", o.Row["time_scale"], nil)
	}

	// The time scale of a simulated engine is on record, and any but 1 is INVALID:
	// the engine's own word first, which some have of nobody but their backend.
	for _, c := range []struct {
		backend, scale float64
		version        string
		reasons        any
	}{
		{1, 1, "", nil}, {10, 10, "", "time_scaled"}, {1, 20, "0.32.0+sim.x20", "time_scaled"}, {10, 1, "0.32.0+sim", nil},
	} {
		w = newWorld(t, always(script{version: c.version}))
		if _, err := w.run(t.Context(), func(f *Config) { f.Backend = scaled{w.backend, c.backend} }); err != nil {
			t.Fatal(err)
		}
		for _, o := range w.outcomes() {
			want(t, "time_scale", o.Row["time_scale"], any(c.scale))
			want(t, "simulated", o.Row["simulated"], c.version != "")
			want(t, "invalid_reasons", o.Row["invalid_reasons"], c.reasons)
		}
	}

	// A third of the output is missing: INVALID, and the objectives all the same.
	w = newWorld(t, always(script{tokens: 3}), slo)
	w.must()
	for _, o := range w.outcomes() {
		want(t, "status", o.Row["status"], "invalid")
		want(t, "valid", o.Row["valid"], false)
		want(t, "invalid_reasons", o.Row["invalid_reasons"], "output_length")
		want(t, "slo_pass", o.Row["slo_pass"], true)
		if len(o.Invalid) != 1 || !strings.Contains(o.Invalid[0].Text, "3 of 4 tokens") {
			t.Errorf("%+v", o.Invalid)
		}
	}

	// Nothing was completed: there is nothing to judge.
	w = newWorld(t, always(script{status: 429}), slo)
	w.must()
	for _, o := range w.outcomes() {
		want(t, "status", o.Row["status"], "failed")
		want(t, "error_class", o.Row["error_class"], result.ErrOverload)
		want(t, "valid", o.Row["valid"], nil)
		want(t, "slo_pass", o.Row["slo_pass"], nil)
		if text, _ := o.Row["error"].(string); !strings.Contains(text, "no request was completed: ") {
			t.Error(text)
		}
	}
}

func TestMostCommon(t *testing.T) {
	m, _ := judged(t)
	class, text := mostCommon(m.requests)
	if class != result.ErrOverload || text != "no request was completed: 429 slow down" {
		t.Errorf("%q, %q", class, text)
	}
	if class, _ := mostCommon(nil); class != NothingMeasured {
		t.Errorf("of nothing: %q", class)
	}
}

func TestLabels(t *testing.T) {
	p := plantest.Parse(t, `matrix: {engine: sim, gpu: [a], concurrency: [2], args.max-num-seqs: [64]}`)
	d := p.Deployments()[0]
	want(t, "cell", Label(d.Cells[0]), "sim a concurrency=2 arg_max_num_seqs=64")
	want(t, "server", ServerLabel(d), "sim a arg_max_num_seqs=64")
}

package executor

import (
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// judged is a measurement that nothing is wrong with, and its row.
func judged(t *testing.T, lines ...string) (*measurement, result.Row) {
	t.Helper()
	p := parsePlan(t, append([]string{
		`validity: {max_error_rate: 5%, max_schedule_lag: 10ms, max_client_cpu: 0.85, max_stall: 1s}`,
		`matrix: {engine: sim, concurrency: [1]}`,
	}, lines...)...)
	d := p.Deployments()[0]
	m := &measurement{
		deployment: &deployment{run: &run{Config: Config{Plan: p}}, Deployment: d},
		trial:      &trial{cell: d.Cells[0]},
		health:     load.Health{CPU: 0.85, MaxGap: time.Second},
	}
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

// late makes the first n requests so much later than they were scheduled.
func late(n int, by time.Duration) func(*measurement, result.Row) {
	return func(m *measurement, _ result.Row) {
		for i := range n + 1 { // the first is nobody's fault
			m.requests[i].Sent = m.requests[i].Scheduled + by
		}
	}
}

// Each rule lets pass what is at its bound, and tells the figure that is
// beyond it, with the bound.
func TestInvalid(t *testing.T) {
	t.Parallel()
	if m, row := judged(t); len(m.invalid(row)) != 0 {
		t.Fatalf("at the bounds: %v", m.invalid(row))
	}
	for name, tt := range map[string]struct {
		spoil func(*measurement, result.Row)
		code  string
		parts []string
	}{
		"throttled": {
			func(_ *measurement, row result.Row) {
				row["gpu_throttled_ms"], row["gpu_throttle_reasons"] = 1001.0, "hw_thermal_slowdown"
			}, GPUThrottled, []string{"1.0 of 10.0 s", "10 %", "hw_thermal_slowdown"},
		},
		"foreign processes": {
			func(m *measurement, row result.Row) {
				none := 0
				m.Plan.Validity.MaxForeign = &none
				row["gpu_foreign_processes"] = int64(2)
			}, GPUForeign, []string{"2 processes", "bound 0"},
		},
		"errors": {
			func(_ *measurement, row result.Row) { row["error_rate"] = 0.06 },
			ErrorRate,
			[]string{"6.0 %", "5.0 %", "overload: 429 slow down"},
		},
		"lag": {
			late(2, 10400*time.Microsecond),
			ScheduleLag,
			[]string{"10.4 ms", "10ms"},
		},
		"short output": {
			func(m *measurement, _ result.Row) {
				m.requests[50].CompletionTokens = 3
				m.requests[51].CompletionTokens = 2
			},
			OutputLength,
			[]string{"2 completed requests", "3 of 4 tokens", "length"},
		},
		"long output": {
			func(m *measurement, _ result.Row) { m.requests[99].CompletionTokens = 5 },
			OutputLength,
			[]string{"1 completed requests", "5 of 4 tokens"},
		},
		"uncounted output": {
			func(m *measurement, _ result.Row) { m.requests[99].CompletionTokens = result.Unknown },
			OutputLength,
			[]string{"does not say"},
		},
		"cpu": {
			func(m *measurement, _ result.Row) { m.health.CPU = 0.9 },
			ClientCPU,
			[]string{"90 %", "85 %"},
		},
		"stall": {
			func(m *measurement, _ result.Row) { m.health.MaxGap = 1500 * time.Millisecond },
			ClientStalled,
			[]string{"1.5s", "1s"},
		},
		"restart": {func(m *measurement, _ result.Row) {
			m.sink.Note(result.Finding{Code: EngineRestarted, Text: "its counters fell from 7 to 0"})
		}, EngineRestarted, []string{"from 7 to 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, row := judged(t)
			tt.spoil(m, row)
			why := m.invalid(row)
			if len(why) != 1 || why[0].Code != tt.code {
				t.Fatalf("got %+v, want %s", why, tt.code)
			}
			for _, part := range tt.parts {
				if !strings.Contains(why[0].Text, part) {
					t.Errorf("%q is not in: %s", part, why[0].Text)
				}
			}
		})
	}
}

// What is not wrong although it looks so.
func TestInvalid_not(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines []string
		spoil func(*measurement, result.Row)
	}{
		"held down for a moment": {nil, func(_ *measurement, row result.Row) { row["gpu_throttled_ms"] = 1000.0 }},
		"others without a bound": {nil, func(_ *measurement, row result.Row) { row["gpu_foreign_processes"] = int64(3) }},
		"a natural stop": {
			[]string{`load: {requests: 2, max_tokens: 4, output: natural, prompts: {input_tokens: 24}}`},
			func(m *measurement, _ result.Row) { m.requests[50].CompletionTokens = 3 },
		},
		"the warm-up's output": {nil, func(m *measurement, _ result.Row) {
			m.requests[50].CompletionTokens, m.requests[50].Phase = 3, result.Warmup
		}},
		"a failed request's output": {nil, func(m *measurement, _ result.Row) { m.requests[0].CompletionTokens = 0 }},
		"the CPU share of a moment": {nil, func(m *measurement, row result.Row) { m.health.CPU, row["duration_s"] = 4.1, 0.003 }},
		"nothing sent": {nil, func(m *measurement, row result.Row) {
			row["error_rate"] = nil
			for i := range m.requests {
				m.requests[i].Sent = result.Never
			}
		}},
		"a lag of the warm-up": {nil, func(m *measurement, row result.Row) {
			late(10, time.Second)(m, row)
			for i := range 11 {
				m.requests[i].Phase = result.Warmup
			}
		}},
		"slots that start together": {
			[]string{`matrix: {engine: sim, concurrency: [50]}`, `load: {requests: 100, max_tokens: 4, prompts: {input_tokens: 24}}`},
			func(m *measurement, _ result.Row) {
				for i := range m.requests {
					r := &m.requests[i]
					if r.Slot = i % 50; i < 50 {
						r.Scheduled, r.Sent = 0, time.Duration(i)*time.Millisecond
					}
				}
			},
		},
		"another note": {nil, func(m *measurement, _ result.Row) {
			m.sink.Note(result.Finding{Code: "no_gpu", Text: "there is none"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, row := judged(t, tt.lines...)
			tt.spoil(m, row)
			if why := m.invalid(row); len(why) != 0 {
				t.Errorf("got %+v", why)
			}
		})
	}
}

// An open loop has a schedule from its first request on.
func TestInvalid_openLoop(t *testing.T) {
	t.Parallel()
	m, row := judged(t, `matrix: {engine: sim, request_rate: [1]}`, `load: {requests: 100, max_in_flight: 7, max_tokens: 4, prompts: {input_tokens: 24}}`)
	if why := m.invalid(row); len(why) != 0 {
		t.Fatalf("at the bounds: %v", why)
	}
	late(1, time.Second)(m, row)
	why := m.invalid(row)
	if len(why) != 1 || why[0].Code != ScheduleLag || !strings.Contains(why[0].Text, "max_in_flight 7") {
		t.Errorf("got %+v", why)
	}
}

// An objective over a column that was not measured is an error, never a pass;
// warnings do not fail a trial.
func TestSLOs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		slo  string
		pass bool
		cols map[string]any
		err  bool
	}{
		"met":                      {`{quick: p95_ttft_ms < 200}`, true, map[string]any{"slo_quick": true}, false},
		"missed":                   {`{quick: p95_ttft_ms < 100}`, false, map[string]any{"slo_quick": false}, false},
		"warned":                   {`{quick: {expr: p95_ttft_ms < 100, severity: warn}}`, true, map[string]any{"slo_quick": false}, false},
		"one of two":               {`{quick: p95_ttft_ms < 200, clean: error_rate == 0}`, false, map[string]any{"slo_quick": true, "slo_clean": false}, false},
		"not measured":             {`{cool: gpu_temp_max_c < 80}`, false, map[string]any{"slo_cool": nil}, true},
		"not measured, either way": {`{cool: not (gpu_temp_max_c > 80)}`, false, map[string]any{"slo_cool": nil}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := judged(t, `slo: `+tt.slo)
			row := result.Row{"p95_ttft_ms": 150.0, "error_rate": 0.05}
			results := m.slos(row)
			want(t, "slo_pass", row["slo_pass"].(bool), tt.pass)
			for name, v := range tt.cols {
				want(t, name, row[name], v)
			}
			for _, r := range results {
				want(t, "error of "+r.Name, r.Error != "", tt.err)
				if tt.err && r.Pass {
					t.Errorf("%s passes without a value", r.Name)
				}
			}
		})
	}
	m, _ := judged(t)
	row := result.Row{}
	if got := m.slos(row); got != nil || row["slo_pass"] != nil {
		t.Errorf("without objectives: %v, %v", got, row)
	}
}

// The verdicts as they stand in a committed row.
func TestJudged_rows(t *testing.T) {
	t.Parallel()
	slo := `slo: {clean: error_rate == 0, cool: {expr: gpu_temp_max_c < 80, severity: warn}}`
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
	}

	// A third of the output is missing: INVALID, and the objectives all the same.
	w = newWorld(t, always(script{tokens: 3}), slo)
	w.must()
	for _, o := range w.outcomes() {
		want(t, "status", o.Row["status"], "invalid")
		want(t, "valid", o.Row["valid"], false)
		want(t, "invalid_reasons", o.Row["invalid_reasons"], OutputLength)
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
	p := parsePlan(t, `matrix: {engine: sim, gpu: [a], concurrency: [2], args.max-num-seqs: [64]}`)
	d := p.Deployments()[0]
	want(t, "cell", Label(d.Cells[0]), "sim a concurrency=2 arg_max_num_seqs=64")
	want(t, "server", ServerLabel(p, d), "sim a arg_max_num_seqs=64")
}

package executor

import (
	"strings"
	"testing"

	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
)

// A scaled backend is a simulator whose servers' time is not the real one.
type scaled struct {
	*fakeBackend
	scale float64
}

func (s scaled) TimeScale() float64 { return s.scale }

// The verdicts as they stand in a committed row.
func TestJudged_rows(t *testing.T) {
	t.Parallel()
	slo := `slo: {clean: error_rate == 0, cool: {expr: max_gpu_temp_c < 80, severity: warn}}`
	w := newWorld(t, nil, slo)
	w.must()
	for _, o := range w.outcomes() {
		want(t, "status", o.Row["status"], "ok")
		want(t, "valid", o.Row["valid"], true)
		want(t, "slo_clean", o.Row["slo_clean"], "pass")
		want(t, "slo_cool", o.Row["slo_cool"], nil)
		want(t, "slo_pass", o.Row["slo_pass"], true)
		want(t, "output tokens", o.Row["output_tokens"], any(4*(2+o.Row["concurrency"].(int64))))
		want(t, "network path", o.Row["network_path"], "direct")
		want(t, "simulated", o.Row["simulated"], false)
		want(t, "time_scale", o.Row["time_scale"], nil)
	}

	// The time scale of a simulated engine is on record, and any but 1 is INVALID:
	// the engine's own word first, else that of the backend.
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

func TestLabels(t *testing.T) {
	p := plantest.Parse(t, `matrix: {engine: sim, gpu: [a], concurrency: [2], args.max-num-seqs: [64]}`)
	d := p.Deployments()[0]
	want(t, "cell", Label(d.Cells[0]), "sim a concurrency=2 arg_max_num_seqs=64")
	want(t, "server", ServerLabel(d), "sim a arg_max_num_seqs=64")
}

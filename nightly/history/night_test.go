package history_test

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/nightly/history"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
)

func TestNights(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, `
plan nightly
repeats 3
axes engine! concurrency
cell vllm 8
  ok tok=900 ttft=100/120 engine_version=0.32.0 subject_digest=s1 conditions_digest=c1
  ok tok=920 ttft=100/140 engine_version=0.32.0 subject_digest=s1 conditions_digest=c1
  invalid tok=100 ttft=900/1900 reason=client_lag conditions_digest=c1
cell vllm 32
  invalid tok=100 ttft=900/1900 reason=client_lag
  invalid tok=100 ttft=900/1900 reason=client_lag
  pending
cell vllm 64
  ok tok=1 ttft=1/2 reused_from=another
  pending
  pending
cell vllm 128
  ok tok=10 infinite=p95_ttft_ms
  pending
  pending
cell vllm 256
  invalid tok=800 ttft=900/1900 reason=client_lag invalid_figures=p50_ttft_ms,p95_ttft_ms
  invalid tok=900 ttft=900/1900 reason=engine_restarted
  pending
`)
	nights := history.Nights(run)
	if len(nights) != 4 {
		t.Fatalf("%d nights: %+v", len(nights), nights)
	}
	n := nights[0]
	if n.Trials != 3 || n.Valid != 2 || n.Plan != "nightly" || n.Run != "3f2a" || n.Subject.Digest != "s1" || n.Subject.EngineVersion != "0.32.0" || n.Conditions != "c1" {
		t.Errorf("%+v", n)
	}
	if f := n.Figures["p95_ttft_ms"]; f.N != 2 || *f.Mean != 130 || math.Abs(*f.SD-10*math.Sqrt2) > 1e-9 {
		t.Errorf("%+v", f)
	}
	if _, ok := n.Figures["joules_per_output_token"]; ok || !math.IsNaN(n.Value("joules_per_output_token")) {
		t.Error("a figure that nobody measured is there")
	}
	if n := nights[1]; n.Trials != 2 || n.Valid != 0 || len(n.Figures) != 0 {
		t.Errorf("%+v", n)
	}
	if n := nights[2]; !math.IsInf(n.Value("p95_ttft_ms"), 1) || n.Figures["p95_ttft_ms"].Infinite != 1 || n.Value("throughput_tok_s") != 10 {
		t.Errorf("%+v", n)
	}
	n = nights[3] // what stands of the trial that is INVALID in part
	if _, ok := n.Figures["p95_ttft_ms"]; ok || n.Valid != 0 || n.Trials != 2 || n.Value("throughput_tok_s") != 800 {
		t.Errorf("%+v", n)
	}
}

func TestSubject_Changed(t *testing.T) {
	t.Parallel()
	old := history.Subject{Digest: "a", Engine: "vllm", EngineVersion: "0.32.0", ImageDigest: "sha256:0123456789abcdef"}
	for _, c := range []struct {
		change   func(*history.Subject)
		settings string
		want     string
	}{
		{func(*history.Subject) {}, "", ""},
		{func(s *history.Subject) { s.Digest, s.EngineVersion = "b", "0.33.0" }, "", "vllm 0.32.0 -> 0.33.0"},
		{func(s *history.Subject) { s.Digest, s.ImageDigest = "b", "sha256:fedcba98765432" }, "", "image sha256:0123456789ab -> sha256:fedcba987654"},
		{func(s *history.Subject) { s.Digest, s.EngineVersion = "b", "" }, "", "vllm 0.32.0 -> unknown"},
		{func(s *history.Subject) { s.Digest = "b" }, "", "arguments, environment or settings of the server"},
		{func(s *history.Subject) { s.Digest = "b" }, "engines.vllm.args.x 1 -> 2", "engines.vllm.args.x 1 -> 2"},
		{func(s *history.Subject) { s.Digest, s.EngineVersion = "b", "0.33.0" }, "model a -> b", "vllm 0.32.0 -> 0.33.0, model a -> b"},
		{func(*history.Subject) {}, "engines.vllm.args.x 1 -> 2", ""},
		{func(s *history.Subject) { s.Driver = "570" }, "", "driver unknown -> 570"},
	} {
		now := old
		c.change(&now)
		if got := old.Changed(now, c.settings); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFile_settings holds that a change of a run's plan is named, of the engine that a cell has
// alone, and that of a long value a digest is kept.
func TestFile_settings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.jsonl")
	for i, text := range []string{
		`{"engines": {"vllm": {"args": {"max-num-seqs": 64}, "image": "a:1"}, "sglang": {"args": {"x": 1}}}, "load": {"max_tokens": 16}, "seed": 1, "name": "n"}`,
		`{"engines": {"vllm": {"args": {"max-num-seqs": 128, "enforce-eager": true}, "image": "a:2"}, "sglang": {"args": {"x": 2}}}, "load": {"max_tokens": 32, "ramp": "` + strings.Repeat("x", 200) + `"}, "seed": 1, "name": "m"}`,
	} {
		run := &report.Run{Resolved: report.Resolved{Plan: json.RawMessage(text)}}
		if _, err := history.Add(t.Context(), nil, path, []history.Night{aNight(fmt.Sprint("run", i), "c", 1+i, 100)}, history.SettingsOf(run)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := history.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		f.Subject("run0", "run1", "vllm"):   "engines.vllm.args.enforce-eager none -> true, engines.vllm.args.max-num-seqs 64 -> 128, engines.vllm.image a:1 -> a:2",
		f.Subject("run0", "run1", "sglang"): "engines.sglang.args.x 1 -> 2",
		f.Conditions("run0", "run1"):        "load.max_tokens 16 -> 32, load.ramp none -> sha256:aa20c23e3201",
		f.Conditions("run0", "run2"):        "",
		f.Subject("run1", "run1", "vllm"):   "",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package history_test

import (
	"math"
	"testing"

	"sweep.dev/sweep/nightly/history"
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
`)
	nights := history.Nights(run)
	if len(nights) != 3 {
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
}

func TestSubject_Changed(t *testing.T) {
	t.Parallel()
	old := history.Subject{Digest: "a", Engine: "vllm", EngineVersion: "0.32.0", ImageDigest: "sha256:0123456789abcdef"}
	for _, c := range []struct {
		change func(*history.Subject)
		want   string
	}{
		{func(*history.Subject) {}, ""},
		{func(s *history.Subject) { s.Digest, s.EngineVersion = "b", "0.33.0" }, "vllm 0.32.0 -> 0.33.0"},
		{func(s *history.Subject) { s.Digest, s.ImageDigest = "b", "sha256:fedcba98765432" }, "image sha256:0123456789ab -> sha256:fedcba987654"},
		{func(s *history.Subject) { s.Digest, s.EngineVersion = "b", "" }, "vllm 0.32.0 -> unknown"},
		{func(s *history.Subject) { s.Digest = "b" }, "arguments, environment or settings of the server"},
		{func(s *history.Subject) { s.Driver = "570" }, "driver unknown -> 570"},
	} {
		now := old
		c.change(&now)
		if got := old.Changed(now); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// validate warns of a plan that cannot decide its own objectives, and says what
// would: trials count together, and medians need few.
func TestValidate_few(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.yaml"), `version: 1
name: few
model: sweep/tiny
matrix: {engine: vllm, gpu: h100, concurrency: [1, 4], max_tokens: 3}
backend: {kind: sim}
load: {requests: 44, prompts: {input_tokens: 20}}
slo:
  median: p50_ttft_ms < 200
  responsive: p95_ttft_ms < 200 and p90_tpot_ms < 50
  clean: error_rate == 0
`)
	r := sweep(t, dir, nil, "validate", "--set", "repeats=3", "--set", "slo={quick: p95_ttft_ms < 0.5, clean: error_rate < 5, usual: p95_e2e_ms < 2000}", "p.yaml")
	want := "warning: slo.quick: hardly any server meets 0.5 ms: p95_ttft_ms is in milliseconds, so 0.5 s is 500 [odd-limit]\n"
	if r.code != exitOK || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "warning: slo.clean: no server misses 5: it is a share") || strings.Contains(r.stderr, "usual") {
		t.Errorf("exit %d, %q, want %q", r.code, r.stderr, want)
	}
	for _, c := range []struct{ set, want string }{
		{"repeats=1", "p.yaml:9:3: warning: slo.responsive cannot be decided: a cell has 44 requests, and p95_ttft_ms needs 130 at least; write load.requests: 130, or more repeats [too-few-requests]\n"},
		{"repeats=2", "p.yaml:9:3: warning: slo.responsive cannot be decided: a cell has 88 requests, and p95_ttft_ms needs 130 at least; write load.requests: 65, or more repeats [too-few-requests]\n"},
		{"repeats=3", ""},
		{"load={duration: 10s, prompts: {input_tokens: 20}}", ""},
	} {
		r := sweep(t, dir, nil, "validate", "--set", c.set, "p.yaml")
		if r.code != exitOK || r.stderr != c.want {
			t.Errorf("%s: exit %d, %q, want %q", c.set, r.code, r.stderr, c.want)
		}
	}
	plans, err := filepath.Glob(filepath.Join("..", "..", "plans", "*.yaml"))
	if err != nil || len(plans) == 0 {
		t.Fatalf("%v, %v", plans, err)
	}
	for i := range plans {
		if plans[i], err = filepath.Abs(plans[i]); err != nil {
			t.Fatal(err)
		}
	}
	if r := sweep(t, dir, nil, append([]string{"validate"}, plans...)...); strings.Contains(r.stderr, "too-few-requests") {
		t.Errorf("a plan that ships cannot decide its objectives:\n%s", r.stderr)
	}
}

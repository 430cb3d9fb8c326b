package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// plan holds its estimates against the bounds of the plan, and its requests against what
// the percentiles of its objectives need; every line fits a terminal.
func TestPlan_advice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.yaml"), `version: 1
name: advice
model: sweep/tiny
matrix: {engine: vllm, gpu: a-gpu, concurrency: [1, 16], max_tokens: 64}
backend: {kind: endpoint, url: "http://127.0.0.1:9"}
prices: {a-gpu: {usd_per_hour: 3600}}
load: {requests: 128, prompts: {input_tokens: 20}}
slo: {responsive: p95_ttft_ms < 200}
`)
	for _, c := range []struct {
		set        []string
		want, none string
	}{
		{nil, "  p95 needs 130 requests, the plan sends 128 at concurrency=1: load.requests: 160\n", "budget:"},
		{[]string{"load.requests=130"}, "", "needs"},
		{[]string{"repeats=2"}, "", "needs"},
		{[]string{"load.requests=40", "repeats=2"}, "the plan sends 80 at concurrency=1: load.requests: 80\n", ""},
		{[]string{"slo={clean: error_rate == 0}", "load.requests=20"}, "", "needs"},
		{[]string{"load={duration: 20s, prompts: {input_tokens: 20}}"}, "", "needs"},
		{[]string{"budget={max_cost: 1000, max_time: 90m}"}, "  budget: max_cost $1000.00, max_time 1h30m: enough\n", "exit 5"},
		{[]string{"budget={max_cost: 1, max_time: 1h}"}, " is missing; the run ends there (exit 5)\n", "enough"},
		{[]string{"budget.max_time=1s"}, "  budget: max_time 1s: ", "enough"},
		{[]string{"prices={}", "budget.max_cost=1"}, "max_cost cannot be checked without a price", "enough"},
	} {
		args := []string{"plan", "p.yaml"}
		for _, set := range c.set {
			args = append(args, "--set", set)
		}
		r := sweep(t, dir, nil, args...)
		if r.code != exitOK || !strings.Contains(r.stdout, c.want) || c.none != "" && strings.Contains(r.stdout, c.none) {
			t.Errorf("%q: exit %d, want %q and not %q\n%s%s", c.set, r.code, c.want, c.none, r.stdout, r.stderr)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	const text = "plan.yaml:3:1: this line is too long\n  3 | this line of a file is too long\n    = so is what was expected\nshort"
	const want = "plan.yaml:3:1: this\n    line is too long\n  3 | this line of a file is too long\n    = so is what was\n    expected\nshort"
	if got := fold(text, 22); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/report/size"
)

// sizePlan is findPlan with a rate, on two cards of each kind of server.
var sizePlan = strings.NewReplacer("axis: concurrency", "axis: request_rate\n  devices: 2", "from: 1\n", "from: 40\n", "to: 4\n", "to: 80\n",
	"never: p50_ttft_ms < 0.0001, ", "", "backend: sim", "backend: {kind: sim, devices: [1, 0.5]}", "collect: [{prom: {interval: 200ms}}]", "collect: [{prom: {interval: 200ms}}, gpu]").Replace(findPlan)

// TestSize sizes what a run has certified.
func TestSize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "find.yaml"), sizePlan)
	if got := sweep(t, dir, nil, "run", "-o", "run", "find.yaml"); got.code != exitOK {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	got := sweep(t, dir, nil, "report", "--load", "200/s", "run")
	for _, want := range []string{"200 req/s within always (p50_ttft_ms < 60000), max_tokens=3", "vllm h100 SIMULATED", "80 req/s", "cheapest: "} {
		if got.code != exitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("exit %d, %q is not in\n%s\n%s", got.code, want, got.stdout, got.stderr)
		}
	}
	var answers []size.Answer
	if err := json.Unmarshal([]byte(sweep(t, dir, nil, "report", "--json", "--load", "12000/min", "run").stdout), &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) != 1 || len(answers[0].Servers) != 2 || answers[0].Servers[0].Count != 3 || answers[0].Servers[0].Devices != 2 {
		t.Errorf("%+v", answers)
	}
	grid := strings.NewReplacer("max_tokens: 3", "max_tokens: 3, concurrency: 1", "gpu: [h100, h200]", "gpu: h100", "requests: 20", "requests: 4").Replace(findPlan[:strings.Index(findPlan, "find:")])
	write(t, filepath.Join(dir, "grid.yaml"), grid)
	if got := sweep(t, dir, nil, "run", "-o", "grid", "grid.yaml"); got.code != exitOK && got.code != exitIncomplete { // INVALID on a busy machine
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--load", "40", "run"}, `--load "40": want a rate above 0`},
		{[]string{"--load", "-1/s", "run"}, "want a rate above 0"},
		{[]string{"--load", "40/s", "--objective", "x", "run"}, `no plan has an objective "x"`},
		{[]string{"--load", "40/s", "grid"}, "its plan has no find"},
		{[]string{"--json", "run"}, "--load RATE"},
		{[]string{"--load", "40/s", "-o", "size.html", "run"}, "--output: with --load no report is written"},
	} {
		if got := sweep(t, dir, nil, append([]string{"report"}, c.args...)...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: exit %d\n%s", c.args, got.code, got.stderr)
		}
	}
}

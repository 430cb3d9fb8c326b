package main

import (
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/sim/fitted"
)

// fitPlan is a grid on a simulated card whose rates are those of slow.json.
const fitPlan = `
version: 1
name: fitted
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: l4, concurrency: [1, 4], input_tokens: [32, 256, 1024], max_tokens: 5}
backend: {kind: sim, fitted: slow.json}
load: {requests_per_worker: 2, warmup: {requests: 1}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
collect: [prom]
`

// TestFit fits the simulator to a run of one whose card is slow, and keeps what
// is there. How near the rates come is for the tests of package fit, whose servers have no
// clock: a grid of a few seconds on a busy machine does not tell them.
func TestFit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	slow := fitted.Profile{Version: fitted.Version, Bandwidth: 100, TFLOPS: 12, StepUS: 2000, StartUS: 2000}
	text, err := slow.Text()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "slow.json"), string(text))
	write(t, filepath.Join(dir, "plan.yaml"), fitPlan)
	if got := sweep(t, dir, nil, "run", "-o", "run", "plan.yaml"); got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	got := sweep(t, dir, nil, "sim", "fit", "-o", "l4.json", "run")
	if got.code != exitOK || !strings.Contains(got.stdout, "vllm, 1 x l4, Qwen/Qwen2.5-1.5B-Instruct: fitted to 4 cells") || !strings.Contains(got.stdout, "left out: 2 cells") {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	p, err := fitted.Read(filepath.Join(dir, "l4.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Source.Simulated || p.Source.RunID == "" || p.Source.Fitted != 4 || len(p.LeftOut) != 6 || p.GPU != "l4" {
		t.Errorf("%+v", p)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sim", "fit", "-o", "l4.json", "run"}, "l4.json is there already"},
		{[]string{"sim", "fit", "-o", "few.json", "--only", "concurrency == 1", "run"}, "3 VALID cells are too few"},
		{[]string{"sim", "fit", "-o", "few.json", "--only", "concurrency == 9", "run"}, "0 VALID cells are too few"},
		{[]string{"sim", "--model", "sweep/tiny", "--fitted", "plan.yaml"}, "is no file of sweep sim fit"},
	} {
		if got := sweep(t, dir, nil, c.args...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: exit %d\n%s", c.args, got.code, got.stderr)
		}
	}
}

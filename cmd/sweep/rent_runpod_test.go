package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/rundir"
)

// rentPlan has two cells on one rented server, and is over in a few seconds.
const rentPlan = `
version: 1
name: rent
model: sweep/tiny
matrix: {engine: vllm, gpu: rtx-2000-ada, concurrency: [1, 2], max_tokens: 3}
backend: {kind: runpod, poll: 200ms, patience: 3s, calls_per_minute: 60000, heartbeat: 1m, pull: 3s}
engines: {vllm: {image: "vllm/vllm-openai:v0.29.0"}}
load: {requests: 4, warmup: {requests: 1}, prompts: {kind: synthetic, input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
timeouts: {ready: 60s, stop: 5s}
collect: [{prom: {interval: 200ms}}, gpu]
sinks: [parquet, csv: {columns: full}]
`

// renting returns an account whose pods are simulated engines, and a folder with the
// plan.
func renting(t *testing.T, faults ...string) *runpodAccount {
	t.Helper()
	dir := t.TempDir()
	state := filepath.Join(dir, "ledger")
	var outs []string
	for _, name := range []string{"out", "second", "third"} {
		outs = append(outs, filepath.Join(dir, name))
	}
	e, err := runpodtest.New(runpodtest.Options{
		Key: "rpa_CANARY0123456789", Sweep: []string{"env", asSweep + "=1", executable(t)},
		Faults: faults, Intent: runpodtest.DurableIntent(state, outs...),
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &runpodAccount{e, t, []string{
		"RUNPOD_API_BASE_URL=" + e.URL(), "RUNPOD_API_KEY=" + e.Key(), "SWEEP_STATE_DIR=" + state,
	}, dir}
	t.Cleanup(func() {
		if err := e.Audit().Err(0); err != nil {
			t.Errorf("left at the end: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("emulator: %v", err)
		}
	})
	write(t, filepath.Join(dir, "rent.yaml"), rentPlan)
	e.Foreign(3)
	return a
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// column returns a column of cells.csv.
func column(t *testing.T, path, name string) (values []string) {
	t.Helper()
	rows := csvRows(t, path)
	for i, head := range rows[0] {
		if head == name {
			for _, row := range rows[1:] {
				values = append(values, row[i])
			}
			return values
		}
	}
	t.Fatalf("%s has no column %s", path, name)
	return nil
}

func TestRent(t *testing.T) {
	t.Parallel()
	a := renting(t)
	r := a.sweep("run", "-o", "out", "--yes", "rent.yaml")
	if r.code != exitOK {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for name, want := range map[string]string{
		"status": "ok", "simulated": "true", "usd_per_hour": "0.24", "price_source": "provider", "network_path": "direct", "backend": "runpod",
	} {
		if got := column(t, filepath.Join(a.dir, "out", "cells.csv"), name); fmt.Sprint(got) != fmt.Sprint([]string{want, want}) {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	if got := column(t, filepath.Join(a.dir, "out", "cells.csv"), "max_gpu_memory_used_bytes"); got[0] == "" {
		t.Error("nothing was seen of the GPU")
	}
	if audit := a.Audit(); len(audit.Pods) != 1 || audit.USD <= 0 {
		t.Errorf("%d pods for $%g", len(audit.Pods), audit.USD)
	}
	if again := a.sweep("resume", "out"); again.code != exitOK || len(a.Audit().Pods) != 1 {
		t.Errorf("a second resume: exit %d, %d pods\n%s", again.code, len(a.Audit().Pods), again.stderr)
	}
	// Where every trial is taken over nothing is rented, so nothing is asked.
	reused := a.sweep("run", "--reuse", "out", "-o", "second", "rent.yaml")
	if reused.code != exitOK || len(a.Audit().Pods) != 1 || strings.Contains(reused.stderr, "rents") {
		t.Errorf("a run that takes all over: exit %d, %d pods\n%s", reused.code, len(a.Audit().Pods), reused.stderr)
	}
}

// TestRent_twoGPUs: a pod has the GPUs that its engine's arguments ask for, and
// the provider's price of all of them wins over the plan's.
func TestRent_twoGPUs(t *testing.T) {
	t.Parallel()
	a := renting(t)
	args := []string{"--set", "engines.vllm.args.tensor-parallel-size=2", "--set", "prices={rtx-2000-ada: {usd_per_hour: 9}}", "rent.yaml"}
	if r := a.sweep(append([]string{"plan", "-v"}, args...)...); r.code != exitOK || !strings.Contains(r.stdout, "2 x rtx-2000-ada, $0.48/h (the provider's price)") {
		t.Errorf("plan: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r := a.sweep(append([]string{"run", "-o", "out", "--yes"}, args...)...)
	if r.code != exitOK {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for name, want := range map[string]string{"gpu_count": "2", "usd_per_hour": "0.48", "price_source": "provider"} {
		if got := column(t, filepath.Join(a.dir, "out", "cells.csv"), name); fmt.Sprint(got) != fmt.Sprint([]string{want, want}) {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
}

// A run that costs money needs agreement and a bound, and is refused if it is over the
// bound. None of these cases rents anything.
func TestRent_notAgreed(t *testing.T) {
	t.Parallel()
	a := renting(t)
	for _, c := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"run", "rent.yaml"}, exitUsage, "--yes rents all the same"},
		{[]string{"run", "--max-cost", "0.0000001", "rent.yaml"}, exitBudget, "exceeds the budget, so nothing was rented"},
		{[]string{"run", "--set", "budget.max_cost=0.0000001", "rent.yaml"}, exitBudget, "exceeds the budget"},
		{[]string{"run", "--max-cost", "-1", "rent.yaml"}, exitUsage, "want more than 0"},
		{[]string{"run", "--yes", "--set", "budget.max_pod_lifetime=2m", "rent.yaml"}, exitUsage, "leaves no time to measure"},
		{[]string{"run", "--yes", "--set", "engines.vllm.command=[vllm, serve, python3, -m, vllm.entrypoints.openai.api_server]", "rent.yaml"}, exitUsage, "ENTRYPOINT"},
		{[]string{"validate", "--set", "engines.vllm.command=[vllm, serve, vllm, serve, x]", "rent.yaml"}, exitUsage, "ENTRYPOINT"},
	} {
		if r := a.sweep(c.args...); r.code != c.code || !strings.Contains(r.stderr+r.stdout, c.said) {
			t.Errorf("sweep %v: exit %d, want %d and %q\n%s%s", c.args, r.code, c.code, c.said, r.stdout, r.stderr)
		}
	}
	a.SetFaults("html-502:*")
	if r := a.sweep("run", "--yes", "rent.yaml"); r.code != exitIncomplete || !strings.Contains(r.stderr, "nothing was rented") {
		t.Errorf("a provider that does not work: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	a.SetFaults()
	if n := a.Audit().Creates; n != 0 {
		t.Errorf("%d pods were created", n)
	}
	if dirs, _ := filepath.Glob(filepath.Join(a.dir, "runs", "*")); len(dirs) != 0 {
		t.Errorf("left behind: %v", dirs)
	}
	r := a.sweep("plan", "-v", "rent.yaml")
	if r.code != exitOK || !strings.Contains(r.stdout, "secure, $0.24/h") || !strings.Contains(r.stdout, "the provider's price") {
		t.Errorf("plan: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// Each refusal of a provider has its class and its exit code.
func TestRent_refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault string
		code  int
		said  string
	}{
		{"balance-gone", exitProvider, "402"},
		{"stock-gone", exitIncomplete, "no_capacity"},
		{"exited-at-once", exitIncomplete, "did not start: image"},
		{"runtime-null-forever=cuda", exitIncomplete, "did not start: driver"},
		{"zero-gpu:*", exitIncomplete, "GPU"},
		{"error-status:*", exitIncomplete, "ERROR"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			a := renting(t, c.fault)
			r := a.sweep("run", "-o", "out", "--yes", "rent.yaml")
			if r.code != c.code || !strings.Contains(r.stderr+r.stdout, c.said) {
				t.Errorf("exit %d, want %d and %q\n%s%s", r.code, c.code, c.said, r.stdout, r.stderr)
			}
		})
	}
	a := renting(t)
	a.env = append(a.env, "RUNPOD_API_KEY=wrong-CANARY")
	if r := a.sweep("run", "-o", "out", "--yes", "rent.yaml"); r.code != exitProvider {
		t.Errorf("a wrong key: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// A run that has used up its budget gives everything back, and has not spent
// more than it may.
func TestRent_budget(t *testing.T) {
	t.Parallel()
	a := renting(t)
	// $0.24/h and a teardown that may take minutes: the reserve is what counts.
	const most = 0.0109
	r := a.sweep("run", "-o", "out", "--max-cost", fmt.Sprint(most), "--set", "load.requests=20000", "rent.yaml")
	if r.code != exitBudget || !strings.Contains(r.stderr, "budget for this run is used up") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if usd := a.Audit().USD; usd > most || usd <= 0 {
		t.Errorf("the bill is $%g of $%g", usd, most)
	}
}

// A pod is kept for the next run of the same server, which takes it over.
func TestRent_keep(t *testing.T) {
	t.Parallel()
	a := renting(t)
	r := a.sweep("run", "-o", "out", "--yes", "--keep-pod", "30m", "rent.yaml")
	if r.code != exitOK || !strings.Contains(r.stderr, "kept: pod") || len(a.alive()) != 1 {
		t.Fatalf("exit %d, alive %v\n%s%s", r.code, a.alive(), r.stdout, r.stderr)
	}
	if r := a.sweep("gc", "--backend", "runpod", "--yes"); r.code != exitOK || len(a.alive()) != 1 {
		t.Errorf("gc: exit %d, alive %v\n%s%s", r.code, a.alive(), r.stdout, r.stderr)
	}
	if r := a.sweep("pods", "--backend", "runpod"); r.code != exitOK || !strings.Contains(r.stdout, "kept") {
		t.Errorf("pods: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := a.sweep("run", "-o", "second", "--yes", "rent.yaml"); r.code != exitOK || !strings.Contains(r.stderr, "is taken over") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if n := len(a.Audit().Pods); n != 1 || len(a.alive()) != 0 {
		t.Errorf("%d pods, alive %v", n, a.alive())
	}
	// The first run has no part in it any more.
	if r := a.sweep("resume", "out"); r.code != exitOK {
		t.Errorf("resume: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if st, err := rundir.Read(filepath.Join(a.dir, "out")); err != nil || len(st.Owed) != 0 {
		t.Errorf("owed: %+v, %v", st.Owed, err)
	}
}

// Pods of a killed run are ended before the next run rents.
func TestRent_leftovers(t *testing.T) {
	t.Parallel()
	a := renting(t)
	env := a.env
	a.env = append(a.env, "SWEEP_FAULT=commit.journal:kill")
	if r := a.sweep("run", "-o", "out", "--yes", "rent.yaml"); r.code != -1 || len(a.alive()) != 1 {
		t.Fatalf("exit %d, alive %v\n%s%s", r.code, a.alive(), r.stdout, r.stderr)
	}
	a.env = env
	first := a.alive()[0]
	a.SetFaults("delete-403")
	r := a.sweep("run", "-o", "second", "--yes", "rent.yaml")
	if r.code != exitCleanup || !strings.Contains(r.stderr, first) || a.Audit().Creates != 1 {
		t.Errorf("exit %d, %d creates\n%s%s", r.code, a.Audit().Creates, r.stdout, r.stderr)
	}
	a.SetFaults()
	r = a.sweep("run", "-o", "third", "--yes", "rent.yaml")
	if r.code != exitOK || !strings.Contains(r.stderr, first+", which an earlier run left, is gone") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/slow"
)

// TestPlans_runpod runs the plans for RunPod against the emulated service: every
// pod is a simulated engine under the real bootstrap, on the GPU that was rented. Without
// the tag slow one plan is run, with two cells.
func TestPlans_runpod(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type short struct {
		set         []string // what makes it short
		cells, pods int
		null        []string // beyond unmeasured: the engine does not say it
		measured    []string // of unmeasured
	}
	plans := map[string]short{
		"runpod-chat-capacity": {set: []string{"matrix.gpu=h100", "load.requests=24"}, cells: 12, pods: 1},
		"runpod-anchor-h100":   {set: []string{"load.requests=96", "matrix.input_tokens=[32,150]", "matrix.max_tokens=[12,6]"}, cells: 12, pods: 3},
		"runpod-sglang": {
			set: []string{"matrix.gpu=h100", "load.requests=24"}, cells: 6, pods: 1,
			null: []string{
				"cached_tokens", "mean_server_tpot_ms", "p50_server_tpot_ms", "p95_server_tpot_ms", "p99_server_tpot_ms", "mean_server_decode_ms",
				"p50_server_decode_ms", "p95_server_decode_ms", "p99_server_decode_ms", "server_request_bytes", "engine_uptime_s",
			},
			measured: []string{"max_prefill_bootstrap_queue", "max_prefill_inflight_queue", "max_decode_prealloc_queue", "max_decode_transfer_queue"},
		},
		"runpod-trtllm": {
			set: []string{"matrix.gpu=h100", "load.requests=24"}, cells: 6, pods: 1,
			null: []string{
				"mean_server_itl_ms", "p50_server_itl_ms", "p95_server_itl_ms", "p99_server_itl_ms", "preemptions", "server_request_bytes", "engine_uptime_s",
			},
		},
	}
	if !slow.Tests {
		one := plans["runpod-sglang"]
		one.set, one.cells = append(one.set, "matrix.concurrency=4", "matrix.max_tokens=[32, 48]"), 2
		plans = map[string]short{"runpod-sglang": one}
	}
	for plan, c := range plans {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			e, err := runpodtest.New(runpodtest.Options{
				Key: "rpa_CANARY0123456789", Sweep: []string{"env", asSweep + "=1", self},
				Provision: 50 * time.Millisecond, Pull: 50 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.Close(); err != nil {
					t.Errorf("emulator: %v", err)
				}
			})
			path, err := filepath.Abs(filepath.Join("../../plans", plan+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			out := filepath.Join(dir, "run")
			env := []string{"RUNPOD_API_BASE_URL=" + e.URL(), "RUNPOD_API_KEY=" + e.Key(), "SWEEP_STATE_DIR=" + filepath.Join(dir, "ledger")}
			args := slices.Concat([]string{
				"run", "--yes", "-o", out, "--set", "load.requests=32", "--set", "backend.poll=200ms", "--set", "backend.calls_per_minute=6000",
				// A pod that is younger than most of the patience is waited for, at its end, for a duplicate.
				"--set", "backend.patience=9s",
			}, rehearsal)
			for _, s := range c.set {
				args = append(args, "--set", s)
			}
			args = append(args, path)
			got := sweep(t, dir, env, args...)
			if !slices.Contains(ranThrough, got.code) {
				t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
			}
			if strings.Contains(got.stdout+got.stderr, "CANARY") {
				t.Error("the key is shown")
			}
			nowhere := []string{"server_cpu_cores", "server_busiest_thread_cpu"} // the processes are another machine's
			checkRows(t, out, c.cells, 0, append(nowhere, c.null...), append(c.measured, "image_digest")...)
			audit := e.Audit()
			if err := audit.Err(0); err != nil {
				t.Error(err)
			}
			if len(audit.Pods) != c.pods || len(audit.Alive()) != 0 {
				t.Errorf("%d pods, alive %v", len(audit.Pods), audit.Alive())
			}
		})
	}
}

//go:build e2e_vllm

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The model's KV cache takes 4 KiB for each token: 1 GiB holds 262,016 of them
// beside the first block, and one request of 400,000 does not fit.
func TestVLLM_failures(t *testing.T) {
	vllm.failures(t, []provoked{
		{
			name:  "KV cache below max-model-len",
			set:   []string{"engines.vllm.args.max-model-len=400000", `engines.vllm.env.VLLM_ALLOW_LONG_MAX_MODEL_LEN="1"`},
			class: "oom.max_len", parts: []string{
				"To serve at least one request with the model's max seq len (400000)",
				"a request of 400000 tokens needs 1.53 GiB of KV cache and there are 1.0 GiB; lower max-model-len to 262016",
				"in the plan: engines.vllm.args.max-model-len: 262016",
			},
		},
		{
			name: "beyond the model's length", set: []string{"engines.vllm.args.max-model-len=99999"},
			class: "config", parts: []string{"is greater than the derived max_model_len", "in the plan: engines.vllm.args.max-model-len: 8192"},
		},
		{
			name: "no model", set: []string{"model=.engines/nope"},
			class: "model", parts: []string{".engines/nope", "in the plan: correct model"},
		},
		{
			name: "unknown argument", set: []string{"engines.vllm.args.no-such-flag=5"},
			class: "args", parts: []string{"unrecognized arguments: --no-such-flag 5", "take no-such-flag out of engines.vllm.args"},
		},
		{
			name: "port taken", taken: true,
			set: []string{
				"engines.vllm.command=[.engines/vllm/bin/vllm, serve, '{{.Model}}', --host, '{{.Host}}', --port, '${port}']",
			},
			class: "port", parts: []string{"Address already in use", "leave the port of engines.vllm.command to {{.Port}}"},
		},
		{
			name: "memory limit", memory: 800 << 20,
			class: "oom.host", parts: []string{"out of host memory", "the kernel killed the server", "in the plan: take a smaller model"},
		},
	})
}

// TestVLLM_coreKilled: the process that computes dies in mid-cell without a
// word. The server in front of it says so and ends itself, with status 0.
func TestVLLM_coreKilled(t *testing.T) {
	need(t, vllm.task, vllm.files...)
	dir := filepath.Join(t.TempDir(), "run")
	events := filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, "--set", "retries=0",
		"--only", "max_tokens == 128 && concurrency == 1", "--set", "load.requests="+strconv.Itoa(vllm.slow), vllm.plan)
	s.until(events, func(e event) bool {
		return e.Type == "trial_progress" && e.Progress != nil && e.Progress.OutputTokens > 0
	})
	core := child(t, s.engine(), "EngineCore")
	if err := syscall.Kill(core, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != 3 {
		t.Errorf("exit code %d, want 3 for a failed cell", code)
	}
	s.nothingLeft(0)
	rows := readRows(t, dir)
	if len(rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(rows))
	}
	r := rows[0]
	t.Logf("%s: %s", r["error_class"], r["error"])
	if r["status"] != "failed" || r["error_class"] != "wrapper" || !strings.Contains(r["error"], "engine core exited unexpectedly") || !strings.Contains(r["error"], "ended without a message") {
		t.Errorf("got class %q: %s", r["error_class"], r["error"])
	}
}

// child returns the process below parent whose command line has this name. One that
// gives itself a name has no environment left by which it could be told.
func child(t *testing.T, parent int, name string) int {
	t.Helper()
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		pids, _ := os.ReadFile(list) // of a thread that may be gone
		for pid := range strings.FieldsSeq(string(pids)) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if strings.Contains(string(line), name) {
				n, err := strconv.Atoi(pid)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	t.Fatalf("process %d has no child %s", parent, name)
	return 0
}

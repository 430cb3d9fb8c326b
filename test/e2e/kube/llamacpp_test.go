//go:build e2e_kube

package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

const llamaPlan = `version: 1
name: llamacpp
model: /engines/gemma-3-270m-q4_k_m.gguf
matrix: {engine: llamacpp, gpu: LAB-GPU, gpu_count: 1, concurrency: [1, 2], max_tokens: 16}
backend:
  kind: kubernetes
  namespace: NAMESPACE
  deploy: {pull: never, shm_size: 64Mi, pending: 1m, cache: {claim: engines, path: /engines}, env: {PYTHONDONTWRITEBYTECODE: "1"}}
engines:
  llamacpp:
    image: lab.test/engines:1
    entrypoint: []
    command: [/engines/llamacpp/bin/python, /llama_serve.py, "--model={{.Model}}", "--host={{.Host}}", "--port={{.Port}}", --metrics]
    served_model_name: gemma-3-270m
    args: {parallel: 2, ctx-size: 2048, threads: 1}
load: {requests: 6, sampling: {temperature: 0}, prompts: {input_tokens: 64}}
slo: {clean: error_rate == 0}
collect: [prom]
timeouts: {stop: 5s, launch: 5m, ready: 4m, request: 2m}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// A real engine with a real model, in a pod that sweep starts and ends.
func TestLlamaCpp(t *testing.T) {
	t.Parallel()
	const ns = "llamacpp"
	plan := lab.deployable(t, ns, llamaPlan)
	lab.engines(t, ns)
	out := filepath.Join(t.TempDir(), "run")
	begin := time.Now()
	stdout, stderr, code := lab.as(t, program(t), "deployer", "run", "-o", out, plan)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	t.Logf("after %.1f s\n%s", time.Since(begin).Seconds(), stdout)
	all := rows(t, out)
	if len(all) != 2 {
		t.Fatalf("%d rows", len(all))
	}
	for _, row := range all {
		if row["status"] != result.StatusOK {
			t.Errorf("%v: %v, %v", row["status"], row["invalid_reasons"], row["error"])
		}
		for column, want := range map[string]any{"network_path": "direct", "failed": int64(0), "server_output_tokens": row["output_tokens"]} {
			if row[column] != want {
				t.Errorf("%s is %v, want %v", column, row[column], want)
			}
		}
		if n, ok := row["completed"].(int64); !ok || n < 6 || row["output_tokens"] != n*16 {
			t.Errorf("%v requests gave %v tokens", row["completed"], row["output_tokens"])
		}
		if digest, _ := row["image_digest"].(string); !strings.HasPrefix(digest, "sha256:") {
			t.Errorf("image_digest is %q", digest)
		}
		for _, column := range []string{"engine_version", "p50_ttft_ms"} {
			if row[column] == nil {
				t.Errorf("%s is null", column)
			}
		}
		t.Logf("engine_version %v, image_digest %v, p50_ttft_ms %v", row["engine_version"], row["image_digest"], row["p50_ttft_ms"])
	}
	kept, err := filepath.Glob(filepath.Join(out, "deployments", "*", "l01", "*.log"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("logs %q: %v", kept, err)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || !strings.Contains(string(text), "llama_serve: listening on") {
		t.Errorf("the log is\n%.2000s\n%v", text, err)
	}
	lab.empty(t, ns)
}

package serverlog

import (
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/loglines"
)

// The lines that engines print of a compilation are known, and those that only look like it are
// not.
func TestCompiledIn(t *testing.T) {
	for _, c := range []struct {
		profile, line string
		want          bool
	}{
		{"vllm", "(EngineCore_DP0 pid=7) WARNING 11-29 10:00:00 [jit_monitor.py:83] Triton kernel JIT compilation during inference: _fwd_kernel", true},
		{"vllm", "WARNING 11-29 10:00:00 [jit_monitor.py:83] CuTeDSL JIT compilation during inference: k", true},
		{"vllm", "INFO 11-29 10:00:00 [backends.py:1] Compiling a graph for compile range (1, 8192) takes 12.31 s", true},
		{"vllm", "INFO 11-29 10:00:00 [monitor.py:34] torch.compile took 21.90 s in total", true},
		{"vllm", "INFO 11-29 10:00:00 [gpu_model_runner.py:1] Graph capturing finished in 21 secs, took 0.6 GiB", true},
		{"vllm", "Triton autotuning for function matmul_kernel finished after 1.02s", true},
		{"vllm", "2026-11-29 10:00:12 - flashinfer.jit: Finished loading JIT ops: sampling", true},
		{"vllm", "[Autotuner] Autotuning process ends", true},
		{"vllm", "INFO 11-29 10:00:00 [jit_monitor.py:51] Kernel JIT monitor activated", false},
		{"vllm", "INFO 11-29 10:00:00 [shm_broadcast.py:1] No available shared memory broadcast block found in 60 seconds", false},
		{"sglang", "[2026-11-29 10:00:00 TP0] Entering DeepGEMM JIT Pre-Compile session. It may take a long time", true},
		{"sglang", "[2026-11-29 10:00:00] Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=4096", true},
		{"sglang", "[2026-11-29 10:00:00] Capture cuda graph begin. This can take up to several minutes", true},
		{"trtllm", "[11/29/2026-10:00:00] [TRT-LLM] [I] Run generation only CUDA graph warmup for batch size=64", true},
		{"llm-d", "WARNING 11-29 10:00:00 [jit_monitor.py:83] Triton kernel JIT compilation during inference: k", true},
		{"dynamo-sglang", "[2026-11-29 10:00:00] Try DeepGEMM JIT Compiling for <k>", true},
		{"sglang", "[2026-11-29 10:00:00] Decode batch. #running-req: 8, cuda graph: False", false},
	} {
		p, ok := engine.Lookup(c.profile)
		if !ok {
			t.Fatalf("no profile %s", c.profile)
		}
		path := filepath.Join(t.TempDir(), "log")
		before := "[Autotuner] Autotuning process ends\nCapture cuda graph begin\n" // the start-up
		if err := os.WriteFile(path, []byte(before+c.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := compiledIn(file{path: path, source: loglines.Source{Role: "server"}}, int64(len(before)), p.Logs.Compiling)
		if (got == c.line) != c.want || !c.want && got != "" {
			t.Errorf("%s: %q, want %v: %s", c.profile, got, c.want, c.line)
		}
	}
	if got := compiledIn(file{path: filepath.Join(t.TempDir(), "none")}, 0, []loglines.Noise{{Match: "x"}}); got != "" {
		t.Errorf("of no log: %q", got)
	}
}

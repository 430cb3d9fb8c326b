package sim

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
)

func TestParseFlags(t *testing.T) {
	f, err := parseFlags(strings.Fields("some/model --max_num_seqs 64 -tp=2 --no-enable-prefix-caching --enable-chunked-prefill --gpu-memory-utilization=.7 "+
		"--served-model-name a b --trust-remote-code --no-enforce-eager --swap-space 4 --fault every=2,hang-after=0 --fault unavailable=1"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if f.model != "some/model" || f.maxSeqs != 64 || f.gpus != 2 || f.prefix || !f.chunked || f.util != 0.7 || !slices.Equal(f.served, []string{"a", "b"}) {
		t.Errorf("%+v", f)
	}
	if want := []string{"--trust-remote-code", "--no-enforce-eager", "--swap-space"}; !slices.Equal(f.ignored, want) {
		t.Errorf("without effect: %v, want %v", f.ignored, want)
	}
	if want := "every=2,hang-after=0,unavailable=1"; f.faults.String() != want {
		t.Errorf("faults: %s, want %s", &f.faults, want)
	}
}

// TestParseFlags_ofOtherEngines: each engine's own names end in the same
// simulated engine.
func TestParseFlags_ofOtherEngines(t *testing.T) {
	config := filepath.Join(t.TempDir(), "extra.yaml")
	if err := os.WriteFile(config, []byte(`
# comment
max_batch_size: 64   # wins over the command line
kv_cache_config:
  enable_block_reuse: false
  free_gpu_memory_fraction: 0.7
cuda_graph_config:
  max_batch_size: 8
return_perf_metrics: true
moe_config: {"backend": "CUTLASS"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--model m --max-model-len 4096 --max-num-seqs 64 --gpu-memory-utilization 0.7 --no-enable-prefix-caching -tp 2":                                                             "m 4096 64 0 0.7 false true 2 8000 true",
		"--engine sglang --model-path m --context-length 4096 --max-running-requests 64 --mem-fraction-static 0.7 --disable-radix-cache --tp 2 --chunked-prefill-size -1":            "m 4096 64 0 0.7 false false 2 30000 false",
		"--engine sglang --model m --tp-size=2 --chunked-prefill-size 4096 --enable-metrics --port 1":                                                                                "m 0 0 4096 0.85 true true 2 1 true",
		"--engine trtllm m --max_seq_len 4096 --max_batch_size 32 --tp_size 2 --kv_cache_free_gpu_memory_fraction 0.5 --config " + config:                                            "m 4096 64 0 0.7 false true 2 8000 true",
		"--engine llamacpp -m m -c 4096 -np 8 -ngl 99 --no-cache-prompt --metrics -b 512":                                                                                            "m 0 8 512 1 false true 1 8080 true",
		"--engine llamacpp --model m --no-slots --no-verbose":                                                                                                                        "m 0 4 0 1 true true 1 8080 false",
		"--engine tgi --model-id m --max-total-tokens 4096 --max-batch-size 64 --max-batch-prefill-tokens 8192 --cuda-memory-fraction 0.7 --num-shard 2 --max-concurrent-requests 9": "m 4096 64 8192 0.7 true true 2 3000 true",
	} {
		f, err := parseFlags(strings.Fields(args), io.Discard)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		got := fmt.Sprint(f.model, " ", f.maxLen, f.maxSeqs, f.maxBatched, f.util, f.prefix, f.chunked, f.gpus, f.port, f.settings.Metrics)
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", args, got, want)
		}
	}
	f, err := parseFlags(strings.Fields("--engine trtllm m --config "+config), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"cuda_graph_config.max_batch_size", "moe_config.backend"}; !slices.Equal(f.ignored, want) {
		t.Errorf("without effect: %v, want %v", f.ignored, want)
	}
	if err := os.WriteFile(config, []byte("cuda_graph_config:\n  - 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parseFlags(strings.Fields("--engine trtllm m --config "+config), io.Discard); err == nil || !strings.Contains(err.Error(), "line 2: only mappings are understood here") {
		t.Errorf("a list: %v", err)
	}
}

// TestOptions_ofSlots: llama.cpp divides its context between its slots, unless
// they share it.
func TestOptions_ofSlots(t *testing.T) {
	g, _ := catalog.GPUByName("h100")
	m, _ := catalog.ModelByName("Qwen/Qwen2.5-1.5B-Instruct")
	for args, want := range map[string]string{
		"-c 8192 -np 4":       "2048 4 512",
		"-c 8192":             "8192 4 512",
		"-c 8192 -np 2 -kvu":  "8192 2 512",
		"-c 65536 -np 1":      "32768 1 4096", // no more than the model's own
		"-np 2":               "16384 2 2048",
		"-c 8192 -np 4 -b 64": "2048 4 512",
	} {
		f, err := parseFlags(append([]string{"--engine", "llamacpp", "-m", m.Name}, strings.Fields(args)...), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		c, err := core.Plan(f.options(g, m))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if got := fmt.Sprint(c.MaxModelLen, c.MaxSeqs, c.Blocks); got != want {
			t.Errorf("%s: longest, slots and blocks are %s, want %s", args, got, want)
		}
	}
}

func TestParseFlags_mistakes(t *testing.T) {
	for args, want := range map[string]string{
		"--model m extra":                              "unrecognized arguments: extra",
		"--model m --warp 9 --speed":                   "unrecognized arguments: --warp 9 --speed",
		"--model":                                      "argument --model: expected one argument",
		"--model m --engine ollama":                    "argument --engine: invalid choice: 'ollama' (choose from 'vllm', 'sglang', 'trtllm', 'llamacpp', 'tgi')",
		"--model m --engine sglang --engine-version 9": "argument --engine-version: invalid choice: '9' (choose from '0.5.18', '0.4.5')",
		"--model m --x-metrics":                        "unrecognized arguments: --x-metrics",
		"--engine sglang --model m --dtype int4":       "argument --dtype: invalid choice: 'int4'",
		"--engine sglang --model m --tp":               "launch_server.py: error: argument --tp: expected one argument",
		"--engine trtllm m --no-tp_size --ngl 3":       "Error: No such option: --no-tp_size",
		"--engine llamacpp -m m --x-context 3":         "error: invalid argument: --x-context",
		"--model m --dtype int4 --port 1x":             `invalid value "1x" for flag -port`,
		"--model m --time-scale 0":                     "argument --time-scale: must be above 0",
		"--model m --port 70000":                       "argument --port: must be a port number",
		"--model m --gpu-memory-utilization 80":        "argument --gpu-memory-utilization: must be above 0 and at most 1",
		"--model m --fault hang-after":                 "fault hang-after=K wants a value",
		"--model m --fault metrics=sick":               "want hang, garbage, huge or gone",
		"--model m --fault die-after=2:999":            "want an exit status or kill, term, segv, abrt",
	} {
		_, err := parseFlags(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", args, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var b strings.Builder
	if _, err := parseFlags([]string{"--model", "m", "-h"}, &b); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	golden(t, "help.txt", b.String())
}

func TestMain_exitStatus(t *testing.T) {
	var out, complaint strings.Builder
	if code := Main(t.Context(), []string{"--nonsense"}, &out, &complaint); code != 2 || out.Len() > 0 || !strings.Contains(complaint.String(), "sweep sim: error: unrecognized arguments: --nonsense") {
		t.Errorf("%d %q %q", code, out.String(), complaint.String())
	}
	if _, err := os.Stat("testdata/help.txt"); err != nil {
		t.Error(err)
	}
}

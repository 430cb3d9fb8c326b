package predict

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/sim"
)

// TestMemoryLike holds the engines that predictions are made for: what stands
// before an engine needs no GPU, and a profile that is like another has its memory
// unless it says otherwise.
func TestMemoryLike(t *testing.T) {
	got := map[string]string{}
	for _, name := range engine.Names() {
		p, _ := engine.Lookup(name)
		if p.MemoryLike == "" {
			continue
		}
		got[name] = p.MemoryLike
		if !slices.Contains(sim.Engines(), p.MemoryLike) {
			t.Errorf("%s: the simulator does not know %q", name, p.MemoryLike)
		}
	}
	want := map[string]string{
		"vllm": "vllm", "dynamo": "vllm", "llm-d": "vllm", "sim": "vllm",
		"sglang": "sglang", "dynamo-sglang": "sglang",
		"trtllm": "trtllm", "dynamo-trtllm": "trtllm",
		"tgi": "tgi",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestStart holds predictions to what the arithmetic of a card gives by hand:
// an L4 has 22.5 GiB, a 7B model in bfloat16 takes 14.2 of them, and each token
// of its cache 56 KiB.
func TestStart(t *testing.T) {
	t.Parallel()
	type args = map[string]any
	const seven = "Qwen/Qwen2.5-7B-Instruct"
	for _, c := range []struct {
		name     string
		server   Server
		class    string
		unknown  bool
		min, max int64 // tokens
	}{
		{name: "the weights fit and no cache beside them", server: Server{Engine: "vllm", Model: seven, GPU: "l4", Args: args{"gpu-memory-utilization": 0.6}}, class: "oom.kv_startup"},
		{name: "a cache that is too short", server: Server{Engine: "vllm", Model: seven, GPU: "l4", Args: args{"gpu-memory-utilization": 0.75, "max-model-len": int64(32768)}}, class: "oom.max_len"},
		{name: "it fits", server: Server{Engine: "vllm", Model: seven, GPU: "l4", Args: args{"gpu-memory-utilization": 0.9, "max-model-len": float64(4096), "dtype": "bfloat16"}}, min: 70_000, max: 110_000},
		{name: "weights that fit nowhere", server: Server{Engine: "vllm", Model: "meta-llama/Llama-3.1-70B-Instruct", GPU: "h100"}, class: "oom.cuda"},
		{name: "two cards have room for them", server: Server{Engine: "vllm", Model: "meta-llama/Llama-3.1-70B-Instruct", GPU: "h200", GPUs: 2, Args: args{"max-model-len": 8192}}, min: 100_000, max: 1_000_000},
		{name: "the engine behind a frontend", server: Server{Engine: "dynamo", Model: seven, GPU: "l4", Args: args{"gpu-memory-utilization": 0.6}}, class: "oom.kv_startup"},
		{name: "SGLang's weights and cache share what mem-fraction-static says", server: Server{Engine: "sglang", Model: seven, GPU: "l4", Args: args{"mem-fraction-static": 0.6}}, class: "oom.kv_startup"},
		{name: "SGLang starts with a shorter cache than its longest request", server: Server{Engine: "dynamo-sglang", Model: seven, GPU: "l4", Args: args{"mem-fraction-static": 0.75}}, min: 1000, max: 60_000},
		{name: "TensorRT-LLM takes a share of what is free", server: Server{Engine: "dynamo-trtllm", Model: seven, GPU: "l4", Args: args{"free-gpu-memory-fraction": 0.5, "max-seq-len": 4096}}, min: 10_000, max: 90_000},
		{name: "a switch", server: Server{Engine: "vllm", Model: seven, GPU: "l4", Args: args{"enable-prefix-caching": false, "max-model-len": 4096}}, min: 1000, max: 200_000},
		{name: "a GPU by somebody's own name", server: Server{Engine: "vllm", Model: seven, GPU: "under-my-desk"}, unknown: true},
		{name: "a model that nobody knows", server: Server{Engine: "vllm", Model: "acme/none", GPU: "l4"}, unknown: true},
		{name: "an engine without this arithmetic", server: Server{Engine: "generic-openai", Model: seven, GPU: "l4"}, unknown: true},
		{name: "a flag that may change everything", server: Server{Engine: "vllm", Model: seven, GPU: "l4", Args: args{"cpu-offload-gb": 10}}, unknown: true},
	} {
		p, known := Start(c.server)
		switch {
		case known == c.unknown:
			t.Errorf("%s: known is %v", c.name, known)
		case p.Class != c.class || p.Starts != (c.class == "" && !c.unknown):
			t.Errorf("%s: %+v, want class %q", c.name, p, c.class)
		case p.KVTokens < c.min || p.KVTokens > c.max:
			t.Errorf("%s: %d tokens of cache, want %d to %d", c.name, p.KVTokens, c.min, c.max)
		case c.class != "" && !strings.Contains(p.Text, "rror"):
			t.Errorf("%s: no text: %q", c.name, p.Text)
		}
	}
}

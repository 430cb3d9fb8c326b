package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/engine"
)

// typical are arguments that people give each engine.
var typical = map[string][]engine.Arg{
	"vllm": {
		{Name: "gpu-memory-utilization", Value: 0.9},
		{Name: "max_num_seqs", Value: int64(64)},
		{Name: "max-model-len", Value: int64(8192)},
		{Name: "enable-prefix-caching", Value: false},
		{Name: "speculative-config", Value: map[string]any{"method": "ngram"}},
	},
	"sglang": {
		{Name: "mem-fraction-static", Value: 0.85},
		{Name: "max-running-requests", Value: int64(64)},
		{Name: "disable-radix-cache", Value: true},
		{Name: "enable-mixed-chunk", Value: false},
		{Name: "chunked-prefill-size", Value: int64(-1)},
	},
	"trtllm": {
		{Name: "max-batch-size", Value: int64(64)},
		{Name: "free_gpu_memory_fraction", Value: 0.9},
		{Name: "kv_cache_config.enable_block_reuse", Value: true},
		{Name: "kv_cache_config.dtype", Value: "fp8"},
		{Name: "cuda_graph_config", Value: map[string]any{"max_batch_size": int64(64)}},
		{Name: "disable_overlap_scheduler", Value: true},
		{Name: "enable_iter_perf_stats", Value: false},
	},
	"llamacpp":               {{Name: "parallel", Value: int64(4)}, {Name: "ctx-size", Value: int64(8192)}, {Name: "warmup", Value: false}, {Name: "ngl", Value: int64(99)}},
	"tgi":                    {{Name: "max-concurrent-requests", Value: int64(256)}, {Name: "max-total-tokens", Value: int64(4096)}, {Name: "trust-remote-code", Value: true}},
	"dynamo":                 {{Name: "gpu-memory-utilization", Value: 0.2}, {Name: "router-mode", Value: "kv"}, {Name: "enforce-eager", Value: true}},
	"dynamo-sglang":          {{Name: "mem-fraction-static", Value: 0.2}},
	"dynamo-trtllm":          {{Name: "free-gpu-memory-fraction", Value: 0.2}, {Name: "kv-cache-config.enable-block-reuse", Value: false}},
	"dynamo-mocker":          {{Name: "speedup-ratio", Value: 10.0}, {Name: "enable-prefix-caching", Value: false}},
	"dynamo-disagg":          {{Name: "max-num-seqs", Value: int64(8)}, {Name: "block_size", Value: int64(64)}},
	"llm-d":                  {{Name: "max-model-len", Value: int64(4096)}, {Name: "pool-name", Value: "mine"}},
	"sglang-router-llamacpp": {{Name: "parallel", Value: int64(2)}, {Name: "policy", Value: "cache_aware"}},
	"sim":                    {{Name: "max-num-seqs", Value: int64(8)}, {Name: "time-scale", Value: 0.1}},
}

// deployment returns where the replicas of a profile's roles are: 90xx for the first
// role, 91xx for the second.
func deployment(p *engine.Profile) map[string][]engine.Address {
	peers := make(map[string][]engine.Address)
	for i, r := range p.Roles {
		for n := range max(r.Replicas, 1) {
			port := 9000 + 100*i + 10*n
			a := engine.Address{Host: "127.0.0.1", Port: port, Dir: fmt.Sprintf("/run/%s-%d", r.Name, n), Ports: map[string]int{}}
			for k, name := range slices.Sorted(maps.Keys(r.Ports)) {
				a.Ports[name] = port + 1 + k
			}
			peers[r.Name] = append(peers[r.Name], a)
		}
	}
	return peers
}

func varsOf(p *engine.Profile, role string, n int) engine.Vars {
	peers := deployment(p)
	a := peers[role][n]
	return engine.Vars{
		Model: "org/model", Host: a.Host, Port: a.Port, Ports: a.Ports, Dir: a.Dir, Peers: peers, Replica: n,
		GPUs: 1, GPU: "l4", Sweep: "/bin/sweep",
	}
}

// TestProfiles_render shows what each built-in profile starts.
func TestProfiles_render(t *testing.T) {
	var b strings.Builder
	for _, name := range engine.Names() {
		p, _ := engine.Lookup(name)
		render(t, &b, name, p, typical[name])
	}
	for _, version := range []string{"0.10.2", "0.11.0"} {
		p, _ := engine.Lookup("vllm")
		render(t, &b, "vllm "+version, p.At(version), typical["vllm"][:1])
	}
	golden(t, "testdata/render.golden", b.String())
}

func render(t *testing.T, b *strings.Builder, title string, p *engine.Profile, args []engine.Arg) {
	t.Helper()
	for _, r := range p.Roles {
		for n := range max(r.Replicas, 1) {
			v := varsOf(p, r.Name, n)
			argv, err := p.Argv(r.Name, v, args, nil)
			if err != nil {
				t.Fatalf("%s, %s: %v", title, r.Name, err)
			}
			fmt.Fprintf(b, "%s: %s %d\n  %s\n", title, r.Name, n, strings.Join(argv, " "))
			if image := engine.InImage(argv, r.Entrypoint); r.Image != "" && image[0] != argv[0] {
				fmt.Fprintf(b, "  in its image: %s\n", strings.Join(image, " "))
			}
			env, files, err := p.Extra(r.Name, v, args)
			if err != nil {
				t.Fatalf("%s, %s: %v", title, r.Name, err)
			}
			for _, name := range slices.Sorted(maps.Keys(env)) {
				fmt.Fprintf(b, "  %s=%s\n", name, env[name])
			}
			for _, name := range slices.Sorted(maps.Keys(files)) {
				fmt.Fprintf(b, "  %s:\n    %s\n", name, strings.ReplaceAll(strings.TrimSpace(string(files[name])), "\n", "\n    "))
			}
		}
	}
	b.WriteByte('\n')
}

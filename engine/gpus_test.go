package engine

import (
	"slices"
	"strings"
	"testing"
)

func TestParallelism(t *testing.T) {
	two, four := int64(2), int64(4)
	for _, test := range []struct {
		name    string
		engine  string
		role    string
		args    []Arg
		command []string
		gpus    int
		unknown bool
	}{
		{name: "vllm alone", engine: "vllm", gpus: 1},
		{name: "tensors", engine: "vllm", args: []Arg{{"tensor-parallel-size", two}}, gpus: 2},
		{name: "with underscores", engine: "vllm", args: []Arg{{"tensor_parallel_size", two}}, gpus: 2},
		{name: "as text", engine: "vllm", args: []Arg{{"tensor-parallel-size", "2"}}, gpus: 2},
		{name: "a product", engine: "vllm", args: []Arg{{"tensor-parallel-size", two}, {"pipeline-parallel-size", two}, {"data-parallel-size", four}}, gpus: 16},
		{name: "experts and the decode context share", engine: "vllm", args: []Arg{{"tensor-parallel-size", four}, {"enable-expert-parallel", true}, {"decode-context-parallel-size", two}}, gpus: 4},
		{name: "the prefill context does not", engine: "vllm", args: []Arg{{"tensor-parallel-size", two}, {"prefill-context-parallel-size", two}}, gpus: 4},
		{name: "one rank of four", engine: "vllm", args: []Arg{{"data-parallel-size", four}, {"data-parallel-rank", int64(1)}}, gpus: 1},
		{name: "a file may say more", engine: "vllm", args: []Arg{{"config", "vllm.yaml"}}, gpus: 1, unknown: true},
		{name: "a short flag of a command", engine: "vllm", command: []string{"vllm", "serve", "m", "-tp", "4"}, gpus: 4},
		{name: "a flag with =", engine: "vllm", command: []string{"vllm", "serve", "m", "--tensor-parallel-size=4"}, gpus: 4},
		{name: "a shell's line", engine: "vllm", command: []string{"sh", "-c", "exec vllm serve m --pipeline-parallel-size '2' -tp 2"}, gpus: 4},
		{name: "a template", engine: "vllm", args: []Arg{{"gpus", four}}, command: []string{"serve", "--tensor-parallel-size", `{{arg "gpus"}}`}, gpus: 4},
		{name: "an argument after the command's", engine: "vllm", args: []Arg{{"tensor-parallel-size", two}}, command: []string{"vllm", "serve", "m", "-tp", "4"}, gpus: 2},
		{name: "a command that says nothing", engine: "vllm", command: []string{"./serve.sh"}, gpus: 1, unknown: true},
		{name: "sglang's short names", engine: "sglang", args: []Arg{{"tp", two}, {"dp", two}}, gpus: 4},
		{name: "sglang's middle names", engine: "sglang", args: []Arg{{"tp-size", two}, {"pp-size", two}, {"dp-size", two}}, gpus: 8},
		{name: "data parallel attention shares", engine: "sglang", args: []Arg{{"tp-size", four}, {"dp-size", four}, {"enable-dp-attention", true}, {"ep-size", four}}, gpus: 4},
		{name: "no data parallel attention", engine: "sglang", args: []Arg{{"tp-size", two}, {"dp-size", two}, {"enable-dp-attention", false}}, gpus: 4},
		{name: "trtllm", engine: "trtllm", args: []Arg{{"tp_size", two}, {"pp_size", two}, {"ep_size", two}}, gpus: 4},
		{name: "dynamo's trtllm", engine: "dynamo-trtllm", role: "worker", args: []Arg{{"tensor-parallel-size", two}, {"expert-parallel-size", two}}, gpus: 2},
		{name: "dynamo's sglang", engine: "dynamo-sglang", role: "worker", args: []Arg{{"tp", two}}, gpus: 2},
		{name: "a frontend", engine: "dynamo", role: "frontend", args: []Arg{{"tensor-parallel-size", two}}},
		{name: "a worker", engine: "dynamo", role: "worker", args: []Arg{{"tensor-parallel-size", two}}, gpus: 2},
		{name: "a prefill server", engine: "llm-d", role: "prefill", args: []Arg{{"tensor-parallel-size", two}}, gpus: 2},
		{name: "a sidecar", engine: "llm-d", role: "sidecar"},
		{name: "an endpoint picker", engine: "llm-d", role: "epp"},
		{name: "a mock worker", engine: "dynamo-mocker", role: "worker", args: []Arg{{"data-parallel-size", two}}},
		{name: "llama.cpp takes what it gets", engine: "llamacpp", args: []Arg{{"parallel", four}}, gpus: 1, unknown: true},
		{name: "so does tgi", engine: "tgi", gpus: 1, unknown: true},
		{name: "tgi by shards", engine: "tgi", args: []Arg{{"num-shard", two}}, gpus: 2},
		{name: "nim", engine: "nim", gpus: 1, unknown: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, ok := Lookup(test.engine)
			if !ok {
				t.Fatal("no profile")
			}
			role := test.role
			if role == "" {
				role = "server"
			}
			got, wrong := p.Parallelism(role, vars, test.args, test.command)
			if wrong != nil || got.GPUs != test.gpus || got.Known == test.unknown {
				t.Errorf("got %d (%s), known %v, %v: want %d, %v", got.GPUs, got, got.Known, wrong, test.gpus, !test.unknown)
			}
		})
	}
}

func TestParallelism_noSize(t *testing.T) {
	p, _ := Lookup("vllm")
	for _, value := range []any{int64(0), int64(-1), "two", 2.5, int64(MaxGPUs + 1), "auto"} {
		_, wrong := p.Parallelism("server", vars, []Arg{{"tensor-parallel-size", value}}, nil)
		if len(wrong) != 1 || wrong[0].Arg != "tensor-parallel-size" {
			t.Errorf("%v: got %v", value, wrong)
		}
	}
	_, wrong := p.Parallelism("server", vars, []Arg{{"tensor-parallel-size", int64(4000)}, {"data-parallel-size", int64(4000)}}, nil)
	if wrong == nil {
		t.Error("16 million GPUs are no error")
	}
}

// TestParallelism_profiles: every profile whose arguments name a kind of
// parallelism that needs GPUs has it among its sizes.
func TestParallelism_profiles(t *testing.T) {
	for _, name := range Names() {
		p, _ := Lookup(name)
		if p.GPUs.None {
			continue
		}
		for _, known := range p.Flags.Known {
			plain := strings.ReplaceAll(known, "_", "-")
			wants := slices.Contains([]string{"tensor-parallel-size", "tp-size", "tp", "pipeline-parallel-size", "pp-size", "pp", "data-parallel-size", "dp-size", "dp", "num-shard", "gpu-count"}, plain)
			if wants && !slices.ContainsFunc(p.GPUs.Sizes, func(s Size) bool { return p.listed(s.Args, known) }) {
				t.Errorf("%s: %s is no size", name, known)
			}
		}
	}
}

func TestArgName(t *testing.T) {
	p, _ := Lookup("sglang")
	for _, name := range []string{"tp", "tp-size", "tp_size", "tensor-parallel-size"} {
		if got := p.ArgName(name); got != "tensor-parallel-size" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := p.ArgName("page_size"); got != "page-size" {
		t.Error(got)
	}
}

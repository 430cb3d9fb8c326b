package engine

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var vars = Vars{Model: "Qwen/Qwen2.5-1.5B-Instruct", Host: "127.0.0.1", Port: 8123, GPUs: 1, GPU: "l4", Sweep: "/usr/bin/sweep"}

func TestArgv(t *testing.T) {
	serve := "vllm serve Qwen/Qwen2.5-1.5B-Instruct --host 127.0.0.1 --port 8123"
	served := vars
	served.Served = "chat"
	tests := []struct {
		name    string
		profile string
		vars    Vars
		args    []Arg
		command []string
		want    string // joined by spaces
	}{
		{"bare", "vllm", vars, nil, nil, serve},
		{
			"scalars", "vllm", vars,
			[]Arg{{"gpu-memory-utilization", 0.8}, {"max-model-len", int64(4096)}, {"dtype", "bfloat16"}},
			nil,
			serve + " --gpu-memory-utilization 0.8 --max-model-len 4096 --dtype bfloat16",
		},
		{"whole numbers have no exponent", "vllm", vars, []Arg{{"kv-cache-memory-bytes", 16e9}}, nil, serve + " --kv-cache-memory-bytes 16000000000"},
		{"true", "vllm", vars, []Arg{{"enable-prefix-caching", true}}, nil, serve + " --enable-prefix-caching"},
		{"false with a negative form", "vllm", vars, []Arg{{"enable_prefix_caching", false}}, nil, serve + " --no-enable-prefix-caching"},
		{"false without one", "vllm", vars, []Arg{{"disable-log-stats", false}}, nil, serve},
		{"underscores become the engine's dashes", "vllm", vars, []Arg{{"max_num_seqs", int64(8)}}, nil, serve + " --max-num-seqs 8"},
		{"list", "vllm", vars, []Arg{{"lora-modules", []any{"a=b", "c=d"}}}, nil, serve + " --lora-modules a=b c=d"},
		{
			"mapping", "vllm", vars,
			[]Arg{{"speculative-config", map[string]any{"num_speculative_tokens": int64(3), "method": "ngram"}}},
			nil,
			serve + ` --speculative-config {"method":"ngram","num_speculative_tokens":3}`,
		},
		{"negative number", "vllm", vars, []Arg{{"max-logprobs", int64(-1)}}, nil, serve + " --max-logprobs -1"},
		{"text that looks like a flag", "vllm", vars, []Arg{{"api-key", "-x"}}, nil, serve + " --api-key=-x"},
		{"unknown flags are passed on", "vllm", vars, []Arg{{"brand-new", "1"}}, nil, serve + " --brand-new 1"},
		{"served name", "vllm", served, nil, nil, serve + " --served-model-name chat"},
		{"served name of the plan's own", "vllm", served, []Arg{{"served-model-name", "mine"}}, nil, serve + " --served-model-name mine"},
		{
			"comma lists", "llamacpp", vars,
			[]Arg{{"tensor-split", []any{int64(3), int64(1)}}},
			nil,
			"llama-server --model Qwen/Qwen2.5-1.5B-Instruct --host 127.0.0.1 --port 8123 --metrics --tensor-split 3,1",
		},
		{
			"one letter", "llamacpp", vars,
			[]Arg{{"c", int64(8192)}},
			nil,
			"llama-server --model Qwen/Qwen2.5-1.5B-Instruct --host 127.0.0.1 --port 8123 --metrics -c 8192",
		},
		{
			"the plan's command", "llamacpp", vars,
			[]Arg{{"parallel", int64(4)}},
			[]string{"python", "serve.py", "{{.Model}}", "{{.Port}}", `{{arg "parallel"}}`},
			"python serve.py Qwen/Qwen2.5-1.5B-Instruct 8123 4",
		},
		{
			"what the command does not use is a flag", "llamacpp", vars,
			[]Arg{{"parallel", int64(4)}, {"ctx-size", int64(512)}},
			[]string{"run", `--slots={{arg "parallel"}}`},
			"run --slots=4 --ctx-size 512",
		},
		{"default", "llamacpp", vars, nil, []string{"run", `{{arg "parallel" 2}}`}, "run 2"},
		{"place of the flags", "vllm", vars, []Arg{{"dtype", "float32"}}, []string{"sh", "{{flags}}", "--", "x"}, "sh --dtype float32 -- x"},
		{"an argument used under another spelling", "vllm", vars, []Arg{{"max_num_seqs", int64(8)}}, []string{"run", `{{arg "max-num-seqs"}}`}, "run 8"},
		{
			"sim", "sim", vars,
			[]Arg{{"max-num-seqs", int64(8)}},
			nil,
			"/usr/bin/sweep sim --model Qwen/Qwen2.5-1.5B-Instruct --host 127.0.0.1 --port 8123 --gpu l4 --max-num-seqs 8",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := Lookup(tt.profile)
			got, err := p.Argv("server", tt.vars, tt.args, tt.command)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// One element of a command is one argument, whatever a value holds.
func TestArgv_noSplitting(t *testing.T) {
	p, _ := Lookup("vllm")
	v := vars
	v.Model = "a b; rm -rf $HOME"
	got, err := p.Argv("server", v, []Arg{{"chat-template", "x y"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"vllm", "serve", "a b; rm -rf $HOME", "--host", "127.0.0.1", "--port", "8123", "--chat-template", "x y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestArgv_underscoreStyle(t *testing.T) {
	p, err := Parse([]byte("name: x\nroles: [{name: server, command: [x]}]\nflags: {style: underscore, negate: ['*'], lists: repeat}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Argv("server", vars, []Arg{{"max-batch-size", int64(8)}, {"enable-chunked-prefill", false}, {"tag", []any{"a", "b"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"x", "--max_batch_size", "8", "--no_enable_chunked_prefill", "--tag", "a", "--tag", "b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestArgv_rejects(t *testing.T) {
	tests := []struct {
		name    string
		role    string
		args    []Arg
		command []string
		want    string
	}{
		{"role", "decode", nil, nil, `no role "decode"`},
		{"reserved", "server", []Arg{{"port", int64(1)}}, nil, "sets --port itself"},
		{"twice", "server", []Arg{{"max-num-seqs", int64(1)}, {"max_num_seqs", int64(2)}}, nil, "given twice"},
		{"dashes", "server", []Arg{{"--dtype", "x"}}, nil, "without dashes"},
		{"no name", "server", []Arg{{"", "x"}}, nil, "without dashes"},
		{"two in one", "server", []Arg{{"dtype=x", "y"}}, nil, "without dashes"},
		{"no value", "server", []Arg{{"dtype", nil}}, nil, "no value"},
		{"not a number", "server", []Arg{{"swap-space", math.NaN()}}, nil, "not a number"},
		{"empty list", "server", []Arg{{"lora-modules", []any{}}}, nil, "empty"},
		{"NUL", "server", []Arg{{"dtype", "a\x00b"}}, nil, "NUL"},
		{"strange type", "server", []Arg{{"dtype", struct{}{}}}, nil, "cannot be"},
		{"argument that the plan lacks", "server", nil, []string{"x", `{{arg "parallel"}}`}, `no argument "parallel"`},
		{"unknown variable", "server", nil, []string{"x", "{{.Prot}}"}, "Prot"},
		{"template", "server", nil, []string{"{{"}, "command element"},
		{"flags twice", "server", nil, []string{"x", "{{flags}}", "{{flags}}"}, "twice"},
		{"empty command", "server", nil, []string{}, "empty"},
	}
	p, _ := Lookup("vllm")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.Argv(tt.role, vars, tt.args, tt.command)
			if err == nil {
				t.Fatalf("accepted: %q", got)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to say %q", err, tt.want)
			}
		})
	}
	generic, _ := Lookup("generic-openai")
	if _, err := generic.Argv("server", vars, nil, nil); err == nil {
		t.Error("an engine that cannot be started has a command line")
	}
}

package engine

import "testing"

func TestSpeculates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile string
		args    []Arg
		env     map[string]bool
		by      string
		pinned  bool
	}{
		"none":            {"vllm", []Arg{{"max-num-seqs", int64(8)}}, nil, "", false},
		"vLLM":            {"vllm", []Arg{{"speculative_config", map[string]any{"method": "ngram"}}}, nil, "speculative_config", false},
		"vLLM, pinned":    {"vllm", []Arg{{"speculative-config", map[string]any{"rejection_sample_method": "synthetic"}}}, nil, "speculative-config", true},
		"vLLM, JSON":      {"vllm", []Arg{{"speculative-config", `{"rejection_sample_method":"synthetic"}`}}, nil, "speculative-config", true},
		"vLLM, no JSON":   {"vllm", []Arg{{"speculative-config", `{`}}, nil, "speculative-config", false},
		"vLLM, standard":  {"vllm", []Arg{{"speculative-config", `{"rejection_sample_method":"standard"}`}}, nil, "speculative-config", false},
		"Dynamo":          {"dynamo", []Arg{{"speculative-config", `{}`}}, nil, "speculative-config", false},
		"SGLang":          {"sglang", []Arg{{"speculative-algorithm", "EAGLE"}}, nil, "speculative-algorithm", false},
		"SGLang, pinned":  {"sglang", []Arg{{"speculative-algorithm", "EAGLE"}}, map[string]bool{"SGLANG_SIMULATE_ACC_LEN": true}, "speculative-algorithm", true},
		"SGLang, idle":    {"sglang", nil, map[string]bool{"SGLANG_SIMULATE_ACC_LEN": true}, "", false},
		"TensorRT-LLM":    {"trtllm", []Arg{{"speculative_config.decoding_type", "MTP"}}, nil, "speculative_config.decoding_type", false},
		"llama.cpp":       {"llamacpp", []Arg{{"model-draft", "small.gguf"}}, nil, "model-draft", false},
		"TGI, turned off": {"tgi", []Arg{{"speculate", int64(0)}}, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ok := Lookup(c.profile)
			if !ok {
				t.Fatal("no such profile")
			}
			if by, pinned := p.Speculates(c.args, c.env); by != c.by || pinned != c.pinned {
				t.Errorf("%q, %v; want %q, %v", by, pinned, c.by, c.pinned)
			}
		})
	}
}

func TestCheck_speculation(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Speculation{
		"nothing turns it on":  {Pinned: []Pin{{Env: "X"}}},
		"neither":              {Args: []string{"a"}, Pinned: []Pin{{Value: "1"}}},
		"both":                 {Args: []string{"a"}, Pinned: []Pin{{Arg: "a", Env: "X"}}},
		"a variable's field":   {Args: []string{"a"}, Pinned: []Pin{{Env: "X", Field: "f"}}},
		"a field of any value": {Args: []string{"a"}, Pinned: []Pin{{Arg: "a", Field: "f"}}},
	} {
		c := &checker{p: &Profile{Speculation: s}}
		if c.speculation(); len(c.problems) != 1 {
			t.Errorf("%s: %+v", name, c.problems)
		}
	}
}

package planfile

import (
	"strings"
	"testing"
)

func TestUnrepresentative(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nname: x\nmodel: sweep/tiny\nmatrix: {engine: [%s], gpu: [h100], concurrency: [1]}\nbackend: {kind: sim}\n"
	const (
		madeUp = "load: {requests: 4, max_tokens: 8, output: natural, prompts: {input_tokens: 20}}\n"
		real   = "load: {requests: 4, max_tokens: 8, output: natural, prompts: {kind: inline, texts: [Why?], reuse: allowed}}\n"
		exact  = "load: {requests: 4, max_tokens: 8, prompts: {kind: inline, texts: [Why?], reuse: allowed}}\n"
	)
	for name, c := range map[string]struct{ engine, rest, want string }{
		"no speculation":  {"vllm", madeUp, ""},
		"texts of users":  {"vllm", "engines: {vllm: {args: {speculative-config: {method: ngram}}}}\n" + real, ""},
		"made-up texts":   {"vllm", "engines: {vllm: {args: {speculative-config: {method: ngram}}}}\n" + madeUp, "(speculative-config) depends on the text, and this load has made-up prompts: no"},
		"exact answers":   {"vllm", "engines: {vllm: {args: {speculative-config: {method: ngram}}}}\n" + exact, "has answers of an exact length (ignore_eos): no"},
		"the way out":     {"vllm", "engines: {vllm: {args: {speculative-config: {method: ngram}}}}\n" + madeUp, "speculative-config: {rejection_sample_method: synthetic}"},
		"pinned":          {"vllm", "engines: {vllm: {args: {speculative-config: {method: ngram, rejection_sample_method: synthetic}}}}\n" + madeUp, ""},
		"pinned by env":   {"sglang", "engines: {sglang: {args: {speculative-algorithm: EAGLE}, env: {SGLANG_SIMULATE_ACC_LEN: '2.5'}}}\n" + madeUp, ""},
		"SGLang":          {"sglang", "engines: {sglang: {args: {speculative-algorithm: EAGLE}}}\n" + madeUp, "env SGLANG_SIMULATE_ACC_LEN"},
		"of a role alone": {"dynamo", "engines: {dynamo: {roles: {worker: {args: {speculative-config: '{}'}}}}}\n" + madeUp, "(speculative-config)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := parseReal(t, "", strings.Replace(head, "%s", c.engine, 1)+c.rest)
			if err != nil {
				t.Fatal(err)
			}
			got := p.Unrepresentative(p.Deployments()[0].Cells[0])
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}

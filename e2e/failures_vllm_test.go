//go:build e2e_vllm

package e2e

import "testing"

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
			class: "model", parts: []string{".engines/nope", "in the plan: mend model"},
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

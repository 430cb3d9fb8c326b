package planfile

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"sweep.dev/sweep/plan"
)

// withGPUs returns a plan with these lines of the matrix and of engines.
func withGPUs(t *testing.T, backend, matrix, engines string) (*plan.Plan, error) {
	t.Helper()
	return parseReal(t, "", "version: 1\nname: gpus\nmodel: m\nbackend: "+backend+"\nmatrix:\n  concurrency: [1]\n"+matrix+engines+
		"load:\n  requests: 8\n  max_tokens: 16\n  prompts: {input_tokens: 20}\n")
}

func TestGPUCount(t *testing.T) {
	for _, test := range []struct {
		name            string
		matrix, engines string
		total           []int // by deployment
		roles           []map[string]int
	}{
		{"one", "  engine: vllm\n", "", []int{1}, []map[string]int{{"server": 1}}},
		{"an axis of tensors", "  engine: vllm\n  args.tensor-parallel-size: [1, 2]\n", "", []int{1, 2}, []map[string]int{{"server": 1}, {"server": 2}}},
		{"a fixed argument", "  engine: sglang\n", "engines: {sglang: {args: {tp: 2, dp: 2}}}\n", []int{4}, []map[string]int{{"server": 4}}},
		{"gpu_count says the same", "  engine: vllm\n  gpu_count: [1, 2]\n  args.tensor-parallel-size: [1, 2]\n  zip: [[gpu_count, args.tensor-parallel-size]]\n", "", []int{1, 2}, []map[string]int{{"server": 1}, {"server": 2}}},
		{"gpu_count alone", "  engine: llamacpp\n  gpu_count: [1, 2]\n", "", []int{1, 2}, []map[string]int{{"server": 1}, {"server": 2}}},
		{"a command of its own", "  engine: vllm\n  gpu_count: 4\n", "engines: {vllm: {command: [./serve.sh]}}\n", []int{4}, []map[string]int{{"server": 4}}},
		{"a command that takes it", "  engine: vllm\n  gpu_count: [1, 2]\n", "engines: {vllm: {command: [vllm, serve, m, '--tensor-parallel-size={{.GPUs}}']}}\n", []int{1, 2}, []map[string]int{{"server": 1}, {"server": 2}}},
		{"a command that says it", "  engine: vllm\n", "engines: {vllm: {command: [vllm, serve, m, -tp, '4']}}\n", []int{4}, []map[string]int{{"server": 4}}},
		{"dynamo with 1 and 4 workers", "  engine: dynamo\n  roles.worker.replicas: [1, 4]\n", "", []int{1, 4}, []map[string]int{{"frontend": 0, "worker": 1}, {"frontend": 0, "worker": 1}}},
		{"workers of two", "  engine: dynamo\n", "engines: {dynamo: {args: {tensor-parallel-size: 2}, roles: {worker: {replicas: 4}}}}\n", []int{8}, []map[string]int{{"frontend": 0, "worker": 2}}},
		{"1 prefill and 2 decode", "  engine: llm-d\n", "engines: {llm-d: {roles: {decode: {replicas: 2}, sidecar: {replicas: 2}}}}\n", []int{3}, []map[string]int{{"prefill": 1, "decode": 1, "sidecar": 0, "epp": 0, "gateway": 0}}},
		{"each role by its own", "  engine: llm-d\n  roles.decode.args.tp: [2, 4]\n", "engines: {llm-d: {args: {tensor-parallel-size: 1}}}\n", []int{3, 5}, []map[string]int{
			{"prefill": 1, "decode": 2, "sidecar": 0, "epp": 0, "gateway": 0}, {"prefill": 1, "decode": 4, "sidecar": 0, "epp": 0, "gateway": 0},
		}},
		{"mock workers", "  engine: dynamo-mocker\n", "", []int{0}, []map[string]int{{"frontend": 0, "worker": 0}}},
		{"behind a router", "  engine: sglang-router-llamacpp\n  gpu_count: 4\n", "", []int{4}, []map[string]int{{"server": 2, "router": 0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := withGPUs(t, "process", test.matrix, test.engines)
			if err != nil {
				t.Fatal(err)
			}
			var total []int
			for i, d := range p.Deployments() {
				total = append(total, d.Server.GPUCount)
				if i < len(test.roles) && !maps.Equal(d.Server.RoleGPUs, test.roles[i]) {
					t.Errorf("roles of %d: %v, want %v", i, d.Server.RoleGPUs, test.roles[i])
				}
			}
			if fmt.Sprint(total) != fmt.Sprint(test.total) {
				t.Errorf("got %v, want %v", total, test.total)
			}
		})
	}
}

func TestGPUCount_given(t *testing.T) {
	p, err := withGPUs(t, "{kind: endpoint, url: 'http://localhost:1'}", "  engine: vllm\n  gpu_count: 8\n", "")
	if err != nil || p.Deployments()[0].Server.GPUCount != 8 {
		t.Errorf("a server that runs already has the GPUs that the plan says: %v", err)
	}
}

func TestGPUCount_contradicted(t *testing.T) {
	for _, test := range []struct{ name, matrix, engines, want string }{
		{"fewer", "  engine: vllm\n  gpu_count: 1\n", "engines: {vllm: {args: {tensor-parallel-size: 2}}}\n", "plan.yaml:8:14: gpu_count is 1, and vllm uses 2 (1 server, tensor-parallel-size 2)"},
		{"more", "  engine: vllm\n  gpu_count: [1, 2]\n", "", "plan.yaml:8:18: gpu_count is 2, and vllm uses 1 (1 server, 1 each)"},
		{"of all workers", "  engine: dynamo\n  gpu_count: 2\n", "engines: {dynamo: {args: {tensor-parallel-size: 2}, roles: {worker: {replicas: 4}}}}\n", "plan.yaml:8:14: gpu_count is 2, and dynamo uses 8 (4 worker, tensor-parallel-size 2)"},
		{"of all roles", "  engine: llm-d\n  gpu_count: 2\n", "engines: {llm-d: {roles: {decode: {replicas: 2}}}}\n", "plan.yaml:8:14: gpu_count is 2, and llm-d uses 3 (1 prefill, 1 each + 2 decode, 1 each)"},
		{"not even", "  engine: sglang-router-llamacpp\n  gpu_count: 3\n", "", "plan.yaml:8:14: gpu_count is 3, and sglang-router-llamacpp uses 2 (2 server, 1 each)"},
		{"none", "  engine: dynamo-mocker\n  gpu_count: 1\n", "", "plan.yaml:8:14: gpu_count is 1, and dynamo-mocker uses 0 (it needs no GPU)"},
		{"no size", "  engine: vllm\n", "engines: {vllm: {args: {tensor-parallel-size: two}}}\n", `tensor-parallel-size is "two"`},
		{"no size on an axis", "  engine: vllm\n  args.tensor-parallel-size: [1, 0]\n", "", `plan.yaml:8:3: tensor-parallel-size is "0"`},
		{"no size in a command", "  engine: vllm\n", "engines:\n  vllm:\n    command: [vllm, serve, m, -tp, x]\n", `plan.yaml:10:5: tp is "x"`},
		{"two names of one argument", "  engine: sglang\n", "engines: {sglang: {args: {tp: 2, tp-size: 4}}}\n", "tp and tp-size are the same argument"},
		{"an axis and a fixed argument", "  engine: sglang\n  args.tp: [1, 2]\n", "engines: {sglang: {args: {tp-size: 4}}}\n", "engines.sglang.args.tp-size is also an axis of the matrix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := withGPUs(t, "process", test.matrix, test.engines)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v\nwant %s", err, test.want)
			}
			if n := strings.Count(err.Error(), "gpu_count is"); n > 1 {
				t.Errorf("said %d times: %v", n, err)
			}
		})
	}
}

// NIXL moves no KV cache from a prefill server to a decode server with fewer ranks.
func TestTransfers(t *testing.T) {
	const bad = "prefill has tensor-parallel-size 4 and decode 2: NIXL moves no KV cache from more ranks to fewer"
	for _, test := range []struct{ name, backend, matrix, engines, want string }{
		{"the arguments of roles", "process", "  engine: llm-d\n", "engines: {llm-d: {roles: {prefill: {args: {tp: 4}}, decode: {args: {tensor-parallel-size: 2}}}}}\n", "plan.yaml:8:48: " + bad},
		{"an axis", "process", "  engine: llm-d\n  roles.prefill.args.tp: [2, 4]\n", "engines: {llm-d: {roles: {decode: {args: {tp: 2}}}}}\n", "plan.yaml:8:3: " + bad},
		{"the default", "process", "  engine: llm-d\n", "engines: {llm-d: {roles: {prefill: {args: {tp: 2}}}}}\n", "prefill has tensor-parallel-size 2 and decode 1"},
		{"as many", "process", "  engine: llm-d\n", "engines: {llm-d: {args: {tp: 4}}}\n", ""},
		{"fewer", "process", "  engine: llm-d\n", "engines: {llm-d: {roles: {decode: {args: {tp: 4}}}}}\n", ""},
		{"another connector", "process", "  engine: llm-d\n", "engines: {llm-d: {roles: {prefill: {args: {tp: 2}, command: [vllm, serve, m, --kv-transfer-config, '{\"kv_connector\":\"MooncakeConnector\"}', '{{flags}}']}}}}\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := withGPUs(t, test.backend, test.matrix, test.engines)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), "NIXL") != 1):
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

//go:build e2e_kube

package kube

import (
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
)

const rolesPlan = `version: 1
name: roles
model: sweep/tiny
matrix: {engine: llm-d, gpu: LAB-GPU, gpu_count: 3, concurrency: 2, max_tokens: 16}
backend: {kind: kubernetes, namespace: NAMESPACE, deploy: {pull: never, shm_size: 16Mi, pending: 20s}}
engines:
  llm-d:
    image: lab.test/app:1
    entrypoint: []
    roles:
      prefill: {command: [/sweep, sim, --engine, llm-d, --role, prefill, --host, "{{.Host}}", --port, "{{.Port}}", --model, "{{.Model}}", --gpu, h100]}
      decode: {replicas: 2, command: [/sweep, sim, --engine, llm-d, --role, decode, --host, "{{.Host}}", --port, "{{.Port}}", --model, "{{.Model}}", --gpu, h100]}
      sidecar: {replicas: 2, command: [/sweep, sim, --engine, llm-d, --role, sidecar, --host, "{{.Host}}", --port, "{{.Port}}", --worker-urls, "{{(index .Peers.decode .Replica).URL}}"]}
      epp: {command: [/sweep, sim, --engine, llm-d, --role, epp, --host, "{{.Host}}", --port, "{{.Port}}", --worker-urls, "{{(index .Peers.sidecar 0).URL}},{{(index .Peers.sidecar 1).URL}}", --prefill-urls, "{{(index .Peers.prefill 0).URL}}"]}
      gateway: {command: [/sweep, sim, --engine, llm-d, --role, gateway, --host, "{{.Host}}", --port, "{{.Port}}", --epp-url, "{{(index .Peers.epp 0).URL}}"]}
load: {requests: 40, prompts: {input_tokens: 64}}
collect: [prom]
timeouts: {stop: 2s, launch: 2m, ready: 1m}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// Seven pods of five roles find each other by their names, and the row has each role.
func TestDeploy_roles(t *testing.T) {
	t.Parallel()
	const ns = "deploy-roles"
	plan := lab.deployable(t, ns, rolesPlan)
	out := filepath.Join(t.TempDir(), "run")
	stdout, stderr, code := lab.as(t, program(t), "deployer", "run", "-o", out, plan)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, row := range rows(t, out) {
		if row["status"] != result.StatusOK {
			t.Errorf("%v: %v, %v", row["status"], row["invalid_reasons"], row["error"])
		}
		for column, want := range map[string]any{"network_path": "direct", "gpu": "LAB-GPU", "gpu_count": int64(3), "pd": "proven"} {
			if row[column] != want {
				t.Errorf("%s is %v, want %v", column, row[column], want)
			}
		}
		for _, column := range []string{"prefill_server_requests", "decode_server_requests", "epp_server_requests"} {
			if row[column] == nil {
				t.Errorf("%s is null", column)
			}
		}
		if digest, _ := row["image_digest"].(string); !strings.Contains(digest, "decode=sha256:") {
			t.Errorf("image_digest is %v", row["image_digest"])
		}
	}
	lab.empty(t, ns)
}

//go:build e2e_kube

package kube

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
)

const deployPlan = `version: 1
name: deploy
model: sweep/tiny
matrix: {engine: vllm, gpu: LAB-GPU, gpu_count: 1, concurrency: [1, 2], max_tokens: 16}
backend: {kind: kubernetes, namespace: NAMESPACE, deploy: {pull: never, shm_size: 64Mi, pending: 20s}}
engines:
  vllm:
    image: lab.test/app:1
    entrypoint: []
    command: [/sweep, sim, --engine, vllm, --host, "{{.Host}}", --port, "{{.Port}}", --model, "{{.Model}}", --gpu, h100]
load: {requests: 40, prompts: {input_tokens: 64}}
collect: [prom]
timeouts: {stop: 5s, launch: 2m}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// deployable makes a namespace in which a user may do what the shipped Role permits, and
// writes the plan for it.
func (n *node) deployable(t *testing.T, ns, text string) (plan string) {
	t.Helper()
	n.namespace(t, ns)
	role, stderr, code := n.as(t, program(t), "admin", "probe", "--kube", ns, "--print-deploy-role")
	if code != 0 {
		t.Fatalf("--print-deploy-role: exit %d: %s", code, stderr)
	}
	n.apply(t, ns, role)
	n.apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: sweep},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweep-deploy}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: deployer}]}`)
	if err := n.kubeconfig("deployer", deployerToken); err != nil {
		t.Fatal(err)
	}
	if err := n.send(http.MethodPatch, "/api/v1/nodes/node-0", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"nvidia.com/gpu.product":"LAB-GPU"}}}`)); err != nil {
		t.Fatal(err)
	}
	plan = filepath.Join(t.TempDir(), "deploy.yaml")
	if err := os.WriteFile(plan, []byte(strings.ReplaceAll(text, "NAMESPACE", ns)), 0o600); err != nil {
		t.Fatal(err)
	}
	return plan
}

// made returns the names of what sweep made in a namespace.
func (n *node) made(t *testing.T, ns string) (names []string) {
	t.Helper()
	for _, path := range []string{"/api/v1/namespaces/%s/pods", "/api/v1/namespaces/%s/services", "/api/v1/namespaces/%s/secrets", "/apis/batch/v1/namespaces/%s/jobs"} {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := n.get(fmt.Sprintf(path, ns)+"?labelSelector=app.kubernetes.io/managed-by=sweep", &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			names = append(names, path[strings.LastIndexByte(path, '/')+1:]+"/"+item.Metadata.Name)
		}
	}
	return names
}

// moment is how long an object that was owned may be there after its owner. No heartbeat
// of these tests is shorter: after one, the cluster ends what sweep has left.
const moment = 10 * time.Second

// empty fails if anything that sweep made is left in a namespace.
func (n *node) empty(t *testing.T, ns string) {
	t.Helper()
	if !polltest.Within(moment, func() bool { return len(n.made(t, ns)) == 0 }) {
		t.Errorf("left are %q", n.made(t, ns))
	}
}

// A user with the shipped Role alone measures a server in a pod of their own, and nothing
// of it is left.
func TestDeploy(t *testing.T) {
	const ns = "deploy"
	plan := lab.deployable(t, ns, deployPlan)
	out := filepath.Join(t.TempDir(), "run")
	stdout, stderr, code := lab.as(t, program(t), "deployer", "run", "-o", out, plan)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	t.Log("\n" + stdout)
	for _, row := range rows(t, out) {
		if row["status"] != result.StatusOK {
			t.Errorf("%v: %v, %v", row["status"], row["invalid_reasons"], row["error"])
		}
		for column, want := range map[string]any{"network_path": "direct", "gpu": "LAB-GPU", "gpu_count": int64(1)} {
			if row[column] != want {
				t.Errorf("%s is %v, want %v", column, row[column], want)
			}
		}
		if digest, _ := row["image_digest"].(string); !strings.HasPrefix(digest, "sha256:") {
			t.Errorf("image_digest is %v", row["image_digest"])
		}
		if row["server_requests"] == nil {
			t.Error("no metrics of the server")
		}
	}
	lab.empty(t, ns)
}

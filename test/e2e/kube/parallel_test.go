//go:build e2e_kube

package kube

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
)

// three are deployments that want a GPU each, of a kind that only these tests know.
func three(pending string) string {
	text := strings.Replace(deployPlan, "concurrency: [1, 2]", "concurrency: 2, env.TURN: [a, b, c]", 1)
	text = strings.Replace(text, "deploy: {", "deploy: {gpu_resource: RESOURCE, ", 1)
	return strings.Replace(text, "pending: 20s", "pending: "+pending, 1)
}

// has gives the node some GPUs of a kind, as a device plugin does.
func (n *node) has(t *testing.T, resource, count string) {
	t.Helper()
	patch := `{"status":{"capacity":{"` + resource + `":"` + count + `"},"allocatable":{"` + resource + `":"` + count + `"}}}`
	if err := n.send(http.MethodPatch, "/api/v1/nodes/node-0/status", "application/merge-patch+json", []byte(patch)); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the node has "+resource, func() bool {
		var node struct {
			Status struct{ Allocatable map[string]string }
		}
		return n.get("/api/v1/nodes/node-0", &node) == nil && node.Status.Allocatable[resource] == count
	})
}

// most runs a plan and returns how many servers ran at once, at most.
func (n *node) most(t *testing.T, ns, out, plan string, code int) (most int, text string) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var list struct {
				Items []struct{ Status struct{ Phase string } }
			}
			run := 0
			if n.get("/api/v1/namespaces/"+ns+"/pods?labelSelector=app.kubernetes.io/component=engine", &list) == nil {
				for _, p := range list.Items {
					if p.Status.Phase == "Running" {
						run++
					}
				}
			}
			most = max(most, run)
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	stdout, stderr, got := n.as(t, program(t), "deployer", "run", "--parallel", "3", "-o", out, plan)
	close(stop)
	<-done
	if got != code {
		t.Fatalf("exit %d, want %d\n%s%s", got, code, stdout, stderr)
	}
	return most, stdout + stderr
}

// Of three deployments that begin at once two have GPUs, and the third waits: for a node
// with room, or for room in the quota, and no longer than the plan says.
func TestDeploy_parallel(t *testing.T) {
	t.Parallel()
	const quota = `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {requests.RESOURCE: "2"}}}`
	for ns, c := range map[string]struct {
		gpus, quota string
		pending     string
		set         string // of the load
		code        int
		class       string // of the rows that failed
	}{
		"parallel-node":    {gpus: "2", pending: "3m"},
		"parallel-quota":   {gpus: "8", quota: quota, pending: "3m"},
		"parallel-in-vain": {gpus: "8", quota: strings.Replace(quota, `"2"`, `"0"`, 1), pending: "1s", code: 3, class: "quota"},
	} {
		t.Run(ns, func(t *testing.T) {
			t.Parallel()
			resource := "lab.test/" + ns
			plan := lab.deployable(t, ns, strings.ReplaceAll(three(c.pending), "RESOURCE", resource))
			lab.has(t, resource, c.gpus)
			if c.quota != "" {
				lab.apply(t, ns, strings.ReplaceAll(c.quota, "RESOURCE", resource))
				polltest.Until(t, "the quota is in force", func() bool {
					var q struct {
						Status struct{ Hard map[string]string }
					}
					return lab.get("/api/v1/namespaces/"+ns+"/resourcequotas/q", &q) == nil && len(q.Status.Hard) > 0
				})
			}
			out := filepath.Join(t.TempDir(), "run")
			most, text := lab.most(t, ns, out, plan, c.code)
			if want := 2; c.class == "" && most != want {
				t.Errorf("%d servers ran at once, want %d\n%s", most, want, text)
			}
			all := rows(t, out)
			if len(all) != 3 {
				t.Errorf("%d rows", len(all))
			}
			for _, row := range all {
				want := result.StatusOK
				if c.class != "" {
					want = result.StatusFailed
				}
				class, _ := row["error_class"].(string)
				if row["status"] != want || class != c.class {
					t.Errorf("%v (%v), want %v (%v): %v %v", row["status"], class, want, c.class, row["invalid_reasons"], row["error"])
				}
			}
			lab.empty(t, ns)
		})
	}
}

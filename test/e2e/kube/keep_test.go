//go:build e2e_kube

package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// pods are the names and uids of the servers of a namespace.
func (n *node) servers(t *testing.T, ns string) (uids []string) {
	t.Helper()
	var list struct {
		Items []struct{ Metadata struct{ Name, UID string } }
	}
	if err := n.get("/api/v1/namespaces/"+ns+"/pods?labelSelector=app.kubernetes.io/component=engine", &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		uids = append(uids, p.Metadata.UID)
	}
	return uids
}

// A server in the cluster is kept for the next run, which takes it over, also from a
// machine that needs load pods. The cluster ends what nobody takes over.
func TestDeploy_keep(t *testing.T) {
	t.Parallel()
	const ns = "keep"
	plan := lab.deployable(t, ns, strings.Replace(deployPlan, "concurrency: [1, 2]", "concurrency: 2", 1))
	o := lab.outside(t, "deployer", 54322)
	o.file(t, "plan.yaml", read(t, plan))
	run := func(t *testing.T, name string, args ...string) {
		t.Helper()
		text, code := o.sweep(t, append([]string{"run", "-o", o.at("home/" + name)}, append(args, o.at("plan.yaml"))...)...)
		if code != 0 && code != 3 {
			t.Fatalf("%s: exit %d\n%s", name, code, text)
		}
		for _, row := range rows(t, o.at("home/"+name)) {
			if !usable(row) || row["network_path"] != "direct" {
				t.Errorf("%s: %v by %v: %v %v", name, row["status"], row["network_path"], row["invalid_reasons"], row["error"])
			}
		}
	}
	run(t, "first", "--keep-pod", "30m") // a run takes over what lives ten minutes at least
	kept := lab.servers(t, ns)
	if len(kept) != 1 {
		t.Fatalf("kept are %q", kept)
	}
	polltest.Until(t, "the load pods are gone", func() bool { return len(lab.loadPods(t, ns)) == 0 })

	// How it is used, from outside and on a node.
	list, _ := o.sweep(t, "pods", "--json")
	var listed []struct{ Name, Status string }
	if err := json.NewDecoder(strings.NewReader(list[max(0, strings.IndexAny(list, "[")):])).Decode(&listed); err != nil || len(listed) != 1 {
		t.Fatalf("%v: %s", err, list)
	}
	shown, code := o.sweep(t, "pods", "show", listed[0].Name)
	for _, want := range []string{"kubectl port-forward --namespace keep", "pod/" + listed[0].Name, "http://127.0.0.1:8000"} {
		if !strings.Contains(shown, want) {
			t.Errorf("sweep pods show: exit %d, no %q in\n%s", code, want, shown)
		}
	}
	home := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(home, []byte(strings.Replace(read(t, lab.file("deployer.kubeconfig")), "context: {", "context: {namespace: "+ns+", ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	inside, stderr, code := ran(t, program(t), []string{"KUBECONFIG=" + home, "XDG_STATE_HOME=" + t.TempDir()}, "pods", "show", "--backend", "kubernetes", listed[0].Name)
	if code != 0 || !strings.Contains(inside, "http://"+lab.network) || strings.Contains(inside, "kubectl port-forward") {
		t.Errorf("sweep pods show on a node: exit %d\n%s%s", code, inside, stderr)
	}
	t.Log("\n" + shown + "\n" + inside)

	run(t, "second", "--keep-pod", "20s")
	if again := lab.servers(t, ns); !slices.Equal(again, kept) {
		t.Errorf("the servers are %q, and were %q", again, kept)
	}
	let := time.Now()
	polltest.Until(t, "the cluster has ended it", func() bool { return len(lab.made(t, ns)) == 0 })
	t.Logf("empty %.1f s after a run with --keep-pod 20s", time.Since(let).Seconds())
	run(t, "third")
	lab.empty(t, ns)
}

//go:build e2e_kube

package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

// killed runs a plan until requests are under way, and ends sweep as nothing else does.
func (n *node) killed(t *testing.T, plan, home string) {
	t.Helper()
	cmd := command(t, program(t), "run", "-o", filepath.Join(t.TempDir(), "run"), "--events", "-", "--set", "load.requests=100000", plan)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.file("deployer.kubeconfig"), "SWEEP_STATE_DIR="+home)
	cmd.Stderr = os.Stderr
	done := false
	_ = listen(t, cmd, func(event string) { // killed
		if !done && strings.Contains(event, `"trial_progress"`) {
			done = true
			_ = cmd.Process.Signal(syscall.SIGKILL)
		}
	})
	if !done {
		t.Fatal("no trial began")
	}
}

// Nobody is left to end the pods of a sweep that was killed, and the cluster does.
func TestDeploy_killed(t *testing.T) {
	t.Parallel()
	const ns = "killed"
	plan := lab.deployable(t, ns, strings.Replace(deployPlan, "namespace: NAMESPACE,", "namespace: NAMESPACE, heartbeat: 15s,", 1))
	lab.killed(t, plan, t.TempDir())
	begun := time.Now()
	if left := lab.made(t, ns); len(left) < 2 {
		t.Fatalf("there are only %q", left)
	}
	polltest.Until(t, "the namespace is empty", func() bool { return len(lab.made(t, ns)) == 0 })
	t.Logf("empty %.1f s after kill -9, with a heartbeat of 15 s", time.Since(begun).Seconds())
}

// From any machine the pods are listed, and those of one run ended: nothing of another
// owner is touched.
func TestDeploy_gc(t *testing.T) {
	t.Parallel()
	const ns = "gc"
	plan := lab.deployable(t, ns, deployPlan)
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: lab.file("deployer.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	n := owner.Namespace{API: api, Name: ns}
	spec := backends.Spec{Owner: "somebody@else", RunID: "run2", Pod: "d1-l01", Digest: "d", Expires: time.Now().Add(time.Hour)}
	theirs, err := n.Create(t.Context(), owner.Request{Name: backends.NewName(spec.Owner, spec.RunID, spec.Expires), Marks: backends.Marks(spec), Lease: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	lab.killed(t, plan, t.TempDir())

	// Another machine has the credentials, and no ledger.
	elsewhere := strings.Replace(read(t, lab.file("deployer.kubeconfig")), "context: {", "context: {namespace: "+ns+", ", 1)
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(elsewhere), 0o600); err != nil {
		t.Fatal(err)
	}
	sweep := func(args ...string) string {
		t.Helper()
		cmd := command(t, program(t), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "SWEEP_STATE_DIR="+t.TempDir())
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var listed []struct {
		RunID string `json:"run_id"`
		Name  string `json:"name"`
	}
	text := sweep("pods", "--backend", "kubernetes", "--json")
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != 1 || listed[0].Name == theirs.Name.String() {
		t.Fatalf("sweep pods: %s", text)
	}
	run := listed[0].RunID
	t.Log("\n" + sweep("pods", "--backend", "kubernetes"))
	t.Log("\n" + sweep("gc", "--backend", "kubernetes", "--yes", "--run", run))
	alone := func() bool {
		left := lab.made(t, ns)
		return len(left) == 1 && left[0] == "jobs/"+theirs.Name.String()
	}
	if !polltest.Within(moment, alone) {
		t.Errorf("left are %q, want the Job of somebody@else alone", lab.made(t, ns))
	}
}

// A controller manager that is down at the deadline ends everything when it is back.
func TestDeploy_noController(t *testing.T) {
	const ns = "manager"
	lab.deployable(t, ns, deployPlan)
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: lab.file("deployer.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	n := owner.Namespace{API: api, Name: ns}
	spec := backends.Spec{Owner: "me@here", RunID: "run1", Pod: "d1-l01", Digest: "d", Expires: time.Now().Add(time.Hour)}
	if _, err := n.Create(t.Context(), owner.Request{Name: backends.NewName(spec.Owner, spec.RunID, spec.Expires), Marks: backends.Marks(spec), Lease: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	manager := lab.process("manager")
	if err := manager.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	polltest.Until(t, "the deadline has passed", func() bool { return time.Since(begun) > 8*time.Second })
	left := lab.made(t, ns)
	if err := manager.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("while no controller was at work there were %q", left)
	}
	back := time.Now()
	polltest.Until(t, "the namespace is empty", func() bool { return len(lab.made(t, ns)) == 0 })
	t.Logf("empty %.1f s after the controller manager was back", time.Since(back).Seconds())
}

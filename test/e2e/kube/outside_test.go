//go:build e2e_kube

package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// An outsider runs sweep where nothing gets to a pod but through the API server, as on a
// machine outside of the cluster: a user of this machine whose packets the kernel refuses.
type outsider struct {
	uid int
	dir string
}

// outside returns an outsider with a user's rights. No two tests have the same uid.
func (n *node) outside(t *testing.T, user string, uid int) *outsider {
	t.Helper()
	dir, err := os.MkdirTemp("", "outside") //nolint:usetesting // another user must be able to enter every folder above it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	rule := []string{"uidrange", fmt.Sprintf("%d-%d", uid, uid), "to", n.network + ".0/24", "prohibit"}
	if out, err := exec.Command("ip", append([]string{"rule", "add"}, rule...)...).CombinedOutput(); err != nil {
		t.Fatalf("ip rule: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", append([]string{"rule", "del"}, rule...)...).Run() })
	o := &outsider{uid, dir}
	// A process of this one that is about to start something would keep the program open.
	if out, err := exec.Command("cp", program(t), o.at("sweep")).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	o.file(t, "config", read(t, n.file(user+".kubeconfig")))
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(o.at("home"), 0o755), os.Chown(o.at("home"), uid, uid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func (o *outsider) at(name string) string { return filepath.Join(o.dir, name) }

// file writes a file that the outsider may read and run.
func (o *outsider) file(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(o.at(name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (o *outsider) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := command(t, o.at("sweep"), args...)
	cmd.Dir = o.at("home")
	cmd.Env = []string{"KUBECONFIG=" + o.at("config"), "HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.uid)}} //nolint:gosec // a small number
	return cmd
}

// sweep runs sweep to its end.
func (o *outsider) sweep(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	cmd := o.command(t, args...)
	begun := time.Now()
	out, _ := cmd.CombinedOutput()
	t.Logf("%s: exit %d after %.1f s", args[0], cmd.ProcessState.ExitCode(), time.Since(begun).Seconds())
	return string(out), cmd.ProcessState.ExitCode()
}

// one returns the plan of a deployment with one cell, and with clients.
func one(text, clients string) string {
	text = strings.Replace(text, "concurrency: [1, 2]", "concurrency: 2", 1)
	return strings.Replace(text, "load: {", "load: {"+clients, 1)
}

// A machine that cannot reach the servers that it starts measures them all the same: by
// one load pod, or as many as the plan wants. They go with their launch, however it ends.
func TestDeploy_outside(t *testing.T) {
	t.Parallel()
	const ns = "deploy-outside"
	plan := lab.deployable(t, ns, strings.Replace(deployPlan, "namespace: NAMESPACE,", "namespace: NAMESPACE, heartbeat: 15s,", 1))
	o := lab.outside(t, "deployer", 54321)
	valid := func(t *testing.T, name, clients string, want int) {
		t.Helper()
		o.file(t, name+".yaml", one(read(t, plan), clients))
		text, code := o.sweep(t, "run", "-o", o.at("home/"+name), o.at(name+".yaml"))
		if code != 0 && code != 3 {
			t.Fatalf("exit %d\n%s", code, text)
		}
		for _, row := range remeasured(t, o.at("home/"+name), func(args ...string) { _, _ = o.sweep(t, args...) }) {
			if !usable(row) || row["network_path"] != "direct" || !answered(row) || row["server_requests"] == nil {
				t.Errorf("%v by %v, %v of %v requests, %v of the server: %v %v", row["status"], row["network_path"], row["completed"], row["requests"], row["server_requests"], row["invalid_reasons"], row["findings"])
			}
		}
		if _, shards, _ := sent(t, o.at("home/"+name)); shards != want {
			t.Errorf("%d clients, want %d", shards, want)
		}
		lab.empty(t, ns)
	}
	t.Run("by default", func(t *testing.T) { valid(t, "default", "", 1) })
	t.Run("two", func(t *testing.T) {
		valid(t, "two", `clients: {n: 2, kind: kubernetes, image: "lab.test/app:1", cpus: 0.1}, `, 2)
	})
	t.Run("refused", func(t *testing.T) {
		for clients, want := range map[string]string{
			"clients: {n: 2}, ": "leave kind: process out",
			"clients: {n: 2, kind: kubernetes, namespace: elsewhere}, ": "load.clients.namespace",
		} {
			o.file(t, "refused.yaml", one(read(t, plan), clients))
			text, code := o.sweep(t, "run", "-o", o.at("home/refused"), o.at("refused.yaml"))
			if code == 0 || !strings.Contains(text, want) {
				t.Errorf("exit %d, want %q\n%s", code, want, text)
			}
			lab.empty(t, ns)
			_ = os.RemoveAll(o.at("home/refused"))
		}
	})
	t.Run("killed", func(t *testing.T) {
		o.file(t, "killed.yaml", one(read(t, plan), ""))
		cmd := o.command(t, "run", "-o", o.at("home/killed"), "--events", "-", "--set", "load.requests=100000", o.at("killed.yaml"))
		var owners, there []string
		_ = listen(t, cmd, func(event string) { // killed
			if there == nil && strings.Contains(event, `"trial_progress"`) {
				there, owners = lab.made(t, ns), lab.owners(t, ns)
				_ = cmd.Process.Kill()
			}
		})
		killed := time.Now()
		if jobs := slices.DeleteFunc(slices.Clone(there), func(name string) bool { return !strings.HasPrefix(name, "jobs/") }); len(jobs) != 2 || len(owners) != 1 {
			t.Errorf("there are %q, of the owners %q", there, owners)
		}
		polltest.Until(t, "the namespace is empty", func() bool { return len(lab.made(t, ns)) == 0 })
		t.Logf("%d objects are gone %.1f s after kill -9, with a heartbeat of 15 s", len(there), time.Since(killed).Seconds())
	})
}

// owners returns the names of the Jobs that own the Jobs, Secrets and pods of a namespace,
// other than Jobs of load pods.
func (n *node) owners(t *testing.T, ns string) (names []string) {
	t.Helper()
	for _, path := range []string{"/api/v1/namespaces/%s/pods", "/api/v1/namespaces/%s/secrets", "/apis/batch/v1/namespaces/%s/jobs"} {
		var list struct {
			Items []struct {
				Metadata struct {
					Labels          map[string]string
					OwnerReferences []struct{ Name string }
				}
			}
		}
		if err := n.get(fmt.Sprintf(path, ns)+"?labelSelector=app.kubernetes.io/managed-by=sweep", &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			for _, of := range item.Metadata.OwnerReferences {
				if of.Name != item.Metadata.Labels["batch.kubernetes.io/job-name"] && !slices.Contains(names, of.Name) {
					names = append(names, of.Name)
				}
			}
		}
	}
	return names
}

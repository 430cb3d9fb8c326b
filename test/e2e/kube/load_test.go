//go:build e2e_kube

package kube

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

const loadPlan = `version: 1
name: pods
model: sweep/tiny
matrix: {engine: llm-d, request_rate: 40, max_tokens: 16}
backend: {kind: kubernetes, namespace: load, attach: inferencepool/pd}
load: {requests: 120, warmup: {requests: 8}, prompts: {input_tokens: 64}, clients: {n: 1, kind: kubernetes, image: "lab.test/app:1", cpus: 0.1}}
collect: [prom]
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// excused are the reasons for INVALID that load pods on a busy machine may give.
var excused = []string{"client_clock", "client_skew", "clients_differ", "client_throttled"}

// usable reports whether a row was measured, by load pods that may be on a busy machine. If
// they are, its run ends with 3.
func usable(row result.Row) bool {
	reasons, _ := row["invalid_reasons"].(string)
	return row["status"] == result.StatusOK || row["status"] == result.StatusInvalid &&
		!slices.ContainsFunc(strings.Split(reasons, ","), func(reason string) bool { return !slices.Contains(excused, reason) })
}

// answered reports whether nearly all requests of a row were answered: a busy node may refuse one.
func answered(row result.Row) bool {
	completed, _ := row.Number("completed")
	requests, ok := row.Number("requests")
	return ok && completed >= 0.9*requests
}

// remeasured returns the rows of a run after it was resumed, three times at most, for trials
// that a busy node spoilt: what holds of a run holds of a resumed one.
func remeasured(t *testing.T, out string, resume func(args ...string)) []result.Row {
	t.Helper()
	spoilt := func(row result.Row) bool { return !usable(row) || !answered(row) }
	for again := 0; again < 3 && slices.ContainsFunc(rows(t, out), spoilt); again++ {
		for _, row := range rows(t, out) {
			t.Logf("%s: %v, %v of %v requests: %v %v", out, row["status"], row["completed"], row["requests"], row["invalid_reasons"], row["error"])
		}
		resume("resume", "--retry", "invalid,failed", out)
	}
	return rows(t, out)
}

// A stack that cannot be reached from here is measured by pods of its cluster, whatever
// their number, with the same requests. Nothing of them is left, however a run ends.
func TestLoad(t *testing.T) {
	sweep := program(t)
	lab.crds(t)
	if err := lab.kubeconfig("reader", readerToken); err != nil {
		t.Fatal(err)
	}
	const ns = "load"
	lab.namespace(t, ns)
	lab.mayRead(t, sweep, ns)
	gateway := lab.attachable(t, ns, "testdata/attach.yaml", map[string]string{"PREFILL": "prefill-0", "DECODE": "decode-0", "EPP": "pd-epp"})
	dir := t.TempDir()
	plan := filepath.Join(dir, "pods.yaml")
	if err := os.WriteFile(plan, []byte(loadPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		begun := time.Now()
		stdout, stderr, code := lab.as(t, sweep, "reader", append([]string{"run", "-o", out, plan}, args...)...)
		if code != 0 && code != 3 {
			t.Fatalf("%s: exit %d\n%s%s", name, code, stdout, stderr)
		}
		t.Logf("%s: %.1f s", name, time.Since(begun).Seconds())
		return out
	}
	t.Run("refused", func(t *testing.T) {
		_, stderr, code := lab.as(t, sweep, "reader", "run", "-o", filepath.Join(dir, "refused"), plan)
		if code != 8 || !strings.Contains(stderr, "reader may not create jobs.batch in namespace load") || !strings.Contains(stderr, "--print-load-role") {
			t.Errorf("exit %d: %s", code, stderr)
		}
	})
	lab.mayLoad(t, sweep, ns)

	t.Run("same requests", func(t *testing.T) {
		// Nobody on this machine gets to the gateway; pods do.
		ip, _, _ := strings.Cut(gateway, ":")
		lab.unreachable(t, ip)
		if answers("http://" + gateway + "/v1/models") {
			t.Fatal("the gateway can be reached from here")
		}
		digests := map[string]string{}
		for name, args := range map[string][]string{"one": nil, "four": {"--set", "load.clients.n=4"}} {
			out := run(name, args...)
			for _, row := range remeasured(t, out, func(args ...string) { _, _, _ = lab.as(t, sweep, "reader", args...) }) {
				if !usable(row) || row["network_path"] != "direct" || !answered(row) || row["pd"] != "proven" {
					t.Errorf("%s: %v by %v, %v of %v requests, pd %v: %v", name, row["status"], row["network_path"], row["completed"], row["requests"], row["pd"], row["invalid_reasons"])
				}
			}
			digest, shards, n := sent(t, out)
			digests[digest] = name
			if want := map[string]int{"one": 1, "four": 4}[name]; shards != want || n != compared {
				t.Errorf("%s: %d requests of %d clients, want %d", name, n, shards, want)
			}
			lab.none(t, ns)
		}
		if len(digests) != 1 {
			diff, _ := exec.Command("diff", filepath.Join(dir, "one", "sent.txt"), filepath.Join(dir, "four", "sent.txt")).Output()
			t.Errorf("one pod and four send other requests: %v\n%.2000s", digests, diff)
		}
	})
	// Nothing in the plan asks for pods, and no image of sweep is named.
	t.Run("by default", func(t *testing.T) {
		ip, _, _ := strings.Cut(gateway, ":")
		lab.unreachable(t, ip)
		text := strings.Replace(loadPlan, `, clients: {n: 1, kind: kubernetes, image: "lab.test/app:1", cpus: 0.1}`, "", 1)
		if err := os.WriteFile(filepath.Join(dir, "plain.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "default")
		stdout, stderr, code := lab.as(t, sweep, "reader", "run", "-o", out, filepath.Join(dir, "plain.yaml"))
		if code != 0 && code != 3 {
			t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
		}
		for _, row := range remeasured(t, out, func(args ...string) { _, _, _ = lab.as(t, sweep, "reader", args...) }) {
			if !usable(row) || row["network_path"] != "direct" || !answered(row) {
				t.Errorf("%v by %v, %v of %v requests: %v", row["status"], row["network_path"], row["completed"], row["requests"], row["invalid_reasons"])
			}
		}
		lab.none(t, ns)
	})
	t.Run("made again", func(t *testing.T) { lab.remade(t, ns) })
	t.Run("a pod is deleted", func(t *testing.T) {
		out := filepath.Join(dir, "deleted")
		cmd, during := underWay(t, sweep, out, plan, "--set", "load.requests=4000", "--set", "load.clients.n=2")
		during(func() {
			pods := lab.loadPods(t, ns)
			if len(pods) != 2 {
				t.Fatalf("load pods %v", pods)
			}
			if err := lab.send(http.MethodDelete, "/api/v1/namespaces/"+ns+"/pods/"+pods[1], "", nil); err != nil {
				t.Error(err)
			}
		})
		_ = cmd.Wait() // its rows say how it ended
		for _, row := range rows(t, out) {
			if reasons, _ := row["invalid_reasons"].(string); row["status"] != result.StatusInvalid || !slices.Contains(strings.Split(reasons, ","), "client_lost") {
				t.Errorf("%v: %v %v", row["status"], row["invalid_reasons"], row["error"])
			}
		}
		lab.none(t, ns)
	})
	t.Run("sweep is killed", func(t *testing.T) {
		out := filepath.Join(dir, "killed")
		cmd, during := underWay(t, sweep, out, plan, "--set", "load.requests=4000", "--set", "backend.heartbeat=10s")
		during(func() {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		})
		_ = cmd.Wait() // killed
		killed := time.Now()
		polltest.Until(t, "the load pods are gone", func() bool { return len(lab.loadPods(t, ns)) == 0 })
		t.Logf("no load pod %.1f s after the kill", time.Since(killed).Seconds())
		lab.none(t, ns)
	})
	// The cluster keeps them for another ten minutes; the ledger of this machine knows them.
	t.Run("what a killed sweep left is ended", func(t *testing.T) {
		out := filepath.Join(dir, "left")
		cmd, during := underWay(t, sweep, out, plan, "--set", "load.requests=4000", "--set", "backend.heartbeat=10m")
		during(func() {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		})
		_ = cmd.Wait() // killed
		st, err := rundir.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		id := st.Manifest.RunID
		if stdout, stderr, code := lab.as(t, sweep, "reader", "pods", "--json"); code != 0 || !strings.Contains(stdout, id) {
			t.Errorf("pods: exit %d, no run %s in\n%s%s", code, id, stdout, stderr)
		}
		stdout, stderr, code := lab.as(t, sweep, "reader", "gc", "--yes", "--run", id)
		if code != 0 || !strings.Contains(stdout, "gone") {
			t.Errorf("gc: exit %d\n%s%s", code, stdout, stderr)
		}
		lab.none(t, ns)
	})
}

// remade makes clients, and makes them again when one is lost.
func (n *node) remade(t *testing.T, ns string) {
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: n.file("reader.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	f := clients.New(clients.Config{
		API: api, Name: backends.NewName("user@host", "run1", time.Now().Add(time.Hour)), Engine: "vllm", Program: n.file("sweep"),
		Want: backends.ClientsWant{N: 2, Namespace: ns, CPUs: 0.1}, Note: func(text string) { t.Log(text) },
	})
	closing := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	defer closing()
	if err := f.Own(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func() []string {
		t.Helper()
		list, err := f.Clients(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			conn, err := worker.Dial(t.Context(), worker.Address{URL: c.URL, Token: c.Token, Dial: c.Dial}, "127.0.0.1:7070")
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		return n.loadPods(t, ns)
	}
	before := ask()
	if again := ask(); !slices.Equal(again, before) || len(before) != 2 {
		t.Errorf("pods %v, then %v", before, again)
	}
	if err := n.send(http.MethodDelete, "/api/v1/namespaces/"+ns+"/pods/"+before[0]+"?gracePeriodSeconds=0", "", nil); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the pod is gone", func() bool { return !slices.Contains(n.loadPods(t, ns), before[0]) })
	after := ask()
	polltest.Until(t, "the others are gone", func() bool { after = n.loadPods(t, ns); return len(after) == 2 })
	if slices.Contains(after, before[1]) {
		t.Errorf("pods %v, and before %v", after, before)
	}
	closing()
	n.none(t, ns)
}

// mayLoad binds the shipped Role of load pods to the user reader.
func (n *node) mayLoad(t *testing.T, sweep, ns string) {
	t.Helper()
	role, stderr, code := n.as(t, sweep, "reader", "probe", "--kube", ns, "--print-load-role")
	if code != 0 {
		t.Fatalf("--print-role: exit %d: %s", code, stderr)
	}
	n.apply(t, ns, role)
	n.apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: sweep-load},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweep-load}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: reader}]}`)
}

// unreachable keeps this machine, and no pod, from an address until the test ends.
func (n *node) unreachable(t *testing.T, ip string) {
	t.Helper()
	if out, err := exec.Command("ip", "route", "add", "unreachable", ip+"/32").CombinedOutput(); err != nil {
		t.Fatalf("ip route: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "route", "del", "unreachable", ip+"/32").CombinedOutput(); err != nil {
			t.Errorf("ip route: %v: %s", err, out)
		}
	})
}

// loadPods returns the names of the load pods, in their order.
func (n *node) loadPods(t *testing.T, ns string) (names []string) {
	t.Helper()
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := n.get("/api/v1/namespaces/"+ns+"/pods?labelSelector=app.kubernetes.io/component%3Dload", &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		names = append(names, p.Metadata.Name)
	}
	sort.Strings(names)
	return names
}

// none fails if anything of sweep's is left in a namespace.
func (n *node) none(t *testing.T, ns string) {
	t.Helper()
	for _, path := range []string{"/api/v1/namespaces/%s/pods", "/api/v1/namespaces/%s/secrets", "/apis/batch/v1/namespaces/%s/jobs"} {
		var left []string
		polltest.Within(moment, func() bool {
			var list struct {
				Items []struct{ Metadata struct{ Name string } }
			}
			if err := n.get(fmt.Sprintf(path, ns)+"?labelSelector=app.kubernetes.io/managed-by%3Dsweep", &list); err != nil {
				t.Fatal(err)
			}
			left = nil
			for _, o := range list.Items {
				left = append(left, o.Metadata.Name)
			}
			return len(left) == 0
		})
		if len(left) > 0 {
			t.Errorf("%s: left are %v", path, left)
		}
	}
}

// underWay starts a run of a plan. The function calls another one while the load is sent.
func underWay(t *testing.T, sweep, out, plan string, args ...string) (cmd *exec.Cmd, during func(func())) {
	t.Helper()
	cmd = command(t, sweep, append([]string{"run", "-o", out, "--events", "-", plan}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.file("reader.kubeconfig"), "XDG_STATE_HOME="+lab.file("home-reader"))
	events, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func(f func()) {
		t.Helper()
		once := false
		for lines := bufio.NewScanner(events); lines.Scan(); {
			if !once && strings.Contains(lines.Text(), `"trial_progress"`) {
				once = true
				f()
			}
		}
		if !once {
			t.Errorf("no load was sent:\n%s", said.String())
		}
	}
}

// Every trial of the plan sends so many requests at least, one after the other numbered.
const (
	warmup   = 8
	compared = 120
)

// sent returns a digest of the requests of a run's trials (not of their text, which a run marks),
// whoever sent them, by how many
// clients and how many they were.
func sent(t *testing.T, out string) (digest string, shards, n int) {
	t.Helper()
	st, err := rundir.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	clients, lines := map[int]bool{}, []string{}
	for _, c := range st.Committed {
		for _, r := range requests(t, rundir.AttemptDir(out, c)) {
			if !r.Measured() || r.N >= warmup+compared { // how many come in the ramp is the warm-up's
				continue
			}
			clients[r.Shard] = true
			lines = append(lines, fmt.Sprintln(r.N, r.Turn, r.TargetTokens, r.MaxTokens, r.CompletionTokens))
		}
	}
	sort.Strings(lines)
	if err := os.WriteFile(filepath.Join(out, "sent.txt"), []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:]), len(clients), len(lines)
}

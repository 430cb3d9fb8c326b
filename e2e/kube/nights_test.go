//go:build e2e_kube

package kube

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/kubelock"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/rundir"
)

// whoever is what nights run as.
const whoever = 65532

// lenient makes trials valid on a machine that is busy with a whole Kubernetes.
var lenient = []string{
	"--set", "validity.max_client_cpu=1", "--set", "validity.max_schedule_lag=30s", "--set", "validity.max_stall=60s", "--set", "validity.max_client_lag=60s",
	"--set", "validity.max_loop=1", "--set", "validity.max_coalesced=1", "--set", "validity.max_steal=1", "--set", "validity.max_drift=100",
}

// A CronJob measures the quick start every minute, in a namespace that admits restricted
// pods alone. While a night of another plan has the pool of GPUs it waits, and no second
// one begins. A night whose pod is deleted is resumed by the next one, which is judged.
func TestNights(t *testing.T) {
	t.Parallel()
	sweep, ns := program(t), "nights"
	data := lab.volume(t, ns, "sweep-quickstart")
	begin := time.Now()
	step := func(what string) { t.Logf("%5.1f s: %s", time.Since(begin).Seconds(), what) }

	args := append([]string{"schedule", "--target", "kubernetes", "--namespace", ns, "--image", appImage, "--pool", "gpus"}, lenient...)
	stream, stderr, code := lab.as(t, sweep, "admin", append(args, "../../plans/quickstart.yaml")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	// At two in the morning nobody tests; and processors are few here.
	for from, to := range map[string]string{`schedule: "00 02 * * *"`: `schedule: "* * * * *"`, `cpu: "1"`: "cpu: 100m"} {
		if !strings.Contains(stream, from) {
			t.Fatalf("the stream has no %s", from)
		}
		stream = strings.ReplaceAll(stream, from, to)
	}
	before, nights, _ := strings.Cut(stream, "\n---\napiVersion: batch/v1\n")
	lab.serverSide(t, ns, before)

	// A night of another plan, from outside of the cluster.
	other := t.TempDir()
	beside := exec.Command(sweep, append([]string{"night", "--pool", ns + "/sweep-pool-gpus"}, "other.yaml")...)
	beside.Dir = other
	beside.Env = append(os.Environ(), "KUBECONFIG="+lab.file("admin.kubeconfig"))
	out, err := os.Create(filepath.Join(other, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	beside.Stdout, beside.Stderr = out, out
	const otherPlan = `{version: 1, name: other, model: sweep/tiny, matrix: {engine: vllm, gpu: h100, concurrency: 1, max_tokens: 3}, backend: {kind: sim}, load: {duration: 600s, prompts: {input_tokens: 20}}}`
	if err := errors.Join(os.WriteFile(filepath.Join(other, "other.yaml"), []byte(otherPlan), 0o600), beside.Start()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- beside.Wait() }()
	t.Cleanup(func() { _ = beside.Process.Kill() })
	lab.within(t, ns, time.Minute, "the other night has begun", func() bool { return len(journals(filepath.Join(other, "runs"))) == 1 })
	step("the other night has begun")

	lab.serverSide(t, ns, "apiVersion: batch/v1\n"+nights)
	if again, _, _ := lab.as(t, sweep, "admin", append(args, "../../plans/quickstart.yaml")...); again == "" {
		t.Error("the stream is not printed again")
	}
	lab.within(t, ns, 3*time.Minute, "a second night is not started beside the first", func() bool {
		return strings.Contains(lab.events(ns), "JobAlreadyActive")
	})
	step("a night waits, and the next one was not started")
	if got := len(journals(filepath.Join(data, "runs"))); got != 0 {
		t.Errorf("%d runs began while another night had the pool", got)
	}
	if err := beside.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; beside.ProcessState.ExitCode() != 143 {
		t.Errorf("the other night: %v\n%s", err, read(t, filepath.Join(other, "out")))
	}
	step("the other night has ended")

	commits := func() int {
		return strings.Count(strings.Join(journals(filepath.Join(data, "runs")), ""), `"trial_committed"`)
	}
	lab.within(t, ns, time.Minute, "a trial is committed", func() bool { return commits() > 0 })
	for _, pod := range lab.pods(ns, "app.kubernetes.io/component=night") {
		if err := lab.send(http.MethodDelete, "/api/v1/namespaces/"+ns+"/pods/"+pod, "", nil); err != nil {
			t.Error(err)
		}
	}
	step("the pod of the night is deleted")
	lab.within(t, ns, 3*time.Minute, "the next night has judged the run", func() bool {
		_, err := os.Stat(filepath.Join(data, "quickstart.jsonl"))
		reports, _ := filepath.Glob(filepath.Join(data, "runs", "*", "report.html"))
		return err == nil && len(reports) > 0
	})
	step("the next night has judged the run")
	if err := lab.send(http.MethodPatch, "/apis/batch/v1/namespaces/"+ns+"/cronjobs/sweep-quickstart", "application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`)); err != nil {
		t.Error(err)
	}

	lab.fetched(t, sweep, ns, data)
	step("fetched")

	runs, _ := filepath.Glob(filepath.Join(data, "runs", "*"))
	slices.Sort(runs)
	state, err := rundir.Read(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Committed) != 6 || !state.Finished || state.Manifest.Host != "node-0" || state.Manifest.Owner != "sweep@sweep-quickstart" {
		t.Errorf("%d of 6 trials, finished %v, by %s on %s", len(state.Committed), state.Finished, state.Manifest.Owner, state.Manifest.Host)
	}
	sessions := append(sessionsOf(t, runs[0]), sessionsOf(t, filepath.Join(other, "runs", "*"))...)
	if len(sessions) != 3 {
		t.Errorf("%d sessions, want the killed one, the resumed one and the other plan's: %v", len(sessions), sessions)
	}
	slices.SortFunc(sessions, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	for i := 1; i < len(sessions); i++ {
		if sessions[i][0].Before(sessions[i-1][1]) {
			t.Errorf("two nights of the pool were at work at once: %v", sessions)
		}
	}
}

// fetched brings the nights here, by a user with the shipped Role alone, and compares each
// file. No pod is left of it, also after it was interrupted.
func (n *node) fetched(t *testing.T, sweep, ns, data string) {
	t.Helper()
	role, _, code := n.as(t, sweep, "admin", "fetch", "--kube", ns+"/quickstart", "--print-role")
	if code != 0 {
		t.Fatalf("exit %d", code)
	}
	if err := n.kubeconfig("reader", readerToken); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, stderr, code := n.as(t, sweep, "reader", "fetch", "--kube", ns+"/quickstart", "-o", to); code != 8 || !strings.Contains(stderr, "--print-role") {
		t.Errorf("without the Role: exit %d: %s", code, stderr)
	}
	n.serverSide(t, ns, role)
	n.serverSide(t, ns, fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: fetch, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweep-fetch}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`, ns))
	for _, again := range []bool{false, true} {
		stdout, stderr, code := n.as(t, sweep, "reader", "fetch", "--kube", ns+"/quickstart", "-o", to)
		if code != 0 || !strings.Contains(stdout, filepath.Join(to, "runs", "quickstart-")) || again && !strings.Contains(stderr, "0 files and 0 bytes fetched") {
			t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
		}
	}
	files := 0
	err := filepath.WalkDir(to, func(at string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		rel, _ := filepath.Rel(to, at)
		if read(t, at) != read(t, filepath.Join(data, rel)) {
			t.Errorf("%s differs", rel)
		}
		return nil
	})
	if err != nil || files < 30 {
		t.Errorf("%d files, %v", files, err)
	}
	runs, _ := filepath.Glob(filepath.Join(to, "runs", "*"))
	if stdout, stderr, code := n.as(t, sweep, "reader", append([]string{"cells"}, runs...)...); code != 0 || !strings.Contains(stdout, "concurrency") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}

	// One that is told to end gives its pod back too.
	cmd := exec.Command(sweep, "fetch", "--kube", ns+"/quickstart", "-o", t.TempDir())
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.file("reader.kubeconfig"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.within(t, ns, time.Minute, "a fetch has a pod", func() bool { return len(n.pods(ns, "app.kubernetes.io/component=fetch")) > 0 })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait() // with 143, or with 0 if it was done already
	if code := cmd.ProcessState.ExitCode(); code != 143 && code != 0 {
		t.Errorf("exit %d", code)
	}
	if left := n.pods(ns, "app.kubernetes.io/component=fetch"); len(left) > 0 {
		t.Errorf("pods are left: %v", left)
	}
}

// The lock of a pool against the real API: it is renewed, and taken over once it expired.
func TestNights_lock(t *testing.T) {
	t.Parallel()
	const ns = "nights-lock"
	lab.namespace(t, ns)
	lab.serverSide(t, ns, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: gpus, namespace: "+ns+"}\n")
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: lab.file("admin.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	lock := func(holder string, renew time.Duration) *kubelock.Lock {
		return &kubelock.Lock{API: api, Namespace: ns, Name: "gpus", Holder: holder, Times: kubelock.Times{
			Duration: 3 * time.Second, Renew: renew, GiveUp: 2 * time.Second, Poll: 100 * time.Millisecond,
		}}
	}
	if _, err := lock("gone", time.Hour).Take(t.Context()); err != nil { // it never renews
		t.Fatal(err)
	}
	begin := time.Now()
	held, err := lock("next", 200*time.Millisecond).Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(begin); waited < 2500*time.Millisecond {
		t.Errorf("taken over after %v", waited)
	}
	work, stop := held.Work(t.Context())
	defer stop()
	if polltest.Within(4*time.Second, func() bool { return work.Err() != nil }) {
		t.Errorf("the lock was lost: %v", work.Err())
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	last, err := lock("last", time.Second).Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := last.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// volume makes a namespace that admits restricted pods alone, and a volume for a claim in
// it: a folder that is returned.
func (n *node) volume(t *testing.T, ns, claim string) (data string) {
	t.Helper()
	n.namespace(t, ns)
	if err := n.send(http.MethodPatch, "/api/v1/namespaces/"+ns, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)); err != nil {
		t.Fatal(err)
	}
	data = n.file("volume-" + ns)
	if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, whoever, whoever)); err != nil {
		t.Fatal(err)
	}
	n.serverSide(t, "", fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 10Gi}
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: %[2]s, type: Directory}
  claimRef: {namespace: %[1]s, name: %[3]s}
`, ns, data, claim))
	return data
}

// serverSide applies a stream as kubectl apply --server-side does. A field that the server
// does not know, or that has another type, is an error.
func (n *node) serverSide(t *testing.T, ns, stream string) {
	t.Helper()
	kinds := map[string]string{
		"ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts/", "ConfigMap": "/api/v1/namespaces/%s/configmaps/",
		"PersistentVolumeClaim": "/api/v1/namespaces/%s/persistentvolumeclaims/", "PersistentVolume": "/api/v1/persistentvolumes/",
		"Lease": "/apis/coordination.k8s.io/v1/namespaces/%s/leases/", "CronJob": "/apis/batch/v1/namespaces/%s/cronjobs/",
		"Role": paths["Role"] + "/", "RoleBinding": paths["RoleBinding"] + "/",
	}
	for text := range strings.SplitSeq(stream, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		path := kinds[o.Kind]
		if path == "" {
			t.Fatalf("no path for the kind %q", o.Kind)
		}
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, ns)
		}
		if err := n.send(http.MethodPatch, path+o.Metadata.Name+"?fieldManager=kubectl&fieldValidation=Strict", "application/apply-patch+yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// within waits for a condition, and shows what there is if it is not met.
func (n *node) within(t *testing.T, ns string, d time.Duration, what string, met func() bool) {
	t.Helper()
	if polltest.Within(d, met) {
		return
	}
	text := n.events(ns)
	for _, pod := range n.pods(ns, "app.kubernetes.io/managed-by=sweep") {
		said, err := n.call(http.MethodGet, "/api/v1/namespaces/"+ns+"/pods/"+pod+"/log", "", nil)
		text += fmt.Sprintf("\n--- %s %v\n%s", pod, err, said)
	}
	t.Fatalf("after %v it is not so that %s\n%s", d, what, text)
}

// events are what the cluster says of a namespace, one on a line.
func (n *node) events(ns string) string {
	var list struct {
		Items []struct {
			Reason, Message string
			InvolvedObject  struct{ Kind, Name string }
		}
	}
	if err := n.get("/api/v1/namespaces/"+ns+"/events", &list); err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s %s/%s: %s\n", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
	}
	return b.String()
}

// pods are the names of those with a label.
func (n *node) pods(ns, label string) (names []string) {
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	_ = n.get("/api/v1/namespaces/"+ns+"/pods?labelSelector="+label, &list)
	for _, p := range list.Items {
		names = append(names, p.Metadata.Name)
	}
	return names
}

// journals are the texts of the journals of all runs in a folder.
func journals(folder string) (texts []string) {
	files, _ := filepath.Glob(filepath.Join(folder, "*", "journal.jsonl"))
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			texts = append(texts, string(text))
		}
	}
	return texts
}

// sessionsOf are the times between run_started and run_finished in the journals of some
// run directories.
func sessionsOf(t *testing.T, pattern string) (list [][2]time.Time) {
	t.Helper()
	dirs, _ := filepath.Glob(pattern)
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, "journal.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var e struct {
				Type string
				Time time.Time
			}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				continue
			}
			switch e.Type {
			case "run_started":
				list = append(list, [2]time.Time{e.Time, e.Time})
			case "run_finished":
				list[len(list)-1][1] = e.Time
			}
		}
	}
	return list
}

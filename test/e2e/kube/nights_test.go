//go:build e2e_kube

package kube

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	"--set", "validity.max_moved=1000", "--set", "validity.max_steal=1", "--set", "validity.max_drift=100",
}

// nights is what is done to the nights of a CronJob that measures the quick start every
// minute, in a namespace that admits restricted pods alone. It takes two and a half minutes,
// so it begins early, and its test looks at it late.
type nights struct {
	sweep, ns string
	data      string // the volume
	other     string // the folder of a night of another plan
	steps     []string
	err       error
	done      chan struct{}
}

// begun begins it, once.
var begun = sync.OnceValue(func() *nights {
	n := &nights{sweep: lab.file("sweep"), ns: "nights", done: make(chan struct{})}
	go func() {
		defer close(n.done)
		n.err = n.play()
	}()
	return n
})

// play lets a night wait for the pool of GPUs, which a night of another plan has, until the
// next one is due; then the other night ends, and the pod of the one that waited is deleted
// while it measures. The next one resumes its run and judges it.
func (n *nights) play() error {
	begin := time.Now()
	step := func(what string) {
		n.steps = append(n.steps, fmt.Sprintf("%5.1f s: %s", time.Since(begin).Seconds(), what))
	}
	var err error
	if n.data, err = lab.volume(n.ns, "sweep-quickstart"); err != nil {
		return err
	}
	args := append([]string{"night", "schedule", "--target", "kubernetes", "--namespace", n.ns, "--image", appImage, "--pool", "gpus"}, lenient...)
	printed, err := exec.Command(n.sweep, append(args, "../../../plans/quickstart.yaml")...).Output()
	if err != nil {
		return err
	}
	// At two in the morning nobody tests, and processors are few here.
	stream := strings.NewReplacer(`schedule: "00 02 * * *"`, `schedule: "* * * * *"`, `cpu: "1"`, "cpu: 100m").Replace(string(printed))
	before, cron, _ := strings.Cut(stream, "\n---\napiVersion: batch/v1\n")
	if err := lab.serverSide(n.ns, before); err != nil {
		return err
	}
	beside, err := n.beside()
	if err != nil {
		return err
	}
	defer func() { _ = beside.Process.Kill() }()
	err = lab.within(n.ns, time.Minute, "the other night has begun", func() bool { return len(journals(filepath.Join(n.other, "runs"))) == 1 })
	if err != nil {
		return err
	}
	step("the other night has begun")

	if err := lab.serverSide(n.ns, "apiVersion: batch/v1\n"+cron); err != nil {
		return err
	}
	err = lab.within(n.ns, 3*time.Minute, "a second night is not started beside the first", func() bool {
		return strings.Contains(lab.events(n.ns), "JobAlreadyActive")
	})
	if err != nil {
		return err
	}
	step("a night waits, and the next one was not started")
	if got := len(journals(filepath.Join(n.data, "runs"))); got != 0 {
		return fmt.Errorf("%d runs began while another night had the pool", got)
	}
	_ = beside.Process.Signal(syscall.SIGTERM)
	if err := beside.Wait(); beside.ProcessState.ExitCode() != 143 {
		said, _ := os.ReadFile(filepath.Join(n.other, "out"))
		return fmt.Errorf("the other night: %w\n%s", err, said)
	}
	step("the other night has ended")

	err = lab.within(n.ns, time.Minute, "a trial is committed", func() bool {
		return strings.Contains(strings.Join(journals(filepath.Join(n.data, "runs")), ""), `"trial_committed"`)
	})
	if err != nil {
		return err
	}
	for _, pod := range lab.pods(n.ns, "app.kubernetes.io/component=night") {
		if err := lab.send(http.MethodDelete, "/api/v1/namespaces/"+n.ns+"/pods/"+pod, "", nil); err != nil {
			return err
		}
	}
	step("the pod of the night is deleted")
	err = lab.within(n.ns, 6*time.Minute, "the next night has judged the run", func() bool {
		_, err := os.Stat(filepath.Join(n.data, "quickstart.jsonl"))
		reports, _ := filepath.Glob(filepath.Join(n.data, "runs", "*", "report.html"))
		return err == nil && len(reports) > 0
	})
	if err != nil {
		return err
	}
	step("the next night has judged the run")
	return lab.send(http.MethodPatch, "/apis/batch/v1/namespaces/"+n.ns+"/cronjobs/sweep-quickstart", "application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))
}

// beside starts a night of another plan, outside of the cluster, that has the same pool.
func (n *nights) beside() (*exec.Cmd, error) {
	n.other = lab.file("other-night")
	const plan = `{version: 1, name: other, model: sweep/tiny, matrix: {engine: vllm, gpu: h100, concurrency: 1, max_tokens: 3}, backend: {kind: sim}, load: {duration: 600s, prompts: {input_tokens: 20}}}`
	if err := errors.Join(os.Mkdir(n.other, 0o700), os.WriteFile(filepath.Join(n.other, "other.yaml"), []byte(plan), 0o600)); err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(n.other, "out"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(n.sweep, "night", "run", "--pool", n.ns+"/sweep-pool-gpus", "other.yaml")
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.other, out, out
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.file("admin.kubeconfig"))
	return cmd, cmd.Start()
}

// Nights that name one pool are not at work at once, and neither are two of one plan. One
// that was killed is resumed, judged, and fetched.
func TestNights(t *testing.T) {
	t.Parallel()
	n := begun()
	<-n.done
	t.Log(strings.Join(n.steps, "\n"))
	if n.err != nil {
		t.Fatal(n.err)
	}
	lab.fetched(t, n.sweep, n.ns, n.data)

	runs, _ := filepath.Glob(filepath.Join(n.data, "runs", "*"))
	slices.Sort(runs)
	state, err := rundir.Read(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Committed) != 6 || !state.Finished || state.Manifest.Host != "node-0" || state.Manifest.Owner != "sweep@sweep-quickstart" {
		t.Errorf("%d of 6 trials, finished %v, by %s on %s", len(state.Committed), state.Finished, state.Manifest.Owner, state.Manifest.Host)
	}
	sessions := append(sessionsOf(t, runs[0]), sessionsOf(t, filepath.Join(n.other, "runs", "*"))...)
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
	role, _, code := n.as(t, sweep, "admin", "night", "fetch", "--kube", ns+"/quickstart", "--print-role")
	if code != 0 {
		t.Fatalf("exit %d", code)
	}
	if err := n.kubeconfig("reader", readerToken); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, stderr, code := n.as(t, sweep, "reader", "night", "fetch", "--kube", ns+"/quickstart", "-o", to); code != 8 || !strings.Contains(stderr, "--print-role") {
		t.Errorf("without the Role: exit %d: %s", code, stderr)
	}
	binding := fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: fetch, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweep-fetch}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`, ns)
	if err := errors.Join(n.serverSide(ns, role), n.serverSide(ns, binding)); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		stdout, stderr, code := n.as(t, sweep, "reader", "night", "fetch", "--kube", ns+"/quickstart", "-o", to)
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
	cmd := command(t, sweep, "night", "fetch", "--kube", ns+"/quickstart", "-o", t.TempDir())
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.file("reader.kubeconfig"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.within(ns, time.Minute, "a fetch has a pod", func() bool { return len(n.pods(ns, "app.kubernetes.io/component=fetch")) > 0 }); err != nil {
		t.Error(err)
	}
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
	if err := lab.serverSide(ns, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: gpus, namespace: "+ns+"}\n"); err != nil {
		t.Fatal(err)
	}
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: lab.file("admin.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	lock := func(holder string, renew time.Duration) *kubelock.Lock {
		return &kubelock.Lock{API: api, Namespace: ns, Name: "gpus", Holder: holder, Times: kubelock.Times{
			Duration: 7 * time.Second, Renew: renew, GiveUp: 6 * time.Second, Poll: 100 * time.Millisecond,
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
	if waited := time.Since(begin); waited < 6*time.Second {
		t.Errorf("taken over after %v", waited)
	}
	work, stop := held.Work(t.Context())
	defer stop()
	if polltest.Within(9*time.Second, func() bool { return work.Err() != nil }) {
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
func (n *node) volume(ns, claim string) (data string, err error) {
	data = n.file("volume-" + ns)
	return data, errors.Join(os.Mkdir(data, 0o700), os.Chown(data, whoever, whoever), n.serverSide(ns, fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 10Gi}
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: %[2]s, type: Directory}
  claimRef: {namespace: %[1]s, name: %[3]s}
`, ns, data, claim)))
}

// serverSide applies a stream as kubectl apply --server-side does. A field that the server
// does not know, or that has another type, is an error.
func (n *node) serverSide(ns, stream string) error {
	kinds := map[string]string{
		"ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts", "ConfigMap": "/api/v1/namespaces/%s/configmaps",
		"PersistentVolumeClaim": "/api/v1/namespaces/%s/persistentvolumeclaims", "PersistentVolume": "/api/v1/persistentvolumes",
		"Lease": "/apis/coordination.k8s.io/v1/namespaces/%s/leases", "CronJob": "/apis/batch/v1/namespaces/%s/cronjobs",
	}
	for text := range strings.SplitSeq(stream, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return fmt.Errorf("%w\n%s", err, text)
		}
		path := cmp.Or(kinds[o.Kind], paths[o.Kind])
		if path == "" {
			return fmt.Errorf("no path for the kind %q", o.Kind)
		}
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, ns)
		}
		path += "/" + o.Metadata.Name + "?fieldManager=kubectl&fieldValidation=Strict"
		if err := n.send(http.MethodPatch, path, "application/apply-patch+yaml", []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// within waits for a condition. Its error has what there is if it is not met.
func (n *node) within(ns string, d time.Duration, what string, met func() bool) error {
	if polltest.Within(d, met) {
		return nil
	}
	text := n.events(ns)
	for _, pod := range n.pods(ns, "app.kubernetes.io/managed-by=sweep") {
		said, err := n.call(http.MethodGet, "/api/v1/namespaces/"+ns+"/pods/"+pod+"/log", "", nil)
		text += fmt.Sprintf("\n--- %s %v\n%s", pod, err, said)
	}
	return fmt.Errorf("after %v it is not so that %s\n%s", d, what, text)
}

// events returns what the cluster says of a namespace, one on a line.
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

// pods returns the names of those with a label.
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

// journals returns the texts of the journals of all runs in a folder.
func journals(folder string) (texts []string) {
	files, _ := filepath.Glob(filepath.Join(folder, "*", "journal.jsonl"))
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			texts = append(texts, string(text))
		}
	}
	return texts
}

// sessionsOf returns the times between run_started and run_finished in the journals of some
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

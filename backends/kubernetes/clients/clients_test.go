package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/kubeapi"
)

// The Role grants the rights that load pods have, no more and no less.
func TestRole(t *testing.T) {
	t.Parallel()
	var role struct {
		Metadata struct{ Namespace string }
		Rules    []struct {
			APIGroups []string `yaml:"apiGroups"`
			Resources []string
			Verbs     []string
		}
	}
	if err := yaml.Unmarshal([]byte(RoleYAML("prod")), &role); err != nil || role.Metadata.Namespace != "prod" {
		t.Fatal(err, role.Metadata.Namespace)
	}
	var granted, wanted []string
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			granted = append(granted, verb+" "+kubeapi.Qualified(r.APIGroups[0], r.Resources[0]))
		}
	}
	for _, r := range Rights() {
		wanted = append(wanted, r.Verb+" "+kubeapi.Qualified(r.Group, r.Resource))
	}
	slices.Sort(granted)
	slices.Sort(wanted)
	if !slices.Equal(granted, wanted) {
		t.Errorf("granted %v, wanted %v", granted, wanted)
	}
	// Without events, and without the right to delete pods, load pods run all the same.
	if len(Needed()) != len(Rights())-3 || slices.ContainsFunc(Needed(), func(r kubeapi.Right) bool { return r.Resource == "events" }) {
		t.Errorf("needed are %v", Needed())
	}
}

// pods are pods of an Indexed Job as the cluster reports them.
func podsOf(t *testing.T, text string) (list []object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func indexed(i int, status string) string {
	return fmt.Sprintf(`{"metadata":{"name":"c-%d","labels":{"batch.kubernetes.io/job-completion-index":"%d"}},"status":%s}`, i, i, status)
}

// A pod that waits is waited for, unless that is in vain.
func TestReady(t *testing.T) {
	t.Parallel()
	const running = `{"phase":"Running","containerStatuses":[{"state":{"running":{}}}]}`
	waiting := func(reason, message string) string {
		return fmt.Sprintf(`{"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":%q,"message":%q}}}]}`, reason, message)
	}
	for name, c := range map[string]struct {
		pods   []string
		waited time.Duration
		names  string
		why    string
		final  bool
	}{
		"all run":        {[]string{indexed(1, running), indexed(0, running)}, 0, "c-0 c-1", "", false},
		"one is missing": {[]string{indexed(1, running)}, 0, "", "1 of 2 pods are made", false},
		"one twice":      {[]string{indexed(1, running), indexed(1, running)}, 0, "", "2 of 2 pods", false},
		"starting":       {[]string{indexed(0, running), indexed(1, waiting("ContainerCreating", ""))}, 0, "", "ContainerCreating", false},
		"no room": {
			[]string{indexed(0, running), indexed(1, `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available: 1 Insufficient cpu."}]}`)},
			time.Hour, "", "Insufficient cpu", false,
		},
		"no image yet":  {[]string{indexed(0, running), indexed(1, waiting("ErrImagePull", "not found"))}, time.Second, "", "ErrImagePull: not found", false},
		"no image":      {[]string{indexed(0, running), indexed(1, waiting("ImagePullBackOff", "not found"))}, time.Minute, "", "ImagePullBackOff: not found", true},
		"never":         {[]string{indexed(0, waiting("ErrImageNeverPull", "x"))}, 0, "", "ErrImageNeverPull", true},
		"ended":         {[]string{indexed(0, `{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"reason":"OOMKilled","exitCode":137}}}]}`)}, 0, "", "exit code 137 (OOMKilled)", true},
		"wrong program": {[]string{indexed(0, `{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"reason":"StartError","exitCode":128,"message":"exec format error"}}}]}`)}, 0, "", "exec format error", true},
		"evicted":       {[]string{indexed(0, `{"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler","message":"a more important pod"}],"containerStatuses":[{"state":{"running":{}}}]}`)}, 0, "", "taken away (PreemptionByScheduler)", true},
		"rejected":      {[]string{indexed(0, `{"phase":"Failed","reason":"OutOfcpu","message":"Pod was rejected"}`)}, 0, "", "OutOfcpu", true},
	} {
		names, why, final := ready(podsOf(t, "["+strings.Join(c.pods, ",")+"]"), 2, c.waited)
		if strings.Join(names, " ") != c.names || !strings.Contains(why, c.why) || final != c.final {
			t.Errorf("%s: %v, %q, final %v", name, names, why, final)
		}
	}
}

// A load pod that does not come has the class that a server's would have.
func TestClassed(t *testing.T) {
	t.Parallel()
	for class, status := range map[string]string{
		"no_capacity": `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available: 1 Insufficient cpu."}]}`,
		"image":       `{"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff","message":"not found"}}}]}`,
		"exit":        `{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"reason":"Error","exitCode":1}}}]}`,
		"oom.host":    `{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"reason":"OOMKilled","exitCode":137}}}]}`,
		"":            `{"phase":"Pending"}`,
	} {
		err := classed(podsOf(t, "["+indexed(0, status)+"]"), errors.New("too late"))
		f, _ := errors.AsType[*backends.Failure](err)
		if got := f != nil && f.Class == class; got != (class != "") || err.Error() != "too late" {
			t.Errorf("%q: %#v", class, err)
		}
	}
	// One that has ended is why those that wait do not matter.
	err := classed(podsOf(t, "["+indexed(0, `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}`)+
		`,{"metadata":{"name":"c-1","deletionTimestamp":"2026-01-01T00:00:00Z"}}]`), errors.New("gone"))
	if f, _ := errors.AsType[*backends.Failure](err); f == nil || f.Class != "deleted" {
		t.Errorf("%#v", err)
	}
}

// A fleet that has its owner.
func owned(want backends.ClientsWant) *Fleet {
	want.Namespace = "ns"
	f := New(Config{Name: backends.NewName("user@host", "run1", time.Now().Add(time.Hour)), Want: want})
	f.owner, f.made = &owner.Owner{Name: f.Name, UID: "u-1"}, 1
	return f
}

// The token is in the Secret alone, and every object goes with the owner.
func TestManifests(t *testing.T) {
	t.Parallel()
	f := owned(backends.ClientsWant{N: 4})
	for name, o := range map[string]map[string]any{"secret": f.secret(), "job": f.job(4)} {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), f.token.Reveal()); got != (name == "secret") {
			t.Errorf("%s: has the token: %v", name, got)
		}
		if !strings.Contains(string(text), `"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"`+f.Name.String()+`","uid":"u-1"}]`) {
			t.Errorf("%s: %s", name, text)
		}
	}
	text, err := json.Marshal(f.job(4))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"completionMode":"Indexed"`, `"parallelism":4`, `"completions":4`, `"backoffLimit":0`, `"podReplacementPolicy":"Failed"`,
		`"automountServiceAccountToken":false`, `"restartPolicy":"Never"`, `"whenUnsatisfiable":"ScheduleAnyway"`,
		`"runAsNonRoot":true`, `"readOnlyRootFilesystem":true`, `"drop":["ALL"]`, `"allowPrivilegeEscalation":false`, `"type":"RuntimeDefault"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// Whole CPUs are a limit too: of others the kernel would hold a client back.
func TestManifests_cpus(t *testing.T) {
	t.Parallel()
	for cpus, want := range map[float64]string{
		0: `{"requests":{"cpu":"1000m","memory":"512Mi"}}`, 0.1: `{"requests":{"cpu":"100m","memory":"512Mi"}}`,
		1.5: `{"requests":{"cpu":"1500m","memory":"512Mi"}}`, 2: `{"limits":{"cpu":"2000m","memory":"512Mi"},"requests":{"cpu":"2000m","memory":"512Mi"}}`,
	} {
		got, err := json.Marshal(owned(backends.ClientsWant{N: 1, CPUs: cpus}).container()["resources"])
		if err != nil || string(got) != want {
			t.Errorf("%v CPUs: %s, want %s", cpus, got, want)
		}
	}
}

// plain returns a program that needs nothing of its image, beside its source main.go.
func plain(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", at, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return at
}

// Only a program that needs nothing of its image is copied.
func TestLoad(t *testing.T) {
	t.Parallel()
	at := plain(t)
	dir := filepath.Dir(at)
	source := filepath.Join(dir, "main.go")
	p, err := load(at)
	if err != nil || p.size < 100_000 || int64(len(p.packed)) >= p.size || len(p.sum) != 64 {
		t.Errorf("%+v, %v", p, err)
	}
	for path, want := range map[string]string{source: "no program of Linux", "/bin/sh": "needs libraries", filepath.Join(dir, "none"): "no such file"} {
		if _, err := load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "load.clients.image") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

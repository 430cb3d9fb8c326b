//go:build e2e_kube

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/kubernetes/pods"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

// A try is a launch of one server in a namespace.
type try struct {
	ns     string
	user   string // "" is deployer
	config pods.Config
	argv   []string // nil is a server that waits
	image  string   // "" is that of the tests
	gpus   int
	files  bool // it is configured by a file
}

// serve launches it, with all rights of the shipped Role and no other.
func (n *node) serve(t *testing.T, of try) (d backends.Deployment, log string, err error) {
	t.Helper()
	user := of.user
	if user == "" {
		user = "deployer"
	}
	if of.argv == nil {
		of.argv = []string{"/app", "log", "here"}
	}
	if of.image == "" {
		of.image = appImage
	}
	if of.config.Pull == "" {
		of.config.Pull = "never"
	}
	if of.config.GPULabel == "" {
		of.config.GPULabel = "none"
	}
	of.config.ShmSize = "16Mi"
	log = filepath.Join(t.TempDir(), "server.log")
	b := pods.New(nil, pods.Place{Kind: "kubernetes", Namespace: of.ns, Cluster: kubeapi.Config{Kubeconfig: n.file(user + ".kubeconfig")}}, of.config)
	spec := backends.Spec{
		Owner: "me@here", RunID: "run1", Pod: "d1-l01", Engine: "app", GPU: "LAB-GPU", Digest: "d", Grace: 2 * time.Second,
		Expires: time.Now().Add(10 * time.Minute),
		Roles: []backends.Role{{
			Name: "server", Replicas: 1, GPUs: of.gpus, Image: of.image, LogPath: func(int) string { return log },
			Argv: func(backends.Address) ([]string, error) { return of.argv, nil },
		}},
	}
	if of.files {
		spec.Roles[0].Extra = func(backends.Address) (backends.Extra, error) {
			return backends.Extra{Files: map[string][]byte{"conf": []byte("x")}}, nil
		}
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 90*time.Second, errors.New("the test gives up"))
	defer cancel()
	var ledger backendtest.Ledger
	d, err = b.Launch(ctx, spec, &ledger)
	if err == nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := d.Stop(ctx); err != nil {
				t.Error(err)
			}
			n.empty(t, of.ns)
		})
		return d, log, nil
	}
	n.empty(t, of.ns)
	return nil, log, err
}

// A fate is a way in which a pod of a server fails.
type fate struct {
	before []string                                      // manifests of the namespace
	labels string                                        // of the namespace
	beside func(n *node, ctx context.Context, ns string) // what somebody does meanwhile
	of     try
	class  string // of the failure; "" is an exit
	text   []string
	hint   string // in its advice
	is     error
	log    string
}

// Each way in which a cluster refuses or ends a pod has its class and its advice, and
// nothing of the launch is left.
func TestDeploy_failures(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fate{
		"gpus":      {of: try{gpus: 9, config: pods.Config{Pending: 2 * time.Second}}, class: "no_capacity", text: []string{"Insufficient nvidia.com/gpu"}, is: backends.ErrCapacity},
		"selector":  {of: try{config: pods.Config{NodeSelector: map[string]string{"pool": "none"}, Pending: 2 * time.Second}}, class: "placement", text: []string{"affinity/selector"}, is: backends.ErrSpec},
		"claim":     {of: try{config: pods.Config{Cache: &pods.Cache{Claim: "nothere"}}}, class: "volume", text: []string{"nothere"}, is: backends.ErrSpec},
		"quota":     {before: []string{`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {requests.nvidia.com/gpu: "0"}}}`}, of: try{gpus: 1, config: pods.Config{Pending: 2 * time.Second}}, class: "quota", text: []string{"exceeded quota: q"}, is: backends.ErrCapacity},
		"requests":  {before: []string{`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {limits.memory: 1Gi}}}`}, of: try{}, class: "quota", text: []string{"must specify limits.memory"}, is: backends.ErrSpec},
		"standard":  {labels: "pod-security.kubernetes.io/enforce: restricted", of: try{config: pods.Config{Root: true}}, class: "admission", text: []string{"violates PodSecurity"}, is: backends.ErrSpec},
		"runtime":   {of: try{gpus: 1, config: pods.Config{RuntimeClass: "nvidia"}}, class: "admission", text: []string{"RuntimeClass", "nvidia"}, is: backends.ErrSpec},
		"priority":  {of: try{config: pods.Config{PriorityClass: "nothere"}}, class: "admission", text: []string{"nothere"}, is: backends.ErrSpec},
		"no image":  {of: try{image: "lab.test/nothere:1"}, class: "image", text: []string{"ErrImageNeverPull"}, is: backends.ErrSpec},
		"bad image": {of: try{image: "UPPER::x"}, class: "image", text: []string{"InvalidImageName"}, is: backends.ErrSpec},
		"secret":    {of: try{config: pods.Config{Secrets: map[string]string{"HF_TOKEN": "nothere/HF_TOKEN"}}}, class: "spec", text: []string{`secret "nothere" not found`}, is: backends.ErrSpec},
		"mount":     {of: try{files: true}, beside: (*node).steal, class: "volume", text: []string{"FailedMount", "not found"}, is: backends.ErrSpec},
		"command":   {of: try{argv: []string{"/nothere"}}, class: "image", text: []string{"no such file or directory"}, is: backends.ErrSpec},
		"exit":      {of: try{argv: []string{"/app", "die", "0s"}}, text: []string{"exited with status 3"}, log: "CUDA error: out of memory"},
		"memory":    {of: try{argv: []string{"/app", "eat"}, config: pods.Config{Memory: "64Mi"}}, text: []string{"out of host memory"}, log: "eating"},
		"no cpus":   {of: try{config: pods.Config{CPU: 1000}}, beside: (*node).bind, class: "no_capacity", text: []string{"OutOfcpu", "requested: 1000000"}, is: backends.ErrCapacity},
		"no gpus":   {of: try{gpus: 9}, beside: (*node).bind, class: "no_capacity", text: []string{"OutOfnvidia.com/gpu", "requested: 9"}, is: backends.ErrCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "fail-" + strings.ReplaceAll(name, " ", "-")
			lab.deployable(t, ns, deployPlan)
			lab.fails(t, ns, f)
		})
	}
}

// fails launches a server in a namespace, and holds how it fails against a fate.
func (n *node) fails(t *testing.T, ns string, c fate) {
	t.Helper()
	c.of.ns = ns
	if c.labels != "" {
		key, value, _ := strings.Cut(c.labels, ": ")
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}})
		if err := n.send(http.MethodPatch, "/api/v1/namespaces/"+ns, "application/merge-patch+json", patch); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range c.before {
		n.apply(t, ns, m)
	}
	if len(c.before) > 0 {
		polltest.Until(t, "the quota is in force", func() bool {
			var q struct {
				Status struct{ Hard map[string]string }
			}
			return n.get("/api/v1/namespaces/"+ns+"/resourcequotas/q", &q) == nil && len(q.Status.Hard) > 0
		})
	}
	if c.beside != nil {
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		others.Go(func() { c.beside(n, ctx, ns) })
		defer others.Wait()
		defer stop()
	}
	begun := time.Now()
	d, log, err := n.serve(t, c.of)
	if err == nil { // it ran, and ends by itself
		select {
		case <-d.Done():
		case <-time.After(time.Minute):
		}
		err = d.Err()
	}
	took := time.Since(begun)
	f, failed := errors.AsType[*backends.Failure](err)
	_, exited := errors.AsType[*backends.Exit](err)
	switch {
	case err == nil:
		t.Fatal("no failure")
	case c.class == "" && !exited, c.class != "" && (!failed || f.Class != c.class || f.Hint == ""), c.is != nil && !errors.Is(err, c.is):
		t.Errorf("%#v: %v", err, err)
	}
	for _, want := range c.text {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if c.log != "" {
		polltest.Until(t, "the log is kept", func() bool {
			text, _ := os.ReadFile(log)
			return strings.Contains(string(text), c.log)
		})
	}
	t.Logf("after %.1f s: %v", took.Seconds(), err)
	if failed {
		t.Logf("%s: %s", f.Class, f.Hint)
		if !strings.Contains(f.Hint, c.hint) {
			t.Errorf("no %q in: %s", c.hint, f.Hint)
		}
	}
}

// bind gives pods that no node takes to the node, as a scheduler does that counts wrongly.
func (n *node) bind(ctx context.Context, ns string) {
	often := time.NewTicker(100 * time.Millisecond)
	defer often.Stop()
	for ctx.Err() == nil {
		var list struct {
			Items []struct {
				Metadata struct{ Name string }
				Status   struct {
					Conditions []struct{ Type, Status string }
				}
			}
		}
		path := "/api/v1/namespaces/" + ns + "/pods"
		_ = n.get(path+"?labelSelector=app.kubernetes.io/managed-by=sweep", &list)
		for _, p := range list.Items {
			if slices.Contains(p.Status.Conditions, struct{ Type, Status string }{"PodScheduled", "False"}) {
				_ = n.send(http.MethodPost, path+"/"+p.Metadata.Name+"/binding", "application/json",
					[]byte(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"`+p.Metadata.Name+`"},"target":{"apiVersion":"v1","kind":"Node","name":"node-0"}}`))
			}
		}
		select {
		case <-ctx.Done():
		case <-often.C:
		}
	}
}

// steal deletes the Secrets of a namespace as soon as they are there.
func (n *node) steal(ctx context.Context, ns string) {
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	for ctx.Err() == nil {
		<-often.C
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		path := "/api/v1/namespaces/" + ns + "/secrets"
		if n.get(path, &list) != nil {
			return
		}
		for _, item := range list.Items {
			_ = n.send(http.MethodDelete, path+"/"+item.Metadata.Name, "", nil)
		}
	}
}

// Who lacks a right is told which, before anything is made.
func TestDeploy_rights(t *testing.T) {
	t.Parallel()
	const ns = "rights"
	lab.namespace(t, ns)
	if err := lab.kubeconfig("nobody", nobodyToken); err != nil {
		t.Fatal(err)
	}
	b := pods.New(nil, pods.Place{Kind: "kubernetes", Namespace: ns, Cluster: kubeapi.Config{Kubeconfig: lab.file("nobody.kubeconfig")}}, pods.DefaultConfig())
	err := b.Probe(t.Context())
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "create jobs.batch (") || !strings.Contains(err.Error(), "get pods/log") {
		t.Error(err)
	}
	if _, _, err := lab.serve(t, try{ns: ns, user: "nobody"}); !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "nobody may not create jobs.batch in namespace rights") {
		t.Error(err)
	}
	lab.deployable(t, "rights-held", deployPlan)
	held := pods.New(nil, pods.Place{Kind: "kubernetes", Namespace: "rights-held", Cluster: kubeapi.Config{Kubeconfig: lab.file("deployer.kubeconfig")}}, pods.DefaultConfig())
	if err := held.Probe(t.Context()); err != nil {
		t.Errorf("with the shipped Role: %v", err)
	}
}

// A server that runs is taken away: the row has who did it, however quickly it was gone.
func TestDeploy_taken(t *testing.T) {
	t.Parallel()
	slot := []byte(`{"status":{"capacity":{"lab.test/slot":"1"},"allocatable":{"lab.test/slot":"1"}}}`)
	if err := lab.send(http.MethodPatch, "/api/v1/nodes/node-0/status", "application/merge-patch+json", slot); err != nil {
		t.Fatal(err)
	}
	lab.apply(t, "", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}`)
	for name, c := range map[string]struct {
		take  func(ns, pod string) error
		class string
	}{
		"evicted": {class: "evicted", take: func(ns, pod string) error {
			return lab.send(http.MethodPost, "/api/v1/namespaces/"+ns+"/pods/"+pod+"/eviction", "application/json",
				[]byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+pod+`","namespace":"`+ns+`"}}`))
		}},
		"preempted": {class: "preempted", take: func(ns, _ string) error {
			return lab.send(http.MethodPost, "/api/v1/namespaces/"+ns+"/pods", "application/json", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"vip"},"spec":{
				"priorityClassName":"high","dnsPolicy":"Default","terminationGracePeriodSeconds":1,"containers":[{"name":"app","image":"`+appImage+`","imagePullPolicy":"Never","resources":{"limits":{"lab.test/slot":"1"}}}]}}`))
		}},
		"deleted": {class: "deleted", take: func(ns, pod string) error {
			return lab.send(http.MethodDelete, "/api/v1/namespaces/"+ns+"/pods/"+pod, "", nil)
		}},
		"owner deleted": {class: "deleted", take: func(ns, pod string) error {
			return lab.send(http.MethodDelete, "/apis/batch/v1/namespaces/"+ns+"/jobs/"+pod+"?propagationPolicy=Background", "", nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "taken-" + strings.ReplaceAll(name, " ", "-")
			lab.deployable(t, ns, deployPlan)
			of := try{ns: ns}
			if name == "preempted" {
				of.gpus, of.config.GPUResource = 1, "lab.test/slot"
			}
			d, _, err := lab.serve(t, of)
			if err != nil {
				t.Fatal(err)
			}
			rental, _ := d.(backends.Rental)
			if err := c.take(ns, rental.Terms().Ref.Name); err != nil {
				t.Fatal(err)
			}
			select {
			case <-d.Done():
			case <-time.After(time.Minute):
			}
			err = d.Err()
			f, _ := errors.AsType[*backends.Failure](err)
			if f == nil || f.Class != c.class {
				t.Errorf("%v, want %s", err, c.class)
			}
			t.Log(err)
		})
	}
}

// While the API cannot be reached a server goes on, and its log lacks nothing afterwards.
func TestDeploy_apiDown(t *testing.T) {
	t.Parallel()
	const ns = "down"
	lab.deployable(t, ns, deployPlan)
	gate := newGate(t, strings.TrimPrefix(lab.server(), "https://"))
	text := strings.ReplaceAll(read(t, lab.file("deployer.kubeconfig")), lab.server(), "https://"+gate.addr)
	if err := os.WriteFile(lab.file("gated.kubeconfig"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, log, err := lab.serve(t, try{ns: ns, user: "gated"})
	if err != nil {
		t.Fatal(err)
	}
	lines := func() string { text, _ := os.ReadFile(log); return string(text) }
	polltest.Until(t, "the log begins", func() bool { return strings.Contains(lines(), "line 2\n") })
	gate.shut()
	begun := time.Now()
	polltest.Until(t, "30 seconds have passed", func() bool { return time.Since(begun) > 30*time.Second })
	if err := d.Err(); err != nil {
		t.Errorf("it ended: %v", err)
	}
	before := lines()
	gate.open()
	polltest.Until(t, "the log goes on", func() bool { return len(lines()) > len(before)+20 })
	for i, line := range strings.Split(strings.TrimSuffix(lines(), "\n"), "\n")[1:] {
		if line != fmt.Sprintf("line %d", i+1) {
			t.Fatalf("line %d of the log is %q", i+1, line)
		}
	}
	t.Logf("%d lines, none twice and none left out; %d were there when the API came back", strings.Count(lines(), "\n"), strings.Count(before, "\n"))
}

//go:build e2e_kube

package kube

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/pods"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

// tainted puts a taint on the node, or with "" takes all away.
func (n *node) tainted(t *testing.T, taint string) {
	t.Helper()
	if err := n.send(http.MethodPatch, "/api/v1/nodes/node-0", "application/merge-patch+json", []byte(`{"spec":{"taints":[`+taint+`]}}`)); err != nil {
		t.Fatal(err)
	}
}

// mayReadNodes lets the user who deploys read nodes.
func (n *node) mayReadNodes(t *testing.T) {
	t.Helper()
	n.apply(t, "", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: nodes}, rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: nodes},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: deployer}]}`)
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: n.file("deployer.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the right is in force", func() bool {
		var node map[string]any
		return api.Get(t.Context(), "/api/v1/nodes/node-0", &node) == nil
	})
}

// A node has a taint, is full, or is lost: all of it on the only node of a Kubernetes of
// its own, one after the other.
func TestNode(t *testing.T) {
	own := &node{room: 8, manager: []string{"--node-monitor-period=1s", "--node-monitor-grace-period=16s"}}
	t.Cleanup(func() {
		if err := own.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := own.start(); err != nil { // while no other test is at work
		t.Fatal(err)
	}
	t.Parallel()
	const noSchedule = `{"key":"dedicated","value":"llm","effect":"NoSchedule"}`
	soon := pods.Config{Pending: 2 * time.Second}

	t.Run("taint", func(t *testing.T) {
		const ns = "taint"
		own.deployable(t, ns, deployPlan)
		own.tainted(t, noSchedule)
		defer own.tainted(t, "")
		own.fails(t, ns, fate{of: try{config: soon}, class: "placement", text: []string{"untolerated taint"}, hint: "kubectl describe nodes shows: tolerations in backend.deploy", is: backends.ErrSpec})
		own.mayReadNodes(t)
		own.fails(t, ns, fate{
			of: try{config: soon}, class: "placement", text: []string{"node node-0 has the ", "the taint dedicated=llm:NoSchedule"},
			hint: `backend.deploy.tolerations: [{key: dedicated, value: "llm", effect: NoSchedule}]`, is: backends.ErrSpec,
		})
		other := soon
		other.NodeSelector = map[string]string{"pool": "none"}
		own.fails(t, ns, fate{of: try{config: other}, class: "placement", text: []string{"untolerated taint", "none of 1 nodes has the labels pool=none"}, hint: "node_selector", is: backends.ErrSpec})
		soon.Tolerations = []pods.Toleration{{Key: "dedicated", Value: "llm", Effect: "NoSchedule"}}
		if _, _, err := own.serve(t, try{ns: ns, config: soon}); err != nil {
			t.Errorf("tolerated: %v", err)
		}
	})
	t.Run("taint while it runs", func(t *testing.T) {
		const ns = "drain"
		own.deployable(t, ns, deployPlan)
		d, _, err := own.serve(t, try{ns: ns})
		if err != nil {
			t.Fatal(err)
		}
		own.tainted(t, `{"key":"maintenance","effect":"NoExecute"}`)
		defer own.tainted(t, "")
		select {
		case <-d.Done():
		case <-time.After(time.Minute):
		}
		err = d.Err()
		f, _ := errors.AsType[*backends.Failure](err)
		if f == nil || f.Class != "node" || !strings.Contains(err.Error(), "DeletionByTaintManager") || !strings.Contains(err.Error(), "node node-0 has the taint maintenance:NoExecute") {
			t.Fatalf("%#v: %v", f, err)
		}
		t.Logf("%v\n%s: %s", err, f.Class, f.Hint)
	})
	t.Run("pods", func(t *testing.T) {
		const ns = "full"
		own.deployable(t, ns, deployPlan)
		for i := range own.room {
			own.apply(t, ns, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {nodeName: node-0, dnsPolicy: Default, terminationGracePeriodSeconds: 1, containers: [{name: app, image: %q, imagePullPolicy: Never}]}}`, i, appImage))
		}
		defer own.cleared(t, ns)
		own.fails(t, ns, fate{of: try{config: pods.Config{Pending: 2 * time.Second}}, class: "no_capacity", text: []string{"Too many pods"}, is: backends.ErrCapacity})
		own.fails(t, ns, fate{beside: (*node).bind, class: "no_capacity", text: []string{"OutOfpods", fmt.Sprintf("requested: 1, used: %[1]d, capacity: %[1]d", own.room)}, hint: "run it again", is: backends.ErrCapacity})
	})
	t.Run("lost", func(t *testing.T) {
		deployed, manifested, later := stranded{ns: "lost", user: "deployer"}, stranded{ns: "lost-manifests", user: "reader"}, "lost-later"
		deployed.plan = own.deployable(t, deployed.ns, strings.NewReplacer("namespace: NAMESPACE,", "namespace: NAMESPACE, heartbeat: 15s,", "stop: 5s", "stop: 1m").Replace(deployPlan))
		manifested.plan = own.manifested(t, program(t), manifested.ns)
		withoutGPUs(t, manifested.plan, func(text string) string { return text })
		manifested.set = "matrix.manifest.Deployment/decode.spec.replicas=1"
		deployed.set = "matrix.concurrency=1"
		own.deployable(t, later, deployPlan)
		own.mayReadNodes(t)

		kubelet := own.process("kubelet")
		defer func() { _ = kubelet.Signal(syscall.SIGCONT) }()
		own.strand(t, &deployed, &manifested)
		deployed.said(t, "node node-0 is lost: Ready is Unknown: NodeStatusUnknown", "its node node-0 has not ended it")
		// Its router may take the pods out before, so that all requests fail.
		if strings.Contains(manifested.stderr.String(), "stack_changed") {
			manifested.said(t, "INVALID (stack_changed")
		} else {
			manifested.said(t, "the cluster does not hear from its node", "its node is node-0")
		}
		if left := own.made(t, deployed.ns); len(left) == 0 {
			t.Error("nothing is left, though nobody could end it")
		}
		// Nothing can start there, and that is not the plan's fault.
		own.fails(t, later, fate{of: try{config: pods.Config{Pending: 2 * time.Second}}, class: "node", text: []string{"node-0 has node.kubernetes.io/unreachable:NoSchedule", "Ready is Unknown"}, hint: "wait for them"})
		if err := kubelet.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		own.empty(t, later)
		polltest.Until(t, "the cluster has ended everything", func() bool { return len(own.made(t, deployed.ns)) == 0 && len(own.left(t, manifested.ns)) == 0 })
		t.Logf("empty %.1f s after the node was back", time.Since(back).Seconds())
	})
}

// A stranded run is at work on a node when that is lost.
type stranded struct {
	ns, user, plan, set string

	stderr strings.Builder
	code   int
}

// strand starts runs, stops the kubelet once all of them measure, and waits for their ends.
func (n *node) strand(t *testing.T, runs ...*stranded) {
	t.Helper()
	var measure, end sync.WaitGroup
	measure.Add(len(runs))
	for _, r := range runs {
		cmd := command(t, program(t), "run", "-o", filepath.Join(t.TempDir(), "run"), "--events", "-", "--set", "load.requests=1000000", "--set", r.set, r.plan)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+n.file(r.user+".kubeconfig"), "SWEEP_STATE_DIR="+t.TempDir())
		cmd.Stderr = &r.stderr
		end.Go(func() {
			once := sync.OnceFunc(measure.Done)
			defer once()
			_ = listen(t, cmd, func(event string) { // its exit code is looked at
				if strings.Contains(event, `"trial_progress"`) {
					once()
				}
			})
			r.code = cmd.ProcessState.ExitCode()
		})
	}
	measure.Wait()
	stopped := time.Now()
	if err := n.process("kubelet").Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	end.Wait()
	t.Logf("%.1f s after the kubelet was stopped", time.Since(stopped).Seconds())
}

// said holds a run against what it must have said: nobody has seen the end of its pods.
func (r *stranded) said(t *testing.T, all ...string) {
	t.Helper()
	t.Logf("%s: exit %d\n%s", r.ns, r.code, r.stderr.String())
	if r.code != 4 {
		t.Errorf("%s: exit %d, want 4", r.ns, r.code)
	}
	for _, want := range all {
		if !strings.Contains(r.stderr.String(), want) {
			t.Errorf("%s: no %q", r.ns, want)
		}
	}
}

// cleared deletes the pods of a namespace, and waits until they are gone.
func (n *node) cleared(t *testing.T, ns string) {
	t.Helper()
	path := "/api/v1/namespaces/" + ns + "/pods"
	if err := n.send(http.MethodDelete, path, "", nil); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the pods are gone", func() bool {
		var list struct{ Items []any }
		return n.get(path, &list) == nil && len(list.Items) == 0
	})
}

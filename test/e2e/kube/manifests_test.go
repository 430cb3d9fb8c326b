//go:build e2e_kube

package kube

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
)

const manifestsPlan = `version: 1
name: manifests
model: sweep/tiny
matrix:
  engine: llm-d
  concurrency: 2
  max_tokens: 16
  manifest.Deployment/decode.spec.replicas: [1, 2]
backend: {kind: kubernetes, namespace: NAMESPACE, manifests: [stack.yaml], attach: inferencepool/pd, url: "http://GATEWAY", heartbeat: 20s}
load: {requests: 40, prompts: {input_tokens: 64}}
collect: [prom]
timeouts: {launch: 2m}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// sources are the kinds of the manifests.
var sources = []string{"Deployment", "Pod", "Service", "InferencePool", "Gateway", "HTTPRoute"}

// left returns the objects of a namespace of the kinds of the manifests, and Jobs.
func (n *node) left(t *testing.T, ns string) (names []string) {
	t.Helper()
	all := []string{"/apis/batch/v1/namespaces/" + ns + "/jobs"}
	for _, kind := range sources {
		all = append(all, fmt.Sprintf(paths[kind], ns))
	}
	for _, path := range all {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := n.get(path, &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			names = append(names, path[strings.LastIndex(path, "/")+1:]+"/"+item.Metadata.Name)
		}
	}
	return names
}

// service listens on an address of the node and leads to the ready pods with a label, one
// after another, as a Service does in a cluster with a proxy for it.
func (n *node) service(t *testing.T, ns, app string, port int) (addr string) {
	t.Helper()
	var next atomic.Int64
	return carry(t, n.network+".1:0", func() string {
		ips := n.readyPods(ns, app)
		if len(ips) == 0 {
			return ""
		}
		return net.JoinHostPort(ips[int(next.Add(1))%len(ips)], strconv.Itoa(port))
	})
}

func (n *node) readyPods(ns, app string) (ips []string) {
	var list struct {
		Items []struct {
			Status struct {
				PodIP      string
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if n.get("/api/v1/namespaces/"+ns+"/pods?labelSelector=app%3D"+app, &list) != nil {
		return nil
	}
	for _, p := range list.Items {
		if slices.ContainsFunc(p.Status.Conditions, func(c struct{ Type, Status string }) bool { return c.Type == "Ready" && c.Status == "True" }) {
			ips = append(ips, p.Status.PodIP)
		}
	}
	return ips
}

// by runs sweep as the user of the tests of manifests, on a machine of its own.
func (n *node) by(t *testing.T, sweep, machine string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	text := strings.Replace(read(t, n.file("reader.kubeconfig")), "user: reader}", "user: reader, namespace: "+machine+"}", 1)
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ran(t, sweep, []string{"KUBECONFIG=" + config, "XDG_STATE_HOME=" + t.TempDir()}, args...)
}

// served waits until the kinds of CRDs that were just made are served, and can be found.
func (n *node) served(t *testing.T) {
	t.Helper()
	for _, kind := range sources {
		path := paths[kind]
		api, _, _ := strings.Cut(path, "/namespaces/")
		polltest.Until(t, kind+" is served", func() bool {
			var list struct{ Resources []struct{ Kind string } }
			return n.get(fmt.Sprintf(path, "default"), nil) == nil && n.get(api, &list) == nil &&
				slices.ContainsFunc(list.Resources, func(r struct{ Kind string }) bool { return r.Kind == kind })
		})
	}
}

// manifested writes the plan and its manifests for a namespace.
func (n *node) manifested(t *testing.T, sweep, ns string) (plan string) {
	t.Helper()
	n.crds(t)
	n.served(t)
	if err := n.kubeconfig("reader", readerToken); err != nil {
		t.Fatal(err)
	}
	n.namespace(t, ns)
	text := read(t, "testdata/manifests.yaml")
	gateway := n.service(t, ns, "gateway", 8081)
	for word, to := range map[string]string{"PREFILL": n.service(t, ns, "prefill", 8000), "DECODE": n.service(t, ns, "decode", 8000), "EPP": n.service(t, ns, "pd-epp", 9090)} {
		text = strings.ReplaceAll(text, "//"+word, "//"+to)
	}
	dir := t.TempDir()
	plan = filepath.Join(dir, "plan.yaml")
	for file, text := range map[string]string{"stack.yaml": text, "plan.yaml": strings.NewReplacer("NAMESPACE", ns, "GATEWAY", gateway).Replace(manifestsPlan)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	role, stderr, code := n.as(t, sweep, "reader", "probe", "--kube", ns, "--print-role", "--manifests", filepath.Join(dir, "stack.yaml"))
	if code != 0 {
		t.Fatalf("--print-role: exit %d: %s", code, stderr)
	}
	n.apply(t, ns, role)
	n.apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: sweep},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweep-manifests}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: reader}]}`)
	return plan
}

// unspoilt runs sweep as [node.by] does, and resumes the run at out, three times at most, for
// trials that failed or are INVALID: requests may fail on a busy node.
func (n *node) unspoilt(t *testing.T, sweep, ns, out string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	stdout, stderr, code = n.by(t, sweep, ns, args...)
	for again := 0; again < 3 && code == 3 && len(n.left(t, ns)) == 0; again++ {
		t.Logf("exit %d: measured again\n%s", code, stdout)
		stdout, stderr, code = n.by(t, sweep, ns, "resume", "--retry", "invalid,failed", out)
	}
	return stdout, stderr, code
}

// A user's own manifests are made for each value of an axis, measured and deleted, by a
// user with no more rights than that takes.
func TestManifests(t *testing.T) {
	t.Parallel()
	sweep := program(t)
	const ns = "manifests"
	plan := lab.manifested(t, sweep, ns)
	dir := t.TempDir()
	stack := filepath.Join(filepath.Dir(plan), "stack.yaml")
	original := read(t, stack)

	t.Run("refused", func(t *testing.T) {
		refused := func(code int, want string, args ...string) {
			t.Helper()
			_, stderr, got := lab.by(t, sweep, ns, append([]string{"run", "-o", filepath.Join(t.TempDir(), "refused"), plan}, args...)...)
			if got != code || !strings.Contains(stderr, want) {
				t.Errorf("exit %d, want %d and %q\n%s", got, code, want, stderr)
			}
			if left := lab.left(t, ns); len(left) > 0 {
				t.Errorf("made all the same: %v", left)
			}
		}
		with := func(more string) {
			t.Helper()
			if err := os.WriteFile(stack, []byte(original+more), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		defer with("")
		refused(2, `Deployment/decode has no spec.replcas; did you mean "manifest.Deployment/decode.spec.replicas"?`, "--set", "matrix.manifest.Deployment/decode.spec.replcas=[1]")
		with("---\n{apiVersion: v1, kind: Namespace, metadata: {name: other}}\n")
		refused(3, "Namespace/other belongs to the whole cluster")
		with("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: notes}}\n")
		refused(8, "may not create configmaps, get configmaps in namespace manifests")
		with("---\n{apiVersion: apps/v1, kind: Deploymnt, metadata: {name: x}}\n")
		refused(3, "did you mean Deployment?")
		with("---\n{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {portz: 1, ports: [{port: 80}]}}\n")
		refused(3, `unknown field "spec.portz"`, "--set", "matrix.manifest.Deployment/decode.spec.replicas=1")
	})
	t.Run("foreign", func(t *testing.T) {
		lab.apply(t, ns, `{apiVersion: v1, kind: Service, metadata: {name: pd-epp}, spec: {selector: {of: somebody}, ports: [{port: 1}]}}`)
		before := lab.everything(t, ns)
		_, stderr, code := lab.by(t, sweep, ns, "run", "-o", filepath.Join(dir, "foreign"), plan, "--set", "matrix.manifest.Deployment/decode.spec.replicas=1")
		if code != 3 || !strings.Contains(stderr, "Service/pd-epp is in namespace manifests already, and sweep did not make it") {
			t.Errorf("exit %d: %s", code, stderr)
		}
		if after := lab.everything(t, ns); after != before {
			t.Errorf("it was touched:\n%s\n%s", before, after)
		}
		if err := lab.send(http.MethodDelete, "/api/v1/namespaces/"+ns+"/services/pd-epp", "", nil); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("valid", func(t *testing.T) {
		out := filepath.Join(dir, "valid")
		stdout, stderr, code := lab.unspoilt(t, sweep, ns, out, "run", "-o", out, plan)
		if code != 0 {
			t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
		}
		all := rows(t, out)
		if len(all) != 2 {
			t.Fatalf("%d rows", len(all))
		}
		for i, row := range all {
			if row["start_up_s"] == nil {
				t.Errorf("row %d: its servers are not of a launch", i)
			}
			for column, want := range map[string]any{
				"status": result.StatusOK, "pd": "proven", "manifest_deployment_decode_spec_replicas": int64(i + 1),
				"decode_pods": int64(i + 1), "prefill_pods": int64(1), "pods": int64(i + 4), "gpu_count": int64(i + 2), "network_path": "direct",
			} {
				if row[column] != want {
					t.Errorf("row %d: %s is %v, want %v (%v, %v)", i, column, row[column], want, row["invalid_reasons"], row["error"])
				}
			}
		}
		if left := lab.left(t, ns); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
}

// What never becomes ready ends the launch at once with what its pod says, and leaves
// nothing.
func TestManifests_neverReady(t *testing.T) {
	t.Parallel()
	sweep := program(t)
	for ns, c := range map[string]struct {
		edit func(text string) string
		want []string
	}{
		"never": {func(text string) string {
			return strings.Replace(text, "image: "+appImage, "image: lab.test/none:1", 1)
		}, []string{"did not start: image: ", "container modelserver of pod prefill-", "ErrImageNeverPull", "imagePullPolicy in the manifest"}},
		"never-mounted": {func(text string) string {
			text = strings.Replace(text, "      dnsPolicy: Default\n", "      dnsPolicy: Default\n      volumes: [{name: v, secret: {secretName: nothere}}]\n", 1)
			return strings.Replace(text, "          imagePullPolicy: Never\n", "          imagePullPolicy: Never\n          volumeMounts: [{name: v, mountPath: /v}]\n", 1)
		}, []string{"did not start: volume: ", "pod prefill-", `secret "nothere" not found`, "volumes in the manifest"}},
		// A pod that names its node is seen by no scheduler, and refused by the kubelet.
		"never-bound": {func(text string) string {
			text = strings.Replace(text, "spec:\n  terminationGracePeriodSeconds: 1\n", "spec:\n  nodeName: node-0\n  terminationGracePeriodSeconds: 1\n", 1)
			return strings.Replace(text, "{name: envoy, ", `{name: envoy, resources: {requests: {cpu: "1000"}}, `, 1)
		}, []string{"did not start: no_capacity: ", "pod gateway: OutOfcpu", "requested: 1000000"}},
	} {
		t.Run(ns, func(t *testing.T) {
			t.Parallel()
			plan := lab.manifested(t, sweep, ns)
			withoutGPUs(t, plan, c.edit)
			lab.neverReady(t, sweep, ns, plan, c.want)
		})
	}
}

// A quota without room holds the launch back until timeouts.launch, and is its class.
func TestManifests_quota(t *testing.T) {
	t.Parallel()
	const ns = "manifests-quota"
	sweep := program(t)
	plan := lab.manifested(t, sweep, ns)
	lab.apply(t, ns, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {requests.nvidia.com/gpu: "0"}}}`)
	lab.neverReady(t, sweep, ns, plan, []string{"did not start: quota: ", "exceeded quota: q", "wait longer with timeouts.launch"}, "--set", "timeouts.launch=20s")
}

// neverReady runs a plan whose manifests are never ready, which leaves nothing.
func (n *node) neverReady(t *testing.T, sweep, ns, plan string, wants []string, args ...string) {
	t.Helper()
	begun := time.Now()
	_, stderr, code := n.by(t, sweep, ns, append([]string{"run", "-o", filepath.Join(t.TempDir(), "run"), plan, "--set", "matrix.manifest.Deployment/decode.spec.replicas=1"}, args...)...)
	t.Logf("after %.1f s:\n%s", time.Since(begun).Seconds(), stderr)
	for _, want := range wants {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q", want)
		}
	}
	if left := n.left(t, ns); code != 3 || len(left) > 0 {
		t.Errorf("exit %d, left are %v", code, left)
	}
}

// withoutGPUs edits the manifests of a plan, so that they want none of the node's GPUs.
func withoutGPUs(t *testing.T, plan string, edit func(string) string) {
	t.Helper()
	stack := filepath.Join(filepath.Dir(plan), "stack.yaml")
	text := strings.ReplaceAll(read(t, stack), `resources: {limits: {nvidia.com/gpu: "1"}}`, "")
	if err := os.WriteFile(stack, []byte(edit(text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whenever sweep is killed, the cluster takes along what it has made once the last
// heartbeat is old. sweep gc on another machine does so at once, and so does sweep resume, which completes the
// run with the manifests that it kept.
func TestManifests_killed(t *testing.T) {
	t.Parallel()
	sweep := program(t)
	const ns = "manifests-killed"
	plan := lab.manifested(t, sweep, ns)
	withoutGPUs(t, plan, func(text string) string { return text })
	kill := func(fault, heartbeat string) (out string) {
		t.Helper()
		out = filepath.Join(t.TempDir(), "run")
		cmd := command(t, sweep, "run", "-o", out, "--events", "-", "--set", "matrix.manifest.Deployment/decode.spec.replicas=1", "--set", "backend.heartbeat="+heartbeat, plan)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.file("reader.kubeconfig"), "XDG_STATE_HOME="+t.TempDir(), "SWEEP_FAULT="+fault)
		err := listen(t, cmd, func(event string) {
			if fault == "" && strings.Contains(event, `"trial_started"`) {
				_ = cmd.Process.Kill()
			}
		})
		if err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("%q: sweep was not killed: %v", fault, err)
		}
		return out
	}
	for fault, most := range map[string]int{"kube.create:after:kill@1": 1, "": 20} {
		kill(fault, "15s")
		if n := len(lab.left(t, ns)); n == 0 || n > most || most > 1 && n < len(sources) {
			t.Errorf("%q: %d objects are there", fault, n)
		}
		begun := time.Now()
		polltest.Until(t, "the cluster has ended everything", func() bool { return len(lab.left(t, ns)) == 0 })
		t.Logf("%q: everything is gone after %.1f s", fault, time.Since(begun).Seconds())
	}
	kill("kube.create:after:kill@5", "10m")
	// Before its expiry time another machine must name the run, which may be at work.
	job := slices.IndexFunc(lab.left(t, ns), func(name string) bool { return strings.HasPrefix(name, "jobs/") })
	name, ok := backends.ParseName(strings.TrimPrefix(lab.left(t, ns)[max(job, 0)], "jobs/"))
	if !ok {
		t.Fatalf("no owner in %v", lab.left(t, ns))
	}
	stdout, stderr, code := lab.by(t, sweep, ns, "gc", "--yes", "--run", name.Run)
	if left := lab.left(t, ns); code != 0 || len(left) > 0 || !strings.Contains(stdout, "gone   kubernetes") {
		t.Errorf("gc: exit %d, left are %v\n%s%s", code, left, stdout, stderr)
	}
	out := kill("kube.create:after:kill@8", "10m")
	if err := os.Remove(filepath.Join(filepath.Dir(plan), "stack.yaml")); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code = lab.unspoilt(t, sweep, ns, out, "resume", out)
	if left := lab.left(t, ns); code != 0 || len(left) > 0 {
		t.Fatalf("resume: exit %d, left are %v\n%s%s", code, left, stdout, stderr)
	}
	for _, row := range rows(t, out) {
		launch, _ := row["launch"].(int64)
		if row["status"] != result.StatusOK || row["pd"] != "proven" || launch < 2 {
			t.Errorf("resumed: %v, pd %v, launch %v: %v %v", row["status"], row["pd"], row["launch"], row["invalid_reasons"], row["error"])
		}
	}
}

//go:build e2e_kube

package kube

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

const attachPlan = `version: 1
name: attach
model: sweep/tiny
matrix: {engine: llm-d, concurrency: [1, 2], max_tokens: 16}
backend: {kind: kubernetes, namespace: attach, attach: inferencepool/pd}
load: {requests: 40, prompts: {input_tokens: 64}}
collect: [prom]
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// A user with the shipped Role alone measures a stack that runs: its rows are VALID and
// have figures of each role. One whose pods change under the load is INVALID, and so is
// one that is reached through a tunnel.
func TestAttach(t *testing.T) {
	sweep := program(t)
	lab.crds(t)
	if err := lab.kubeconfig("reader", readerToken); err != nil {
		t.Fatal(err)
	}
	const ns = "attach"
	lab.namespace(t, ns)
	lab.mayRead(t, sweep, ns)
	gateway := lab.attachable(t, ns, "testdata/attach.yaml", map[string]string{"PREFILL": "prefill-0", "DECODE": "decode-0", "EPP": "pd-epp"})
	dir := t.TempDir()
	plan := filepath.Join(dir, "attach.yaml")
	if err := os.WriteFile(plan, []byte(attachPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, code int, args ...string) []result.Row {
		t.Helper()
		out := filepath.Join(dir, name)
		stdout, stderr, got := lab.as(t, sweep, "reader", append([]string{"run", "-o", out, plan}, args...)...)
		if got != code {
			t.Fatalf("%s: exit %d, want %d\n%s%s", name, got, code, stdout, stderr)
		}
		return rows(t, out)
	}

	t.Run("valid", func(t *testing.T) {
		before := lab.everything(t, ns)
		for _, row := range run("valid", 0) {
			if row["status"] != result.StatusOK {
				t.Errorf("%v: %v, %v", row["status"], row["invalid_reasons"], row["error"])
			}
			for column, want := range map[string]any{
				"pd": "proven", "pd_share": 1.0, "kv_transfer_tokens": row["input_tokens"],
				"pods": int64(5), "pod_restarts": int64(0), "decode_pods": int64(2), "gpu_count": int64(3), "network_path": "direct",
				// Each role saw each request, those of the load's end too.
				"prefill_server_requests": row["decode_server_requests"], "epp_server_requests": row["decode_server_requests"],
			} {
				if row[column] != want {
					t.Errorf("%s is %v, want %v", column, row[column], want)
				}
			}
			for _, column := range []string{"engine_version", "subject_digest", "decode_server_requests", "decode_mean_server_itl_ms"} {
				if row[column] == nil {
					t.Errorf("%s is null", column)
				}
			}
		}
		if after := lab.everything(t, ns); after != before {
			t.Errorf("the cluster was changed:\n%s\n%s", before, after)
		}
	})
	t.Run("tunnelled", func(t *testing.T) {
		for _, row := range run("tunnelled", 3, "--set", "matrix.concurrency=1", "--set", "backend.url=http://"+forward(t, gateway)) {
			if row["status"] != result.StatusInvalid || row["invalid_reasons"] != "tunnelled" || row["network_path"] != "tunnel" {
				t.Errorf("%v: %v by %v", row["status"], row["invalid_reasons"], row["network_path"])
			}
		}
	})
	t.Run("changed", func(t *testing.T) {
		out := filepath.Join(dir, "changed")
		cmd := command(t, sweep, "run", "-o", out, "--events", "-", "--set", "matrix.concurrency=1", "--set", "load.requests=300", plan)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.file("reader.kubeconfig"))
		deleted := false
		_ = listen(t, cmd, func(event string) { // its rows say how it ended
			if !deleted && strings.Contains(event, `"trial_progress"`) {
				deleted = true
				if err := lab.send(http.MethodDelete, "/api/v1/namespaces/"+ns+"/pods/decode-1", "", nil); err != nil {
					t.Error(err)
				}
			}
		})
		for _, row := range rows(t, out) {
			if reasons, _ := row["invalid_reasons"].(string); !deleted || row["status"] != result.StatusInvalid || !slices.Contains(strings.Split(reasons, ","), "stack_changed") {
				t.Errorf("%v: %v %v", row["status"], row["invalid_reasons"], row["error"])
			}
		}
	})
	// The router prefills on the decode server if it has no other, and answers 200.
	t.Run("silent prefill", func(t *testing.T) {
		if err := lab.send(http.MethodDelete, "/api/v1/namespaces/"+ns+"/pods/prefill-0", "", nil); err != nil {
			t.Fatal(err)
		}
		polltest.Until(t, "prefill-0 is gone", func() bool { return lab.get("/api/v1/namespaces/"+ns+"/pods/prefill-0", nil) != nil })
		// At another address, which the router does not know.
		first, _, _ := strings.Cut(read(t, "testdata/attach.yaml"), "\n---")
		lab.apply(t, ns, strings.ReplaceAll(first, "prefill-0", "prefill-1"))
		at := lab.address(t, ns, "prefill-1")
		polltest.Until(t, "prefill-1 answers", func() bool { return answers("http://" + at + ":8000/metrics") })
		for _, row := range run("silent", 3, "--set", "matrix.concurrency=1") {
			reasons, _ := row["invalid_reasons"].(string)
			if row["status"] != result.StatusInvalid || !slices.Contains(strings.Split(reasons, ","), "pd_absent") || row["pd"] != "absent" {
				t.Errorf("%v: %v, pd %v: %v", row["status"], row["invalid_reasons"], row["pd"], row["error"])
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		if err := lab.kubeconfig("nobody", nobodyToken); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := lab.as(t, sweep, "nobody", "run", "-o", filepath.Join(dir, "refused"), plan)
		if code != 8 || !strings.Contains(stderr, "nobody may not list pods in namespace attach") {
			t.Errorf("exit %d: %s", code, stderr)
		}
	})
}

// mayRead binds the shipped Role to the user reader.
func (n *node) mayRead(t *testing.T, sweep, ns string) {
	t.Helper()
	role, stderr, code := n.as(t, sweep, "reader", "probe", "--kube", ns, "--print-role")
	if code != 0 {
		t.Fatalf("--print-role: exit %d: %s", code, stderr)
	}
	n.apply(t, ns, role)
	n.apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: sweep},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweep-attach}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: reader}]}`)
}

// attachable makes the stack of a file, in which words stand for the addresses of pods, and
// returns the address of its gateway once all of it is ready.
func (n *node) attachable(t *testing.T, ns, file string, names map[string]string) (gateway string) {
	t.Helper()
	for text := range strings.SplitSeq(read(t, file), "\n---") {
		for word, pod := range names {
			if strings.Contains(text, "//"+word+":") {
				text = strings.ReplaceAll(text, "//"+word+":", "//"+n.address(t, ns, pod)+":")
			}
		}
		n.apply(t, ns, text)
	}
	gateway = n.address(t, ns, "gateway")
	if err := n.send(http.MethodPatch, "/apis/gateway.networking.k8s.io/v1/namespaces/"+ns+"/gateways/inference-gateway/status", "application/merge-patch+json",
		[]byte(`{"status":{"addresses":[{"type":"IPAddress","value":"`+gateway+`"}]}}`)); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the gateway answers", func() bool { return answers("http://" + gateway + ":8081/v1/models") })
	return gateway + ":8081"
}

func answers(url string) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// address returns the IP of a pod, once it runs.
func (n *node) address(t *testing.T, ns, pod string) (ip string) {
	t.Helper()
	polltest.Until(t, pod+" runs", func() bool {
		var p struct{ Status struct{ PodIP, Phase string } }
		if n.get("/api/v1/namespaces/"+ns+"/pods/"+pod, &p) != nil || p.Status.Phase != "Running" {
			return false
		}
		ip = p.Status.PodIP
		return ip != ""
	})
	return ip
}

// everything returns the names and versions of what is in a namespace.
func (n *node) everything(t *testing.T, ns string) string {
	t.Helper()
	var all []string
	for _, path := range []string{
		"/api/v1/namespaces/%s/pods", "/api/v1/namespaces/%s/services", "/api/v1/namespaces/%s/configmaps", "/api/v1/namespaces/%s/secrets",
		"/apis/batch/v1/namespaces/%s/jobs", "/apis/inference.networking.k8s.io/v1/namespaces/%s/inferencepools",
	} {
		var list struct {
			Items []struct {
				Metadata struct{ Name, Generation, UID json.RawMessage }
			}
		}
		if err := n.get(strings.ReplaceAll(path, "%s", ns), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			all = append(all, string(item.Metadata.Name)+string(item.Metadata.Generation)+string(item.Metadata.UID))
		}
	}
	return strings.Join(all, "\n")
}

// forward carries connections of this machine to an address, as a port-forward does.
func forward(t *testing.T, to string) (addr string) {
	t.Helper()
	return carry(t, "127.0.0.1:0", func() string { return to })
}

// carry listens on an address and carries each connection to where to says at that moment;
// "" is nowhere.
func carry(t *testing.T, listen string, to func() string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				at := to()
				if at == "" {
					return
				}
				far, err := net.Dial("tcp", at)
				if err != nil {
					return
				}
				defer far.Close()
				go func() { _, _ = io.Copy(far, c); _ = far.(*net.TCPConn).CloseWrite() }()
				_, _ = io.Copy(c, far)
			}()
		}
	}()
	return l.Addr().String()
}

// rows returns those of a run.
func rows(t *testing.T, out string) []result.Row {
	t.Helper()
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Rows()) == 0 {
		t.Fatal("the run has no row")
	}
	return run.Rows()
}

//go:build e2e_kube

package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store"
)

const disaggPlan = `version: 1
name: disagg
model: sweep/tiny
matrix: {engine: llm-d, concurrency: 2, max_tokens: 16}
repeats: 1
retries: 0
backend: {kind: kubernetes, namespace: disagg, attach: inferencepool/pd}
load: {requests: 20, prompts: {input_tokens: 64}}
collect: [prom]
validity: {max_error_rate: 1, max_moved: 1000, max_steal: 1, max_drift: 100}
`

// A run keeps the logs of every container of a stack, knows by them which pods each request
// went to, and moves a KV cache over each pair of pods before the load: again after a
// restart, and without a word of the logs as far as it can.
func TestDisagg(t *testing.T) {
	sweep := program(t)
	lab.crds(t)
	for user, token := range map[string]string{"reader": readerToken, "lister": listerToken} {
		if err := lab.kubeconfig(user, token); err != nil {
			t.Fatal(err)
		}
	}
	const ns = "disagg"
	lab.namespace(t, ns)
	lab.mayRead(t, sweep, ns)
	lab.mayList(t, sweep, ns)
	lab.attachable(t, ns, "testdata/disagg.yaml", map[string]string{"P0": "prefill-0", "D0": "decode-0", "D1": "decode-1", "EPP": "pd-epp"})
	dir := t.TempDir()
	plan := filepath.Join(dir, "disagg.yaml")
	if err := os.WriteFile(plan, []byte(disaggPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	// run runs the plan and returns its run directory and its notices of the warm-up over
	// pairs. It calls during with each event.
	run := func(user, name string, during func(event string), args ...string) (out string, pairs []string) {
		t.Helper()
		out = filepath.Join(dir, name)
		return out, lab.measured(t, user, out, plan, during, args...)
	}

	t.Run("told", func(t *testing.T) {
		out, pairs := run("reader", "told", nil)
		row := rows(t, out)[0]
		findings, _ := row["findings"].(string)
		if row["status"] != result.StatusOK || strings.Contains(findings, "pairs") || strings.Contains(findings, "routing") || strings.Contains(findings, "logs") {
			t.Errorf("%v, findings %s: %v", row["status"], findings, row["invalid_reasons"])
		}
		if len(pairs) != 1 || !strings.Contains(pairs[0], "at most 4 completions of 1024 prompt tokens") {
			t.Errorf("notices %q", pairs)
		}
		a := attempt(t, out, "t01")
		for file, want := range map[string]string{
			"router.pd-epp.epp.log": "LLM request assembled", "prefill.prefill-0.modelserver.log": "Finished sending KV transfer",
			"decode.decode-0.routing-proxy.log": "sending prefill request", "decode.decode-0.modelserver.log": "Finished recving KV transfer",
			"decode.decode-1.routing-proxy.log": "sending request to decoder", "decode.decode-1.modelserver.log": "start_load_kv",
		} {
			if text := read(t, filepath.Join(a, "logs", file)); !strings.Contains(text, want) {
				t.Errorf("%s has no %q:\n%.2000s", file, want, text)
			}
		}
		var routing struct {
			Requests  map[string]map[string]string
			Unprinted []any `json:"not_printed"`
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(a, "routing.json"))), &routing); err != nil || len(routing.Unprinted) > 0 {
			t.Errorf("routing.json: %v, not printed: %v", err, routing.Unprinted)
		}
		used := map[string]int{}
		for _, r := range requests(t, a) {
			if r.Status != result.Completed {
				continue
			}
			if r.Way == nil {
				t.Fatalf("request %d has no way", r.N)
			}
			used[r.Way.Decode]++
			if w := *r.Way; w.Prefill != "prefill-0" || w.PickedPrefill != w.Prefill || w.PickedDecode != w.Decode || w.Decision != result.PrefillDecode {
				t.Errorf("request %d: %+v", r.N, w)
			}
		}
		if used["decode-0"] == 0 || used["decode-1"] == 0 || len(used) != 2 {
			t.Errorf("decode servers %v", used)
		}
		for id, way := range routing.Requests {
			stdout, _, code := lab.as(t, sweep, "reader", "logs", "--timeline", "--request", id, filepath.Join(a, "logs"))
			if code != 0 || !strings.Contains(stdout, way["decode"]+"/modelserver") || !strings.Contains(stdout, "Finished sending") {
				t.Errorf("timeline of %s: exit %d\n%s", id, code, stdout)
			}
			t.Log("\n" + stdout)
			break
		}
	})
	t.Run("untold", func(t *testing.T) {
		out, pairs := run("lister", "untold", nil)
		row := rows(t, out)[0]
		findings, _ := row["findings"].(string)
		for _, want := range []string{"logs_unread", "pd_pairs_unknown", "routing_unknown"} {
			if !strings.Contains(findings, want) {
				t.Errorf("no %s in %s", want, findings)
			}
		}
		if row["status"] != result.StatusOK || row["pd"] != "proven" || len(pairs) != 1 {
			t.Errorf("%v, pd %v, %d notices", row["status"], row["pd"], len(pairs))
		}
	})
	t.Run("restarted", func(t *testing.T) {
		killed := false
		out, pairs := run("reader", "restarted", func(event string) {
			if !killed && strings.Contains(event, `"trial_progress"`) {
				killed = true
				lab.kill(t, ns, "decode-1", "modelserver")
			}
		}, "--set", "repeats=2", "--set", "load.requests=300", "--set", "matrix.max_tokens=200")
		if !killed || len(pairs) != 2 {
			t.Errorf("killed: %v, notices of pairs: %q", killed, pairs)
		}
		previous, err := filepath.Glob(filepath.Join(out, "cells", "*", "t0*", "a01", "logs", "decode.decode-1.modelserver.previous-0.log"))
		if err != nil || len(previous) != 1 {
			t.Fatalf("the log of the container that was killed: %v, %v", previous, err)
		}
		if text := read(t, previous[0]); !strings.Contains(text, "Application startup complete") {
			t.Errorf("%s is\n%.1000s", previous[0], text)
		}
	})
}

// mayList binds the shipped Role without its right to read logs to the user lister.
func (n *node) mayList(t *testing.T, sweep, ns string) {
	t.Helper()
	role, _, _ := n.as(t, sweep, "reader", "probe", "--kube", ns, "--print-role")
	n.apply(t, ns, strings.Replace(strings.Replace(role, "name: sweep-attach", "name: lister", 1), "[pods/log]", "[pods/none]", 1))
	n.apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: lister},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lister}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: lister}]}`)
}

// measured runs a plan into a run directory, whose rows say how it ended, and returns its
// notices of the warm-up over pairs. It calls during with each event.
func (n *node) measured(t *testing.T, user, out, plan string, during func(event string), args ...string) (pairs []string) {
	t.Helper()
	cmd := command(t, n.file("sweep"), append([]string{"run", "-o", out, "--events", "-", plan}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.file(user+".kubeconfig"))
	cmd.Stderr = os.Stderr
	_ = listen(t, cmd, func(event string) { // the rows say how it ended
		if strings.Contains(event, "a KV cache over") {
			pairs = append(pairs, event)
		}
		if during != nil {
			during(event)
		}
	})
	return pairs
}

// attempt returns the folder of the attempt at a trial.
func attempt(t *testing.T, out, trial string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(out, "cells", "*", trial, "a01"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has the attempts %v", out, found)
	}
	return found[0]
}

// requests returns those of an attempt.
func requests(t *testing.T, attempt string) (list []store.Request) {
	t.Helper()
	f, err := os.Open(filepath.Join(attempt, "requests.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range store.ReadRequests(f, st.Size()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// kill ends the process of a container, and waits until another one runs.
func (n *node) kill(t *testing.T, ns, pod, container string) {
	t.Helper()
	type status struct {
		Name, ContainerID string
		RestartCount      int
		Ready             bool
	}
	look := func() (s status) {
		var p struct {
			Status struct{ ContainerStatuses []status }
		}
		if err := n.get("/api/v1/namespaces/"+ns+"/pods/"+pod, &p); err != nil {
			t.Error(err)
		}
		for _, one := range p.Status.ContainerStatuses {
			if one.Name == container {
				s = one
			}
		}
		return s
	}
	before := look()
	tasks, err := n.ctrOutput("tasks", "ls")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(tasks) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasSuffix(before.ContainerID, "//"+fields[0]) {
			continue
		}
		pid, err := strconv.Atoi(fields[1])
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Error(err)
		}
	}
	polltest.Until(t, container+" of "+pod+" was restarted", func() bool {
		now := look()
		return now.RestartCount > before.RestartCount && now.Ready
	})
}

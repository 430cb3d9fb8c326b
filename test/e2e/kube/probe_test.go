//go:build e2e_kube

package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/polltest"
)

// program is sweep as it was built for the image.
func program(*testing.T) string { return lab.file("sweep") }

// as runs sweep as a user of the cluster.
func (n *node) as(t *testing.T, program, user string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return ran(t, program, []string{"KUBECONFIG=" + n.file(user+".kubeconfig"), "XDG_STATE_HOME=" + n.file("home-"+user)}, args...)
}

// ran runs a program with further variables of the environment.
func ran(t *testing.T, program string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := command(t, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		err = nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), complaint.String(), cmd.ProcessState.ExitCode()
}

// A user with the shipped Role alone sees all of a stack, by every name that leads to it,
// and changes nothing.
func TestProbe(t *testing.T) {
	sweep := program(t)
	lab.crds(t)
	for user, token := range map[string]string{"reader": readerToken, "nobody": nobodyToken} {
		if err := lab.kubeconfig(user, token); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []string{"llm-d", "old", "dynamo", "other"} {
		lab.namespace(t, ns)
		role, _, code := lab.as(t, sweep, "nobody", "probe", "--kube", ns, "--print-role")
		if code != 0 {
			t.Fatalf("--print-role: exit %d", code)
		}
		lab.apply(t, ns, role)
		lab.apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: sweep},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sweep-attach}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: reader}]}`)
	}
	for _, ns := range []string{"llm-d", "old", "dynamo"} {
		lab.apply(t, ns, read(t, "testdata/"+ns+".yaml"))
	}
	if err := lab.send(http.MethodPatch, "/apis/gateway.networking.k8s.io/v1/namespaces/llm-d/gateways/inference-gateway/status", "application/merge-patch+json",
		[]byte(`{"status":{"addresses":[{"type":"IPAddress","value":"203.0.113.9"}]}}`)); err != nil {
		t.Fatal(err)
	}
	probe := func(name string) *stack.Stack {
		stdout, stderr, code := lab.as(t, sweep, "reader", "probe", "--json", "--kube", name)
		if code != 0 {
			t.Fatalf("probe --kube %s: exit %d\n%s%s", name, code, stdout, stderr)
		}
		var s stack.Stack
		if err := json.Unmarshal([]byte(stdout), &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	ready := func(s *stack.Stack) string {
		var roles []string
		for i := range s.Roles {
			roles = append(roles, fmt.Sprintf("%s %d/%d", s.Roles[i].Name, s.Roles[i].Ready(), len(s.Roles[i].Pods)))
		}
		return strings.Join(roles, ", ")
	}

	t.Run("llm-d", func(t *testing.T) {
		const want = "router 1/1, prefill 2/2, decode 1/1"
		polltest.Until(t, "the pods are ready: "+want+", and one has restarted", func() bool {
			s := probe("llm-d")
			return ready(s) == want && strings.Contains(strings.Join(s.Findings, "\n"), "restarted 1 time")
		})
		for _, name := range []string{"httproute/pd", "gateway/inference-gateway", "inference-gateway", "inferencepool/pd", "pd", "pd-epp", "llm-d.ai/role=decode"} {
			s := probe("llm-d/" + name)
			if got := ready(s); got != want || s.Kind != "llm-d" {
				t.Errorf("%s: %s %s, want llm-d %s", name, s.Kind, got, want)
			}
			if len(s.Entries) == 0 || s.Entries[0].URL != "http://203.0.113.9/pd" {
				t.Errorf("%s: entries %+v", name, s.Entries)
			}
			findings := strings.Join(s.Findings, "\n")
			for _, finding := range []string{"container modelserver of pd-decode-", "restarted 1 time (last end: Error, exit code 3)", "NIXL does not transfer"} {
				if !strings.Contains(findings, finding) {
					t.Errorf("%s: no finding %q in\n%s", name, finding, findings)
				}
			}
			for _, h := range s.Rights {
				if !h.Held {
					t.Errorf("%s: %s %s is not held", name, h.Verb, h.Resource)
				}
			}
		}
		text, _, _ := lab.as(t, sweep, "reader", "probe", "-v", "--kube", "llm-d")
		for _, want := range []string{"decode: routing-proxy does not show its own metrics: it needs --metrics-port=PORT", "--model-server-port=8200", "--api-key ***", "Kubernetes v1.34.4", "nvidia.com/gpu=1"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("a key is shown:\n%s", text)
		}
		t.Log("\n" + text)
	})
	t.Run("old", func(t *testing.T) {
		const want = "prefill 0/1, decode 1/1"
		polltest.Until(t, "the pods are there: "+want, func() bool { return ready(probe("old")) == want })
		s := probe("old/qwen-direct")
		if got := ready(s); got != want || len(s.Entries) != 1 || s.Entries[0].URL != "http://qwen-direct.old.svc:8000" {
			t.Errorf("%s, %+v", got, s.Entries)
		}
		if !slices.ContainsFunc(s.Findings, func(f string) bool { return strings.Contains(f, "no prefill pod is ready") }) ||
			!slices.ContainsFunc(s.Findings, func(f string) bool { return strings.Contains(f, "qwen-prefill-0 (ErrImageNeverPull)") }) {
			t.Errorf("findings %q", s.Findings)
		}
	})
	t.Run("dynamo", func(t *testing.T) {
		const want = "frontend 1/1, prefill 1/1, decode 1/1"
		polltest.Until(t, "the pods are ready: "+want, func() bool { return ready(probe("dynamo")) == want })
		for _, name := range []string{"dgd/disagg", "disagg-frontend", "disagg"} {
			s := probe("dynamo/" + name)
			if got := ready(s); got != want || s.Kind != "dynamo" || s.Entries[0].URL != "http://disagg-frontend.dynamo.svc:8000" {
				t.Errorf("%s: %s %s %+v", name, s.Kind, got, s.Entries)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		_, stderr, code := lab.as(t, sweep, "nobody", "probe", "--kube", "llm-d")
		if code != 8 || !strings.Contains(stderr, "nobody may not list pods in namespace llm-d") || !strings.Contains(stderr, "--print-role") {
			t.Errorf("exit %d: %s", code, stderr)
		}
		for name, want := range map[string]string{
			"other": "has no inference stack", "other/x": "named x", "llm-d/pod/x": "no kind of object",
		} {
			if _, stderr, code := lab.as(t, sweep, "reader", "probe", "--kube", name); code != 1 || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit %d: %s", name, code, stderr)
			}
		}
	})
}

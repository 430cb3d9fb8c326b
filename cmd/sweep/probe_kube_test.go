package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/backends/kubernetes/stack/stacktest"
)

// docs/kubernetes.md shows what its commands print.
func TestProbe_kube(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/kube/docs.yaml"
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	shown := func(text string) {
		t.Helper()
		if text = strings.TrimRight(port.ReplaceAllString(text, "127.0.0.1:6443"), "\n") + "\n"; !strings.Contains(string(page), "```text\n"+text+"```") {
			t.Errorf("docs/kubernetes.md does not show this:\n%s", text)
		}
	}
	env := []string{"KUBECONFIG=" + stacktest.Serve(t, file)}
	got := sweep(t, ".", env, "probe", "--kube", "llm-d")
	if got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	shown(got.stdout)

	refused := sweep(t, ".", []string{"KUBECONFIG=" + stacktest.Serve(t, file, "pods")}, "probe", "--kube", "llm-d")
	if refused.code != exitProvider {
		t.Errorf("exit %d\n%s", refused.code, refused.stderr)
	}
	shown(refused.stderr)

	// So is a right that only one kind of object needs.
	hidden := sweep(t, ".", []string{"KUBECONFIG=" + stacktest.Serve(t, file, "ingresses")}, "probe", "--kube", "llm-d/ingress/pd")
	if hidden.code != exitProvider || !strings.Contains(hidden.stderr, "may not list ingresses in namespace llm-d") || !strings.Contains(hidden.stderr, "--print-role") {
		t.Errorf("exit %d\n%s", hidden.code, hidden.stderr)
	}

	got = sweep(t, ".", env, "probe", "--json", "--kube", "llm-d/inferencepool/pd", "--kube-context", "prod")
	var s struct {
		stack.Stack
		Off []string `json:"metrics_off"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil || s.Context != "prod" || len(s.Roles) != 3 || len(s.Off) != 1 {
		t.Errorf("%v\n%s%s", err, got.stdout, got.stderr)
	}
	// A sidecar that shows its metrics is not spoken of.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	on := filepath.Join(t.TempDir(), "on.yaml")
	if err := os.WriteFile(on, []byte(strings.Replace(string(text), "restartPolicy: Always,", "restartPolicy: Always, args: [--metrics-port=9400],", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	got = sweep(t, ".", []string{"KUBECONFIG=" + stacktest.Serve(t, on)}, "probe", "--kube", "llm-d")
	if got.code != exitOK || strings.Contains(got.stdout, "metrics") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got = sweep(t, ".", env, "probe", "-v", "--kube", "llm-d"); !strings.Contains(got.stdout, "--tensor-parallel-size=2") || !strings.Contains(got.stdout, "list pods  ") {
		t.Errorf("-v prints\n%s", got.stdout)
	}
	for _, args := range [][]string{{"--kube", "llm-d", "http://127.0.0.1:1"}, {"--kube", "/pd"}, {"--print-role"}, {"--kube", "llm-d", "--kube-context", "none"}} {
		if got := sweep(t, ".", env, append([]string{"probe"}, args...)...); got.code != exitUsage {
			t.Errorf("%v: exit %d\n%s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

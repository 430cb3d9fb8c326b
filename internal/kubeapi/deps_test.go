package kubeapi

import (
	"os/exec"
	"strings"
	"testing"
)

// The program has what finds a cluster and speaks to it, and not the typed clients and the
// schemas of all kinds, which would make it twice as large.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "sweep.dev/sweep/cmd/sweep").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "k8s.io/client-go/rest\n") {
		t.Fatal("the list has not even the client")
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		for _, unwanted := range []string{
			"k8s.io/api/", "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/tools/cache",
			"k8s.io/client-go/applyconfigurations", "sigs.k8s.io/controller-runtime", "k8s.io/kubectl",
		} {
			if strings.HasPrefix(name, unwanted) {
				t.Errorf("the program has %s", name)
			}
		}
	}
}

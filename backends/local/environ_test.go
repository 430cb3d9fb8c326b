package local_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/local"
	"sweep.dev/sweep/internal/polltest"
)

func TestPassed(t *testing.T) {
	got := local.Passed([]string{
		"PATH=/bin", "HOME=/h", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=0", "https_proxy=http://p:1", "HF_HOME=/m", "A=B=C",
		"NVIDIA_API_KEY=canary", "CUDA_TOKEN=canary", "RUNPOD_API_KEY=canary", "HF_TOKEN=canary", "AWS_PROFILE=canary", "LCX=canary", "path=canary", "VLLM_X=canary",
	})
	want := []string{"CUDA_VISIBLE_DEVICES", "HF_HOME", "HOME", "LC_ALL", "PATH", "https_proxy"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// The table in the documentation names every variable of the table in the code.
func TestPassed_documented(t *testing.T) {
	page, err := os.ReadFile("../../docs/run.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range local.PassedNames() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/run.md does not name %s", name)
		}
	}
}

// A server sees the variables of the table and of its plan, and nothing else of ours.
func TestLaunch_environment(t *testing.T) {
	t.Setenv("RUNPOD_API_KEY", "canary")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary")
	t.Setenv("LOCAL_TEST_OURS", "canary")
	m := machine()
	m.Env = map[string]string{"NAMED": "by the plan"}
	spec := backendtest.Spec(t)
	spec.Roles[0].Argv = shell(`env; echo end; while :; do sleep 1; done`)
	launch(t, m, spec)
	var text string
	polltest.Until(t, "the server's environment", func() bool {
		b, err := os.ReadFile(spec.Roles[0].LogPath(0))
		text = string(b)
		return err == nil && strings.HasSuffix(text, "\nend\n")
	})
	if strings.Contains(text, "canary") {
		t.Errorf("the server sees what no plan names:\n%s", text)
	}
	for _, want := range []string{"NAMED=by the plan", "PATH=" + os.Getenv("PATH"), "SWEEP_POD="} {
		if !strings.Contains(text, want) {
			t.Errorf("the server does not see %s:\n%s", want, text)
		}
	}
}

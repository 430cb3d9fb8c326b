package process_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/process"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/secret"
)

func TestMain(m *testing.M) {
	backendtest.Main(m, func(_, dir string, fx *effect.Effects) (backends.Backend, backends.Spec, error) {
		spec, err := backendtest.SpecIn(dir)
		if err != nil {
			return nil, spec, err
		}
		b, err := process.New(fx, process.Config{})
		return b, spec, err
	})
}

func TestContract(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		b, err := process.New(nil, process.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return b, backendtest.Spec(t)
	}, backendtest.Killed("", effect.SpawnGuard))
}

func TestFactory(t *testing.T) {
	f := process.Factory(nil)
	if f.Kind != "process" || !f.FreeGPU {
		t.Errorf("got %+v", f)
	}
	broken := errors.New("line 3")
	if _, err := f.New(func(any) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	_, err := f.New(func(c any) error { *c.(*process.Config) = process.Config{CPUs: []int{0, -1}}; return nil })
	if err == nil || !strings.Contains(err.Error(), "-1") {
		t.Errorf("got %v", err)
	}
}

// The plan's environment of the backend reaches the server, and a role's own value
// replaces it.
func TestLaunch_environment(t *testing.T) {
	dir := t.TempDir()
	f := process.Factory(nil)
	b, err := f.New(func(c any) error {
		*c.(*process.Config) = process.Config{
			Dir:  dir,
			CPUs: []int{0},
			Env: map[string]secret.String{
				"PROCESS_TEST_BOTH":    secret.Plain("backend"),
				"PROCESS_TEST_BACKEND": secret.New("${HF_TOKEN}", "canary"),
			},
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	spec := backendtest.Spec(t)
	spec.Roles[0].Env = map[string]string{"PROCESS_TEST_BOTH": "role"}
	d, err := b.Launch(t.Context(), spec, &backendtest.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for name, want := range map[string]string{
		"PROCESS_TEST_BOTH":    "role",
		"PROCESS_TEST_BACKEND": "canary",
		"SWEEP_RUN_ID":         spec.RunID,
		"SWEEP_POD":            spec.Pod,
		"SWEEP_OWNER":          spec.Owner,
		"SWEEP_BACKEND":        "process",
	} {
		if got := ask(t, d, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// ask returns an environment variable of the server.
func ask(t *testing.T, d backends.Deployment, name string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		resp, err := client.Get(d.Host("server", 0).URL() + "/?env=" + name)
		if err != nil {
			select {
			case <-d.Done():
				t.Fatal(d.Err())
			case <-t.Context().Done():
				t.Fatal(err)
			default:
				continue // not listening yet
			}
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

package ssh_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// patience bounds every wait for something that must happen.
const patience = time.Minute

func launch(t *testing.T, b backends.Backend, s backends.Spec) (backends.Deployment, backends.Ref) {
	t.Helper()
	d, err := b.Launch(t.Context(), s, &backendtest.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, d) })
	return d, d.(backends.Rental).Terms().Ref
}

func stop(t *testing.T, d backends.Deployment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	defer cancel()
	var err error
	// A busy host may not have answered within the time that one call gives it.
	if !polltest.Within(patience, func() bool { err = d.Stop(ctx); return err == nil }) {
		t.Errorf("Stop: %v", err)
	}
}

func shell(script string, args ...string) func(backends.Address) ([]string, error) {
	return func(backends.Address) ([]string, error) {
		return append([]string{"/bin/sh", "-c", script, "engine"}, args...), nil
	}
}

// pod returns the living processes of a pod, of all its units.
func pod(name string) []procfs.Process {
	return slices.DeleteFunc(procfs.All(), func(p procfs.Process) bool {
		unit, _ := procfs.ReadEnviron(p.PID).Lookup("SWEEP_SSH_POD")
		of, _, _ := strings.Cut(unit, ".")
		return of != name
	})
}

func logOf(t *testing.T, d backends.Deployment) string {
	t.Helper()
	r, err := d.Host("server", 0).Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// get asks the server of backendtest for a variable of its environment.
func get(ctx context.Context, h host.Host, name string) (string, error) {
	client := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL()+"/?env="+name, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func ready(t *testing.T, d backends.Deployment) {
	t.Helper()
	polltest.Until(t, "the server answers", func() bool {
		_, err := get(t.Context(), d.Host("server", 0), "")
		return err == nil
	})
}

// withRun returns the living processes of a run's pods.
func withRun(run string) []procfs.Process {
	return procfs.With(map[string]string{backends.MarkRun: run})
}

package executor

import (
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/backends"
)

// The ready line is necessary, and never sufficient.
func TestReadyLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lined.yaml")
	if err := os.WriteFile(file, []byte("name: lined\nlike: sim\ndoc: says when it is up\nready: {line: model is up}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := []string{`matrix: {engine: lined, concurrency: [1]}`, `engine_files: [` + file + `]`, `timeouts: {launch: 5s, ready: 600ms, request: 5s, trial: 20s, stop: 2s}`}
	for name, c := range map[string]struct {
		script script
		want   string
	}{
		"both":   {script{log: []string{"the model is up", ""}}, "ok"},
		"silent": {script{log: []string{"loading", ""}}, "failed"},
		"sick":   {script{log: []string{"the model is up", ""}, health: 503}, "failed"},
	} {
		w := newWorld(t, func(int, backends.Spec) script { return c.script }, lines...)
		if _, err := w.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := w.outcomes()[0]
		if o.Row["status"] != c.want {
			t.Errorf("%s: got %v (%v), want %s", name, o.Row["status"], o.Row["error"], c.want)
		}
		if up, ok := o.Row["start_up_s"].(float64); (c.want == "ok") != (ok && up > 0) {
			t.Errorf("%s: start_up_s is %v", name, o.Row["start_up_s"])
		}
	}
}

// Every replica that runs the model has its prefix cache emptied; a frontend has
// none.
func TestReset_everyReplica(t *testing.T) {
	w := newWorld(t, nil, `matrix: {engine: split, concurrency: [1]}`, `engine_files: [`+splitEngine(t)+`]`)
	w.must()
	if n := w.backend.list()[0].looked("reset"); n != 2 {
		t.Errorf("the cache was emptied %d times, want once for each of two workers", n)
	}
}

// splitEngine returns the file of an engine with two workers behind a frontend.
func splitEngine(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "split.yaml")
	text := "name: split\nlike: sim\ndoc: two workers behind a frontend\nentry: frontend\nroles:\n" +
		"  - {name: worker, replicas: 2, command: [worker]}\n  - {name: frontend, tier: frontend, command: [frontend]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

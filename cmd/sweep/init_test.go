package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/slow"
)

// TestInit: each template is right as it is written, and runs on the simulator (without
// the tag slow that of a chat alone).
func TestInit(t *testing.T) {
	t.Parallel()
	names, err := templateNames()
	if err != nil || len(names) < 5 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got := sweep(t, dir, nil, "init", "--template", name, "plan.yaml")
			if got.code != exitOK || !strings.Contains(got.stderr, "next: sweep plan plan.yaml") {
				t.Fatalf("exit %d\n%s", got.code, got.stderr)
			}
			if got := sweep(t, dir, nil, "validate", "plan.yaml"); got.code != exitOK || strings.Contains(got.stderr, "warning") {
				t.Errorf("validate: exit %d\n%s%s", got.code, got.stdout, got.stderr)
			}
			if got := sweep(t, dir, nil, "init", "plan.yaml"); got.code != exitUsage || !strings.Contains(got.stderr, "plan.yaml is there already") {
				t.Errorf("a file that is there: exit %d\n%s", got.code, got.stderr)
			}
			text, err := os.ReadFile(filepath.Join(dir, "plan.yaml"))
			if err != nil || !strings.HasPrefix(string(text), modeline) {
				t.Errorf("it does not begin with the modeline: %v\n%s", err, text)
			}
			if !slow.Tests && name != "chat" {
				return
			}
			// A few requests of the smallest cells: what is held is that the template runs.
			short := []string{"--set", "load.requests=8"}
			if strings.Contains(string(text), "input_tokens: [2k, 8k]") {
				short = append(short, "--only", "input_tokens < 8000")
			} else if strings.Contains(string(text), "requests_per_worker") {
				short = []string{"--set", "load.requests_per_worker=1", "--only", "concurrency == 32"}
			} else if strings.Contains(string(text), "concurrency: [1, 8, 32]") {
				short = append(short, "--set", "matrix.concurrency=[8]")
			} else if strings.Contains(string(text), "concurrency: [4, 16]") {
				short = append(short, "--set", "matrix.concurrency=[4]")
			}
			args := append(append(append([]string{"run", "-o", "out"}, rehearsal...), short...), "plan.yaml")
			if got := sweep(t, dir, nil, args...); got.code != exitOK && got.code != exitSLO && got.code != exitIncomplete {
				t.Errorf("run: exit %d\n%s%s", got.code, got.stdout, got.stderr)
			}
			for _, row := range rowsOf(t, filepath.Join(dir, "out")) {
				if row["simulated"] != true {
					t.Errorf("a row is not simulated: %v", row["cell_id"])
				}
			}
		})
	}
}

// TestInit_from: a plan of a server that runs is right; what it prints is what it writes.
func TestInit_from(t *testing.T) {
	t.Parallel()
	s, dir := benchServer(t), t.TempDir()
	got := sweep(t, dir, nil, "init", "--from", s.URL)
	if got.code != exitOK || !strings.Contains(got.stdout, "engine: vllm") || !strings.Contains(got.stdout, "model: \"m\"") {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	write(t, filepath.Join(dir, "plan.yaml"), got.stdout)
	if got := sweep(t, dir, nil, "validate", "plan.yaml"); got.code != exitOK || !strings.Contains(got.stdout, "ok, 3 cells in 1 deployment") {
		t.Errorf("validate: exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--template", "chatt"}, exitUsage, "want one of batch, chat, compare, memory, rag"},
		{[]string{"--template", "chat", "--from", s.URL}, exitUsage, "only one of them"},
		{[]string{"a", "b"}, exitUsage, "one FILE at most"},
		{[]string{"--from", "http://127.0.0.1:1"}, exitIncomplete, "is the server up"},
		{[]string{"none/plan.yaml"}, exitUsage, "no such file"},
	} {
		if got := sweep(t, dir, nil, append([]string{"init"}, c.args...)...); got.code != c.code || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: exit %d, want %d and %q\n%s", c.args, got.code, c.code, c.want, got.stderr)
		}
	}
}

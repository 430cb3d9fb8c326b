package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A slip of the command line is exit 2 and never an internal error.
func TestExit_usage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plan := filepath.Join("..", "..", "plans", "quickstart.yaml")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "."},
		{"run", "file"},
		{"run", "nosuch"},
		{"run", "-o", "file", here},
		{"run", "-o", "file/below", here},
		{"run", "--parallel", "0", here},
		{"run", "--parallel", "x", here},
		{"run", "--max-time", "0s", here},
		{"run", "--max-cells", "-1", here},
		{"run", "--events", "nosuch/events", here},
		{"validate", "--set", "=1", here},
		{"plan", "--only", "nosuch == 1", here},
		{"resume", "file"},
		{"resume", "."},
		{"cells", "file"},
		{"status", "."},
		{"logs", "nosuch"},
		{"probe", "localhost"},
		{"probe", "--max-tokens", "0", "http://localhost"},
		{"probe", "--key-env", "SWEEP_TEST_NOSUCH", "http://localhost"},
		{"sim", "--port", "99999", "sweep/tiny"},
	} {
		got := sweep(t, dir, nil, args...)
		if got.code != exitUsage || got.stderr == "" {
			t.Errorf("sweep %q: exit %d, want %d\n%s", args, got.code, exitUsage, got.stderr)
		}
	}
}

// A reader of stdout that has left is no error of any command.
func TestExit_readerGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	if got := sweep(t, dir, nil, "run", "-o", "out", "crash.yaml"); got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	for _, args := range [][]string{
		{"cells", "out"},
		{"cells", "--json", "out"},
		{"cells", "--status", "ok", "out"},
		{"status", "--json", "out"},
		{"logs", "out"},
		{"runs", "."},
		{"plan", "crash.yaml"},
		{"plan", "--json", "crash.yaml"},
		{"engines"},
		{"engines", "vllm"},
		{"gpus"},
		{"schema"},
		{"completion", "bash"},
		{"completion", "zsh"},
		{"--help"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := exec.CommandContext(t.Context(), executable(t), args...)
		var errs bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), asSweep+"=1", "SWEEP_CALIBRATE=never"), w, &errs
		err = cmd.Run()
		w.Close()
		if err != nil || errs.Len() > 0 {
			t.Errorf("sweep %q: %v\n%s", args, err, errs.String())
		}
	}
}

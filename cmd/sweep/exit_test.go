package main

import (
	"os"
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

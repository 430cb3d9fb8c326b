//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestInterop runs a grid and lets DuckDB, pyarrow and pandas read all of its
// files: every cell of every table must be what the CSV says, and the
// percentiles of the cells table must follow from the requests.
func TestInterop(t *testing.T) {
	t.Parallel()
	const python = ".engines/interop/bin/python"
	need(t, "engines:interop", python)
	dir := filepath.Join(t.TempDir(), "run")
	s := start(t, "run", "-o", dir, "plans/quickstart.yaml")
	if code := s.wait(); code != 0 && code != 3 && code != 99 {
		t.Fatalf("exit code %d", code)
	}
	out, err := exec.CommandContext(t.Context(), python, "test/e2e/interop.py", dir).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

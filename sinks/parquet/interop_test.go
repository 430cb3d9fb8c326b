//go:build e2e

package parquet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sinks"
	"sweep.dev/sweep/sinks/csv"
	"sweep.dev/sweep/sinks/sinktest"
)

// TestInterop has DuckDB, pyarrow and pandas read what the sinks write, and
// compares every value. SWEEP_E2E_PYTHON names the Python that has them; task
// e2e:interop makes one.
func TestInterop(t *testing.T) {
	python := os.Getenv("SWEEP_E2E_PYTHON")
	if python == "" {
		python = filepath.Join("..", "..", ".engines", "interop", "bin", "python")
	}
	if _, err := exec.LookPath(python); err != nil {
		t.Fatalf("no Python to read with (task e2e:interop makes one): %v", err)
	}
	dir := t.TempDir()
	table := sinktest.Table(t, 40)
	csvSink, err := csv.New(csv.Config{Columns: csv.Columns{"full"}}, table.Columns)
	if err != nil {
		t.Fatal(err)
	}
	for _, sink := range []sinks.Sink{Sink{}, csvSink} {
		err := sink.Build(t.Context(), table, func(name string, write func(sinks.Writer) error) error {
			f, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			if err := write(f); err != nil {
				return err
			}
			return f.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	expected(t, filepath.Join(dir, "expected.json"), table)
	out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "interop.py"), dir,
		filepath.Join("..", "..", "docs", "data.md")).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// expected writes what the readers must find.
func expected(t *testing.T, path string, table sinks.Table) {
	t.Helper()
	var rows []result.Row
	for row := range table.Rows {
		row, err := row.Conform(table.Columns)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	data, err := json.Marshal(map[string]any{
		"columns": table.Columns, "rows": rows, "run_id": sinktest.RunID,
		"requests": sinktest.Requests(), "samples": sinktest.Samples(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

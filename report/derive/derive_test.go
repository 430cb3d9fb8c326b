package derive_test

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/answer"
	"sweep.dev/sweep/report/derive"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/reporttest/large"
	"sweep.dev/sweep/report/summary"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sinks"
	csvsink "sweep.dev/sweep/sinks/csv"
	"sweep.dev/sweep/sinks/parquet"
)

// TestAll holds that what is derived without holding whole rows is what is made of whole
// rows, that each trial has a row, and how much of a trial stays in memory.
func TestAll(t *testing.T) {
	const cells = 100
	dir := filepath.Join(t.TempDir(), "run")
	large.Run{Cells: cells, Points: 9 * cells}.Make(t, dir)
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := rundir.Open(fx, dir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := csvsink.New(csvsink.Config{Columns: csvsink.Columns{"full"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	limit := debug.SetMemoryLimit(-1)
	if _, err := derive.All(t.Context(), d, dir, []sinks.Sink{table, parquet.Sink{}}, nil); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("the memory limit stays at %d, want %d as before", got, limit)
	}
	first := read(t, dir, layout.Summary)
	if _, err := derive.All(t.Context(), d, dir, []sinks.Sink{table, parquet.Sink{}}, nil); err != nil {
		t.Fatal(err)
	}
	if read(t, dir, layout.Summary) != first {
		t.Errorf("%s differs if it is derived again", layout.Summary)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := report.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	lean, err := report.OpenLean(dir)
	if err != nil {
		t.Fatal(err)
	}
	if each := (heap() - before) / cells; each > 16<<10 {
		t.Errorf("a trial keeps %d bytes, want 16 KiB at most", each)
	}
	if got, want := written(t, lean), written(t, whole); got != want {
		t.Errorf("%s is another one if whole rows are at hand", layout.Summary)
	}
	if got, want := claims(t, lean), claims(t, whole); got != want || read(t, dir, layout.Answer) != want {
		t.Errorf("%s is another one if whole rows are at hand", layout.Answer)
	}
	records, err := csv.NewReader(bytes.NewReader([]byte(read(t, dir, layout.CellsCSV)))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != cells+1 || len(records[0]) != len(whole.Resolved.Columns) {
		t.Errorf("%s has %d rows of %d columns, want %d of %d", layout.CellsCSV, len(records)-1, len(records[0]), cells, len(whole.Resolved.Columns))
	}
}

func written(t *testing.T, run *report.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := summary.Write(&b, run, draw.Style{Markdown: true}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func claims(t *testing.T, run *report.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := answer.Write(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// heap returns how many bytes are in use.
func heap() int {
	runtime.GC()
	runtime.GC() // pools keep what they had for one more
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

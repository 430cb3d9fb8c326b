package onecell_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/onecell"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/rundir"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestOneCell holds each testdata/cells/*.txtar: a run, and how its first cell is drawn:
// if the terminal's width is unknown (piped.txt), in 80 and 120 columns, with
// colours in braces, and with all details.
func TestOneCell(t *testing.T) {
	t.Parallel()
	paint := func(v conclude.Verdict, s string) string { return fmt.Sprintf("{%s:%s}", v, s) }
	ttft, _ := result.Lookup(result.Columns(result.Extra{}), "p95_ttft_ms")
	version, _ := result.Lookup(result.Columns(result.Extra{}), "engine_version")
	options := map[string]onecell.Options{
		"piped.txt":   {},
		"80.txt":      {Style: draw.Style{Width: 80}},
		"120.txt":     {Style: draw.Style{Width: 120}},
		"colour.txt":  {Style: draw.Style{Width: 80, Paint: paint}},
		"columns.txt": {Style: draw.Style{Width: 80}, Columns: []result.Column{ttft, version}},
		"verbose.txt": {Style: draw.Style{Width: 80}, Verbose: true},
	}
	open := func(t *testing.T, f txtar.File) *report.Run {
		run := reporttest.Described(t, f)
		drawSamples(t, run)
		return run
	}
	reporttest.Golden(t, "testdata/cells/*.txtar", *update, open, func(t *testing.T, name string, run *report.Run) string {
		o, ok := options[name]
		if !ok {
			t.Fatalf("what is %s?", name)
		}
		var b strings.Builder
		if err := onecell.Write(&b, run, run.Conclude().Points[0], o); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(b.String(), run.Dir, "DIR")
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); o.Width > 0 && o.Paint == nil && n > o.Width && !strings.Contains(line, "DIR") {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
		return got
	})
}

// drawSamples gives every measured trial a course of six seconds.
func drawSamples(t *testing.T, run *report.Run) {
	t.Helper()
	var samples []result.Sample
	for second, rate := range []float64{50, 100, 110, 90, 105, 20} {
		at := time.Duration(second+1) * time.Second
		if second == 5 {
			at -= 400 * time.Millisecond // the last slice is shorter
		}
		samples = append(samples,
			result.Sample{T: at, Source: result.FromClient, Name: timeline.InFlight, Value: 8},
			result.Sample{T: at, Source: result.FromClient, Name: timeline.OutputRate, Value: rate},
			result.Sample{T: at, Source: result.FromClient, Name: timeline.TTFT50, Value: rate / 4})
	}
	for _, trial := range run.Trials {
		if trial.Outcome == nil || trial.Outcome.Row["throughput_tok_s"] == nil {
			continue
		}
		f, err := os.Create(filepath.Join(rundir.AttemptDir(run.Dir, trial.Commit), layout.Samples))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.WriteSamples(f, store.IDs{}, samples); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package bench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestWrite holds each testdata/*.txtar: the run that it describes, and what is printed
// of it, once more with what is painted between the verdict's braces.
func TestWrite(t *testing.T) {
	t.Parallel()
	styles := map[string]draw.Style{"plain.txt": {}, "colour.txt": {
		Paint: func(v compare.Verdict, s string) string { return fmt.Sprintf("{%s:%s}", v, s) },
	}}
	open := func(t *testing.T, f txtar.File) *report.Run {
		run := reporttest.Described(t, f)
		for i, p := range run.Conclude().Points {
			for _, trial := range p.Counting() {
				requestsFile(t, run, trial, uint64(i))
			}
		}
		return run
	}
	reporttest.Golden(t, "testdata/*.txtar", *update, open, func(t *testing.T, name string, run *report.Run) string {
		style, ok := styles[name]
		if !ok {
			t.Fatalf("there is no style %s", name)
		}
		var b strings.Builder
		if err := Write(&b, run, style); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > width && style.Paint == nil && strings.HasPrefix(line, "  ") {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		return b.String()
	})
}

// requestsFile writes as many requests as a trial has, with TTFT between half of its
// p95 and a little more than that.
func requestsFile(t *testing.T, run *report.Run, trial compare.Trial, seed uint64) {
	t.Helper()
	for i, dir := range run.Attempts() {
		if o := run.Outcomes()[i]; o.CellID != trial.Cell.ID {
			continue
		}
		random := rand.New(rand.NewPCG(seed, 1))
		row := trial.Outcome.Row
		requests := make([]result.Request, int(row.Float(col.PlateauRequests)))
		for n := range requests {
			sent := time.Duration(n) * time.Second
			ttft := time.Duration((0.5 + 0.53*random.Float64()) * row.Float(col.P95TTFTMs) * float64(time.Millisecond))
			requests[n] = result.Request{
				N: n, Phase: result.Plateau, Scheduled: sent, Sent: sent, FirstByte: sent + ttft, FirstToken: sent + ttft, FirstOutput: sent + ttft,
				LastToken: sent + 2*ttft, End: sent + 2*ttft, CompletionTokens: 2, Status: result.Completed,
			}
		}
		var b strings.Builder
		if err := store.WriteRequests(&b, store.IDs{}, requests); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, layout.Requests), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

package bench

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestWrite holds each testdata/*.txtar: the run that it describes, and what is printed
// of it, once more with what is painted between the verdict's braces.
func TestWrite(t *testing.T) {
	t.Parallel()
	styles := map[string]draw.Style{"plain.txt": {}, "colour.txt": {
		Paint: func(v conclude.Verdict, s string) string { return fmt.Sprintf("{%s:%s}", v, s) },
	}}
	open := func(t *testing.T, f txtar.File) *report.Run {
		run := reporttest.Described(t, f)
		for i, p := range run.Conclude().Points {
			for _, trial := range p.Counting() {
				interval(trial, uint64(i))
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
		if err := Write(&b, run, style, 0); err != nil {
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

// interval sets the ends of p95 TTFT in the row of a trial, by as many requests as it
// has, with TTFT between half of that and a little more.
func interval(trial conclude.Trial, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	row := trial.Outcome.Row
	values := make([]float64, int(row.Float(col.PlateauRequests)))
	for i := range values {
		values[i] = (0.5 + 0.53*random.Float64()) * row.Float(col.P95TTFTMs)
	}
	low, high := objective.Interval(values, 0.95, 0.95)
	for suffix, v := range map[string]float64{col.LowSuffix: low, col.HighSuffix: high} {
		row[col.P95TTFTMs+suffix] = v
		if math.IsInf(v, 0) {
			delete(row, col.P95TTFTMs+suffix)
		}
	}
}

// The people of a load are its requests/s times the time of an answer and a thought.
func TestPeople(t *testing.T) {
	t.Parallel()
	archive := txtar.Parse([]byte(`-- run --
axes concurrency
cell 1
  ok tok=65.2 p50_user_tok_s=65.8 ttft=25.1/27.3 tpot=15.2/15.3 n=30
cell 4
  ok tok=250 p50_user_tok_s=62 ttft=60/72.5 tpot=16/16.4 n=300
cell 8
  ok tok=300 p50_user_tok_s=60.8 ttft=350/470 tpot=15.2/15.3 n=200 miss="objective|p95_ttft_ms < 100|p95_ttft_ms=470"
cell 16
  failed error="connect|no connection"
`))
	points := reporttest.Described(t, archive.Files[0]).Conclude().Points
	for i, p := range points {
		for _, trial := range p.Counting() {
			trial.Outcome.Row[col.RequestThroughput] = []float64{0.51, 2.04, 4, 0}[i]
			trial.Outcome.Row[col.Latency("mean", "e2e")] = 2000.0
		}
	}
	if got, want := people(points, 30*time.Second), "people who think 30 s after each answer: about 16 at 1, 65 at 4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := people(points, 0); got != "" {
		t.Errorf("without a time to think: %s", got)
	}
}

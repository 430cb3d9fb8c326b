package turns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

var steady = []float64{1000, 1002, 998, 1001}

func times(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x * by * (1 + 0.001*float64(i%2)) // not the same noise
	}
	return out
}

// turnsOf returns what a run says that compares two engines, with tokens a second of each in its trials.
func turnsOf(t *testing.T, vllm, sglang []float64) *Turns {
	t.Helper()
	text := "compare engine vllm\naxes engine! concurrency\nrepeats 4\n"
	for _, side := range []struct {
		name  string
		rates []float64
	}{{"vllm", vllm}, {"sglang", sglang}} {
		text += "cell " + side.name + " 8\n"
		for _, tok := range side.rates {
			text += fmt.Sprintf("  ok tok=%g n=200 failed=0 conditions_digest=a spread=0.001\n", tok)
		}
	}
	return Of(compare.Of(reporttest.MadeUp(t, text)))
}

// rate returns the verdict on tokens a second in the first cell.
func rate(c *compare.Comparison) compare.Verdict {
	for _, f := range c.Cells[0].Figures {
		if f.Metric == col.ThroughputTokS {
			return f.Verdict
		}
	}
	return ""
}

// TestOf holds that the other engine is held against the baseline, and that a baseline
// which moved is told.
func TestOf(t *testing.T) {
	t.Parallel()
	got := turnsOf(t, steady, times(steady, 1.1))
	if len(got.Sides) != 1 || got.Sides[0].Value != "sglang" || rate(got.Sides[0].Comparison) != compare.Faster || got.Drift != "" {
		t.Errorf("%+v", got)
	}
	moved := []float64{1000, 980, 960, 940}
	if got := turnsOf(t, moved, times(moved, 1.1)); !strings.Contains(got.Drift, "host_drift: vllm") || rate(got.Sides[0].Comparison) != compare.Faster {
		t.Errorf("a baseline that moved: %q, %+v", got.Drift, got.Sides[0].Cells)
	}
	if Of(compare.Of(reporttest.MadeUp(t, "axes engine!\ncell vllm\n  ok tok=1 n=200"))) != nil {
		t.Error("a plan without compare compares")
	}
}

// TestTurns_Rows holds that rows are of the columns, and name the rows of both sides.
func TestTurns_Rows(t *testing.T) {
	t.Parallel()
	var rows []result.Row
	for row := range turnsOf(t, steady, times(steady, 1.1)).Rows() {
		row, err := row.Conform(Columns())
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	i := slices.IndexFunc(rows, func(r result.Row) bool { return r["metric"] == col.ThroughputTokS })
	if i < 0 {
		t.Fatalf("no row of %s: %v", col.ThroughputTokS, rows)
	}
	for name, want := range map[string]any{
		"axis": "engine", "baseline": "vllm", "value": "sglang", col.CellID: "c001", "verdict": "faster", "repeats": nil, "paired": true,
		"base_rows": "c000/t01 c000/t02 c000/t03 c000/t04", "head_rows": "c001/t01 c001/t02 c001/t03 c001/t04",
	} {
		if rows[i][name] != want {
			t.Errorf("%s is %v, want %v", name, rows[i][name], want)
		}
	}
}

// TestTurns_Grids holds that a line has both values, the change and the verdict.
func TestTurns_Grids(t *testing.T) {
	t.Parallel()
	grids := turnsOf(t, steady, times(steady, 1.1)).Grids()
	if len(grids) != 1 || grids[0].Name != "engine sglang against vllm, by turns" || len(grids[0].Rows) == 0 {
		t.Fatalf("%+v", grids)
	}
	var texts []string
	for _, f := range grids[0].Rows[0] {
		texts = append(texts, f.Text)
	}
	if got := strings.Join(texts, "|"); !strings.HasPrefix(got, "sglang concurrency=8|throughput_tok_s|1000|1101|+10.1 ±") || !strings.HasSuffix(got, "|faster") {
		t.Errorf("the first line is %s", got)
	}
}

// TestDocs holds the columns in docs/data.md to the code.
func TestDocs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| column | type | null | meaning |\n| --- | --- | --- | --- |\n")
	for _, c := range Columns() {
		null := ""
		if c.Nullable {
			null = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, c.Type, null, c.Doc)
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "data.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), b.String()) {
		t.Errorf("docs/data.md lacks:\n%s", b.String())
	}
}

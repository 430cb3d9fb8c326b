package paired

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
)

// rowsOf are rows of their columns, each as NAME=VALUE of what is not null.
func rowsOf(t *testing.T, columns []result.Column, rows iter.Seq[result.Row]) (all []string) {
	t.Helper()
	for row := range rows {
		row, err := row.Conform(columns)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, c := range columns {
			switch v := row[c.Name].(type) {
			case nil:
				if !c.Nullable {
					t.Errorf("%s is null", c.Name)
				}
			case float64:
				parts = append(parts, fmt.Sprintf("%s=%.3g", c.Name, v))
			default:
				parts = append(parts, fmt.Sprintf("%s=%v", c.Name, v))
			}
		}
		all = append(all, strings.Join(parts, " "))
	}
	return all
}

// TestRows holds the rows of deployments that have a baseline, and of their prompts: what is
// not known is null.
func TestRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "d1", 1, "s", map[string]string{"gpu": "l4", "kv": "f16"}, strings.Repeat("r", 58)+"?x")
	put(t, dir, "d2", 1, "s", map[string]string{"gpu": "l4", "kv": "q4"}, strings.Repeat("r", 48)+strings.Repeat("w", 10)+"rr")
	put(t, dir, "d3", 1, "s", map[string]string{"gpu": "h100", "kv": "q4"}, "r")
	p, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Compares() {
		t.Error("no deployment has a baseline")
	}
	rows := rowsOf(t, Columns(), p.Rows())
	want := []string{
		"deployment=d3 server=vllm h100 q4 why=its baseline has no answers to these prompts",
		"deployment=d2 server=vllm l4 q4 baseline_deployment=d1 baseline=vllm l4 f16 verdict=worse pairs=59 became_wrong=10 became_right=1 " +
			"base_score=0.983 score=0.831 difference=-0.153 low=-0.272 high=-0.0519 p=0.0117 confidence=0.95 smallest_loss=0.161 " +
			"same_answer_rate=0.828 first_difference=14",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}

	items := rowsOf(t, ItemColumns(), p.ItemRows())
	if len(items) != 60+1+60 {
		t.Fatalf("%d rows of prompts", len(items))
	}
	for n, want := range map[int]string{
		0:           "deployment=d1 server=vllm l4 f16 item=0 match=exact right=true refused=false same_twice=true",
		58:          "deployment=d1 server=vllm l4 f16 item=58 match=exact refused=false",
		59:          "deployment=d1 server=vllm l4 f16 item=59 match=exact right=false refused=true",
		60:          "deployment=d3 server=vllm h100 q4 item=0 match=exact right=true refused=false same_twice=true",
		61:          "deployment=d2 server=vllm l4 q4 item=0 match=exact right=true refused=false same_twice=true baseline_deployment=d1 baseline_right=true change=unchanged same_text=true",
		61 + 50:     "deployment=d2 server=vllm l4 q4 item=50 match=exact right=false refused=false same_twice=true baseline_deployment=d1 baseline_right=true change=became wrong same_text=false first_difference=14",
		61 + 58:     "deployment=d2 server=vllm l4 q4 item=58 match=exact right=true refused=false same_twice=true baseline_deployment=d1",
		61 + 58 + 1: "deployment=d2 server=vllm l4 q4 item=59 match=exact right=true refused=false same_twice=true baseline_deployment=d1 baseline_right=false change=became right",
	} {
		if items[n] != want {
			t.Errorf("row %d\ngot  %s\nwant %s", n, items[n], want)
		}
	}

	dir = t.TempDir()
	reporttest.Answers(t, dir, 1, quality.Answers{
		Header: quality.Header{Deployment: "d", Label: "vllm", Source: quality.FromLMEval}, List: []quality.Answer{{Item: "3", Right: new(true)}},
	})
	if p, err = Read(dir); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, ItemColumns(), p.ItemRows()); p.Compares() || len(rows) != 1 || rows[0] != "deployment=d server=vllm item=3 right=true" {
		t.Errorf("of lm-eval: %q", rows)
	}
}

// TestDocs holds the columns in docs/data.md to the code.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "data.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, columns := range [][]result.Column{Columns(), ItemColumns()} {
		var b strings.Builder
		b.WriteString("| column | type | unit | null | meaning |\n| --- | --- | --- | --- | --- |\n")
		for _, c := range columns {
			null := ""
			if c.Nullable {
				null = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Type, c.Unit, null, c.Doc)
		}
		if !strings.Contains(string(page), b.String()) {
			t.Errorf("docs/data.md lacks:\n%s", b.String())
		}
	}
}

package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/codetest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Code that reads lean rows, and code among it that does not.
var (
	readers = []string{"report/", "result/objective/", "result/groups/outliers.go", "cmd/sweep/run.go"}
	others  = []string{"report/lean.go", "report/derive/", "report/export/", "report/merge/", "report/compare/quality.go", "report/onecell/", "report/webpage/pack/"}
)

// TestLean_hasWhatReportsRead reads the program's own source: a column that a report names
// is in lean rows.
func TestLean_hasWhatReportsRead(t *testing.T) {
	t.Parallel()
	columns := constants(t)
	begins := func(rel string, some []string) bool {
		for _, s := range some {
			if strings.HasPrefix(rel, s) {
				return true
			}
		}
		return false
	}
	found := 0
	codetest.Each(t, "..", func(string) bool { return false }, func(rel string, set *token.FileSet, file *ast.File) {
		if !begins(rel, readers) || begins(rel, others) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); !ok || x.Name != "col" {
				return true
			}
			if found++; unread()[columns[s.Sel.Name]] {
				t.Errorf("%s: a lean row has no %s: add it to numbers", set.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	})
	if found < 100 || len(unread()) < 200 {
		t.Errorf("%d places name a column and %d columns are left out, want more of both", found, len(unread()))
	}
}

// constants returns the names of columns by those of their constants.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "result", "col", "col.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names[v.Names[0].Name] = name
		}
		return true
	})
	return names
}

func TestLean(t *testing.T) {
	t.Parallel()
	row := result.Row{
		col.P95TTFTMs: 1.0, col.P95TTFTMs + col.LowSuffix: 0.9, col.P50ICLMs: 2.0, col.CPUSteal: nil, col.ErrorClass: "oom",
		"arg_max_num_seqs": int64(8), col.MaxTTFTMs: 3.0, col.ClockSteps: int64(1), col.TCPRetransmits: int64(2),
	}
	slos := []result.SLOResult{{Values: result.Row{col.MaxTTFTMs: 3.0}, Parts: []result.SLOPart{{Column: col.ClockSteps}}}}
	got := lean(row, slos, false)
	for name, v := range row {
		_, has := got[name]
		if want := v != nil && name != col.TCPRetransmits && name != col.P50ICLMs; has != want {
			t.Errorf("%s in a lean row: %t, want %t", name, has, want)
		}
	}
	row[col.MinGPUPowerLimitW] = 500.0
	if lean(row, slos, false)[col.MinGPUPowerLimitW] != nil {
		t.Error("a lean row without a fingerprint has the limit of its card")
	}
	row[col.DeviceDecodeMs] = 4.0
	if lean(row, slos, false)[col.MinGPUPowerLimitW] == nil {
		t.Error("a lean row with a fingerprint lacks the limit of its card")
	}
}

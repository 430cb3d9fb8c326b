package col_test

import (
	"go/ast"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/codetest"
	"sweep.dev/sweep/result"
)

// Files and folders in which words like a column's name mean something else.
var elsewhere = map[string]string{
	"result/registry.go":          "the registry, of which the constants are made",
	"result/col/col.go":           "the constants",
	"engine":                      "quantities of engines, and fields of their requests",
	"result/sample.go":            "series of the samples table",
	"result/timeline":             "series of the samples table",
	"result/store":                "columns of the requests and samples tables",
	"result/finding/table.go":     "codes of reasons and findings",
	"test/statistics":             "metrics of load.until",
	"judge/stopping":              "ways in which a load ends, and metrics of load.until",
	"plan":                        "keys of a plan and names of axes",
	"result/meant/words.go":       "keys of a plan",
	"nightly/history/settings.go": "keys of a plan",
	"report/export":               "keys of other programs' files",
	"judge/published":             "keys of other programs' files",
	"load/wire/usage.go":          "names of servers",

	"cmd/sweep/internal/schemagen/offer.go": "names of axes",
	"cmd/sweep/internal/outbound/places.go": "keys of a plan",
}

// Column names that other programs' fields have too, and fields of our own JSON.
var common = []string{
	"cached_tokens", "driver_version", "gpu_uuid", "input_tokens", "max_tokens", "network_path", "probe_failed", "run_id",
}

// row is the text of what holds a row in code: row, o.Row, t.row, rows[0].
var row = regexp.MustCompile(`(?i)(^|\.)row$|^rows\[.*\]$`)

// TestCode reads the program's own source: it names columns by the constants, as
// the compiler knows these and not what is in quotes.
func TestCode(t *testing.T) {
	names := map[string]bool{}
	for _, c := range result.Columns(result.Extra{}) {
		names[c.Name] = strings.Contains(c.Name, "_") && !slices.Contains(common, c.Name) // one word may mean anything
	}
	skip := func(rel string) bool { return slices.Contains([]string{"sim", "drill", "tools"}, path.Base(rel)) }
	codetest.Each(t, filepath.Join("..", ".."), skip, func(rel string, set *token.FileSet, file *ast.File) {
		free := elsewhere[rel] != ""
		for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
			free = free || elsewhere[dir] != ""
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IndexExpr:
				if text, ok := literal(n.Index); ok && row.MatchString(source(n.X)) {
					t.Errorf("%s: %q as the column of a row: use a constant of package col", set.Position(n.Pos()), text)
				}
			case *ast.BasicLit:
				if text, ok := literal(n); ok && !free && names[text] {
					t.Errorf("%s: the column %q in quotes: use a constant of package col", set.Position(n.Pos()), text)
				}
			}
			return true
		})
	})
}

// literal returns the value of a text in quotes.
func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// source returns a name with its selectors and indices, as far as a row is held by
// one.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return source(e.X) + "[]"
	}
	return ""
}

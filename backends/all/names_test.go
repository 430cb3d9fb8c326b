package all

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/codetest"
)

// TestNames reads the program's own source: a backend is known by its name in its
// own folder and in this list alone. Everything else asks for a trait, of its
// Factory or of an optional interface.
func TestNames(t *testing.T) {
	var kinds []string
	for _, f := range Factories(nil) {
		kinds = append(kinds, f.Kind)
	}
	// Where a backend's name is another word: a key of an engine in a plan, and what is
	// run in a container.
	other := map[string]string{"plan/internal/rules/engine.go": "command", "internal/kubeapi/tunnel.go": "command"}
	skip := func(rel string) bool {
		own, in := strings.CutPrefix(rel, "backends/")
		// The drill and what counts lines are no part of the program, and the emulator is one of a backend's
		// own. The client and the simulator know no backend: the words are others there.
		return slices.Contains([]string{"test/drill", "internal/house", "tools", "backends/runpod/runpodtest/cmd", "backends/all", "load", "sim"}, rel) || in && slices.Contains(kinds, own)
	}
	codetest.Each(t, filepath.Join("..", ".."), skip, func(rel string, set *token.FileSet, file *ast.File) {
		for _, at := range named(file, slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return other[rel] == kind })) {
			t.Errorf("%s names a backend: ask for a trait of backends.Factory", set.Position(at))
		}
	})
}

func TestNamed(t *testing.T) {
	for text, want := range map[string]int{
		`import "sweep.dev/sweep/backends/ssh"`:                                     1,
		`var _ = k == "ssh"`:                                                        1,
		`var _ = "ssh" != p.Backend.Kind`:                                           1,
		`func _() { switch k { case "a", "ssh": } }`:                                1,
		`var _ = slices.Contains([]string{"ssh"}, k)`:                               1,
		`var _ = map[string]bool{"ssh": true}`:                                      1,
		`var _ = f("ssh")`:                                                          0,
		"import \"sweep.dev/sweep/backends\"\nvar _ = \"over ssh\" == k\nvar _ = 1": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := named(file, []string{"ssh"}); len(got) != want {
			t.Errorf("%s: %d names, want %d", text, len(got), want)
		}
	}
}

// named lists where a file imports a backend, compares something with a backend's
// name, or has one as a key or in a list.
func named(file *ast.File, kinds []string) (at []token.Pos) {
	isName := func(e ast.Expr) bool {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return false
		}
		text, err := strconv.Unquote(lit.Value)
		return err == nil && slices.Contains(kinds, text)
	}
	look := func(list ...ast.Expr) {
		for _, e := range list {
			if isName(e) {
				at = append(at, e.Pos())
			}
		}
	}
	for _, spec := range file.Imports {
		if kind, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "sweep.dev/sweep/backends/"); ok && slices.Contains(kinds, kind) {
			at = append(at, spec.Pos())
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				look(n.X, n.Y)
			}
		case *ast.CaseClause:
			look(n.List...)
		case *ast.IndexExpr:
			look(n.Index)
		case *ast.KeyValueExpr:
			look(n.Key)
		case *ast.CompositeLit:
			if array, ok := n.Type.(*ast.ArrayType); ok {
				if of, ok := array.Elt.(*ast.Ident); ok && of.Name == "string" {
					look(n.Elts...)
				}
			}
		}
		return true
	})
	return at
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocs_findings holds the tables of docs/run.md against the code: every
// finding and every reason for INVALID that a row can have, and no other.
func TestDocs_findings(t *testing.T) {
	page, err := os.ReadFile("../../docs/run.md")
	if err != nil {
		t.Fatal(err)
	}
	const restarted = "engine_restarted"           // a reason that a collector notes
	remarks := []string{"remarks.go", "server.go"} // of package verdict
	reasons, findings := []string{restarted}, []string{}
	for code, files := range findingCodes(t, "../..") {
		for _, file := range files {
			switch {
			case filepath.Base(filepath.Dir(file)) == "verdict" && !slices.Contains(remarks, filepath.Base(file)):
				reasons = append(reasons, code)
			case code != restarted:
				findings = append(findings, code)
			}
		}
	}
	reasons, findings = once(reasons), once(findings)
	if diff := cmp.Diff(reasons, codesUnder(string(page), "## Two questions")); diff != "" {
		t.Errorf("reasons for INVALID, - in the code, + in docs/run.md:\n%s", diff)
	}
	if diff := cmp.Diff(findings, codesUnder(string(page), "## Findings")); diff != "" {
		t.Errorf("findings, - in the code, + in docs/run.md:\n%s", diff)
	}
}

// codesUnder are the names in the first column of a section's table.
func codesUnder(page, heading string) []string {
	_, section, _ := strings.Cut(page, "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	codes := []string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			codes = append(codes, name[1])
		}
	}
	return once(codes)
}

func once(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// findingCodes are the codes of all findings that the code under root makes, and
// the files that do.
func findingCodes(t *testing.T, root string) map[string][]string {
	t.Helper()
	packages := map[string]*parsed{} // by folder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p := packages[filepath.Dir(path)]
		if p == nil {
			p = &parsed{files: map[string]*ast.File{}, constants: map[string]string{}, takers: map[string]int{}}
			packages[filepath.Dir(path)] = p
		}
		p.files[path] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, p := range packages {
		p.learn()
		for path, f := range p.files {
			for _, e := range p.codes(f) {
				values, ok := p.values(e)
				if !ok {
					t.Errorf("%s: the code of a finding cannot be told", path)
				}
				for _, v := range values {
					found[v] = append(found[v], path)
				}
			}
		}
	}
	return found
}

// parsed is one package.
type parsed struct {
	files     map[string]*ast.File
	constants map[string]string
	takers    map[string]int // functions with a parameter code, and its place
	finds     bool           // it makes findings
}

func (p *parsed) learn() {
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, v := range n.Values {
					if text, ok := literal(v); ok {
						p.constants[n.Names[i].Name] = text
					}
				}
			case *ast.FuncDecl:
				p.take(n.Name.Name, n.Type)
			case *ast.AssignStmt:
				for i, v := range n.Rhs {
					if f, ok := v.(*ast.FuncLit); ok {
						p.take(nameOf(n.Lhs[i]), f.Type)
					}
				}
			case *ast.CompositeLit:
				p.finds = p.finds || len(findingsOf(n)) > 0
			}
			return true
		})
	}
}

func (p *parsed) take(name string, f *ast.FuncType) {
	i := 0
	for _, field := range f.Params.List {
		for _, param := range field.Names {
			if param.Name == "code" && nameOf(field.Type) == "string" {
				p.takers[name] = i
			}
			i++
		}
	}
}

// codes are the expressions of a file that are a finding's code: in a literal of
// one, assigned to a field Code, or handed to a function that takes it.
func (p *parsed) codes(f *ast.File) (list []ast.Expr) {
	if !p.finds {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, f := range findingsOf(n) {
				list = append(list, codeOf(f))
			}
		case *ast.CallExpr:
			if i, ok := p.takers[nameOf(n.Fun)]; ok && i < len(n.Args) {
				list = append(list, n.Args[i])
			}
		case *ast.AssignStmt:
			if s, ok := n.Lhs[0].(*ast.SelectorExpr); ok && s.Sel.Name == "Code" && len(n.Lhs) == 1 {
				list = append(list, n.Rhs[0])
			}
		}
		return true
	})
	return list
}

// findingsOf are the findings of a literal: itself, or the elements of a list.
func findingsOf(l *ast.CompositeLit) (list []*ast.CompositeLit) {
	if a, ok := l.Type.(*ast.ArrayType); ok && nameOf(a.Elt) == "Finding" {
		for _, e := range l.Elts {
			if f, ok := e.(*ast.CompositeLit); ok && f.Type == nil {
				list = append(list, f)
			}
		}
	}
	if nameOf(l.Type) == "Finding" && len(l.Elts) > 0 {
		list = append(list, l)
	}
	return list
}

func codeOf(finding *ast.CompositeLit) ast.Expr {
	for _, e := range finding.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && nameOf(kv.Key) == "Code" {
			return kv.Value
		}
	}
	return finding.Elts[0]
}

// values are what an expression can be. A parameter code, or the Code of another
// thing, is found where it comes from.
func (p *parsed) values(e ast.Expr) ([]string, bool) {
	if text, ok := literal(e); ok {
		return []string{text}, true
	}
	if text, ok := p.constants[nameOf(e)]; ok {
		return []string{text}, true
	}
	if sum, ok := e.(*ast.BinaryExpr); ok {
		prefix, ok := literal(sum.X)
		var list []string
		for _, c := range vocabulary().Collectors {
			list = append(list, prefix+c.Kind)
		}
		return list, ok && strings.EqualFold(nameOf(sum.Y), "kind")
	}
	return nil, strings.EqualFold(nameOf(e), "code")
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// nameOf is the last part of a name, "" for what is none.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

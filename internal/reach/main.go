// Command reach lists the tests that look at a clock (reach clock), or that do more under
// the build tag slow (reach slow): those whose own code, or whose helpers in the same
// package's test files, name it, and those in a file with that tag. For each directory it
// prints a line "DIR TEST|TEST|...", ready for go test -run.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// clock has what reads a clock, waits for one, or is a duration.
var clock = map[string]bool{
	"time.Now": true, "time.Since": true, "time.Until": true, "time.Sleep": true,
	"time.After": true, "time.AfterFunc": true, "time.Tick": true,
	"time.NewTimer": true, "time.NewTicker": true,
	"time.Millisecond": true, "time.Second": true, "time.Minute": true,
	"context.WithTimeout": true, "context.WithDeadline": true,
	"polltest.Until": true, "polltest.Within": true,
}

// more is what a test asks that does more under the tag slow.
var more = map[string]bool{"slow.Tests": true}

// tag is the first line of a file that only the tag slow has.
const tag = "//go:build slow"

func main() {
	kinds := map[string]map[string]bool{"clock": clock, "slow": more}
	if len(os.Args) != 2 || kinds[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: reach clock|slow")
		os.Exit(2)
	}
	if err := list(os.Stdout, ".", kinds[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// list writes the line of each directory below root that has tests which reach one of the
// targets.
func list(w io.Writer, root string, targets map[string]bool) error {
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		if c := constraint(file); c != "" && c != tag && !strings.HasPrefix(c, "//go:build linux") && !strings.HasPrefix(c, "//go:build !") {
			return nil // of a task of its own
		}
		dir := filepath.Dir(path)
		packages[dir] = append(packages[dir], file)
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if tests := reaching(packages[dir], targets); len(tests) > 0 {
			fmt.Fprintln(w, dir, strings.Join(tests, "|"))
		}
	}
	return nil
}

// constraint returns the line of a file that says for which builds it is.
func constraint(file *ast.File) string {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() < file.Package && strings.HasPrefix(c.Text, "//go:build ") {
				return c.Text
			}
		}
	}
	return ""
}

// reaching returns the sorted names of the tests in files that reach a target by calls
// within files, and of those in files with the tag slow if that is asked for. Functions and
// methods of one name count as one.
func reaching(files []*ast.File, targets map[string]bool) []string {
	calls := map[string]map[string]bool{}
	reached := map[string]bool{}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				calls[f.Name.Name] = names(f.Body, calls[f.Name.Name])
				if constraint(file) == tag && targets["slow.Tests"] {
					reached[f.Name.Name] = true
				}
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for name, called := range calls {
			for other := range called {
				if !reached[name] && (targets[other] || reached[other]) {
					reached[name], grown = true, true
				}
			}
		}
	}
	var tests []string
	for name := range reached {
		if strings.HasPrefix(name, "Test") && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests
}

// names adds to known every identifier in body, and every selector of an
// identifier as "x.name".
func names(body ast.Node, known map[string]bool) map[string]bool {
	if known == nil {
		known = map[string]bool{}
	}
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				known[x.Name+"."+n.Sel.Name] = true
			}
			known[n.Sel.Name] = true
		case *ast.Ident:
			known[n.Name] = true
		}
		return true
	})
	return known
}

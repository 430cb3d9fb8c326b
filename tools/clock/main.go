// Command clock lists the tests that look at a clock: those whose own code, or
// whose helpers in the same package's test files, name one. For each directory
// it prints a line "DIR TEST|TEST|...", ready for go test -run.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/polltest"
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

func main() {
	if err := list("."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// list prints the line of each directory below root that has such tests.
func list(root string) error {
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
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		packages[dir] = append(packages[dir], file)
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if tests := timed(packages[dir]); len(tests) > 0 {
			fmt.Println(dir, strings.Join(tests, "|"))
		}
	}
	return nil
}

// timed returns the sorted names of the tests in files that reach a clock by
// calls within files. Functions and methods of one name count as one.
func timed(files []*ast.File) []string {
	calls := map[string]map[string]bool{}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				calls[f.Name.Name] = names(f.Body, calls[f.Name.Name])
			}
		}
	}
	reached := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for name, called := range calls {
			for other := range called {
				if !reached[name] && (clock[other] || reached[other]) {
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

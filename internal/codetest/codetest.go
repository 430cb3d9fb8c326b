// Package codetest reads this repository's own source, for tests of rules that the
// compiler and the linter do not know.
package codetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// few files are not the whole program.
const few = 100

// Each calls check for every file of the program, with its path below root, which
// is the repository's. Tests, packages for tests, hidden folders and testdata are left
// out, and the folders for which skip says so.
func Each(t *testing.T, root string, skip func(rel string) bool, check func(rel string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	each(t, root, func(rel string) bool { return !ofTests(rel) }, skip, check)
}

// EachTest calls check for every test file and every file of a package for tests.
func EachTest(t *testing.T, root string, check func(rel string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	each(t, root, ofTests, func(string) bool { return false }, check)
}

// ofTests reports whether a file is read by the tests alone.
func ofTests(rel string) bool {
	folder := strings.TrimPrefix(path.Dir(rel)+"/", "test/") // the room of what tests the whole
	return strings.HasSuffix(rel, "_test.go") || strings.Contains(folder, "test/")
}

func each(t *testing.T, root string, want, skip func(rel string) bool, check func(rel string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	files := filesOf(t, root, skip, func(rel string) bool { return strings.HasSuffix(rel, ".go") && want(rel) })
	for _, rel := range files {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, rel), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		check(rel, set, file)
	}
}

// filesOf returns the files of the tree that are wanted, by their paths from the root. Hidden
// folders and testdata are not looked into.
func filesOf(t *testing.T, root string, skip, want func(rel string) bool) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case e.IsDir() && rel != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata" || skip(rel)):
			return fs.SkipDir
		case !e.IsDir() && want(rel):
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < few {
		t.Fatalf("only %d files are there", len(files))
	}
	slices.Sort(files)
	return files
}

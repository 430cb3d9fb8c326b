package epoll

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A pointer becomes a uintptr only in the arguments of the system call: in a
// variable it would not keep its memory alive (package unsafe, rule 4).
func TestPointersOfSystemCalls(t *testing.T) {
	paths, err := filepath.Glob("../*/*_linux.go")
	if err != nil {
		t.Fatal(err)
	}
	files, found := token.NewFileSet(), 0
	for _, path := range paths {
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		arguments := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if of, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(of.Sel.Name, "RawSyscall") {
				for _, a := range call.Args {
					arguments[a] = true
				}
			}
			if isPointer(call) {
				found++
				if !arguments[call] {
					t.Errorf("%s: a pointer is kept in a uintptr", files.Position(call.Pos()))
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no system call takes a pointer: the test looks at the wrong files")
	}
}

// isPointer reports whether a call is uintptr(unsafe.Pointer(...)).
func isPointer(call *ast.CallExpr) bool {
	to, ok := call.Fun.(*ast.Ident)
	if !ok || to.Name != "uintptr" || len(call.Args) != 1 {
		return false
	}
	inner, ok := call.Args[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	from, ok := inner.Fun.(*ast.SelectorExpr)
	return ok && from.Sel.Name == "Pointer"
}

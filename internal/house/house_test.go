package main

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/codetest"
)

// TestRooms holds the list of rooms, and that none imports what is not below it. Tests
// may: what they need of other rooms is theirs alone.
func TestRooms(t *testing.T) {
	root := filepath.Join("..", "..")
	folders, err := foldersOf(root)
	if err != nil {
		t.Fatal(err)
	}
	rooms := slices.Concat(slices.Concat(floors...), apart)
	slices.Sort(rooms)
	if !slices.Equal(folders, rooms) {
		t.Errorf("folders at the top level: %q\nwant the rooms %q: see docs/adr/0026-twenty-rooms.md", folders, rooms)
	}
	var packages []pkg
	skip := func(rel string) bool { return rel == "tools" }
	codetest.Each(t, root, skip, func(rel string, _ *token.FileSet, file *ast.File) {
		p := pkg{ImportPath: module + path.Dir(rel)}
		for _, i := range file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			p.Imports = append(p.Imports, name)
		}
		packages = append(packages, p)
	})
	between := imports(packages)
	for _, a := range upward(between) {
		t.Errorf("%s imports %s, which is not below it", a[0], a[1])
	}
	if loop := inCycles(between); len(loop) > 0 {
		t.Errorf("import each other in a circle: %q", loop)
	}
	if between[[2]string{"cmd", "plan"}] == 0 {
		t.Error("cmd imports no plan: the imports were not read")
	}
}

func TestUpward(t *testing.T) {
	packages := []pkg{
		{ImportPath: module + "plan/axes", Imports: []string{module + "result", module + "plan", "fmt"}},
		{ImportPath: module + "result", Imports: []string{module + "executor/event"}},
		{ImportPath: module + "executor", Imports: []string{module + "result", module + "elsewhere"}},
		{ImportPath: module + "load", Imports: []string{module + "sim/core"}}, // side by side
	}
	between := imports(packages)
	if got, want := upward(between), [][2]string{{"executor", "elsewhere"}, {"load", "sim"}, {"result", "executor"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := inCycles(between), []string{"executor", "result"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCodeLines(t *testing.T) {
	source := "// Package a.\npackage a\n\n/* one\ntwo */\nvar b = 1 // c\n/* d */ var e = 2\n\t// f\n"
	if got := codeLines([]byte(source)); got != 3 {
		t.Errorf("%d lines, want 3", got)
	}
}

// Every path of a capability is there, and no file is of two.
func TestCapabilities(t *testing.T) {
	seen := map[string]string{}
	for name, paths := range capabilities {
		for _, p := range paths {
			found, err := filepath.Glob(filepath.Join("..", "..", p) + "*")
			if err != nil || len(found) == 0 {
				t.Errorf("%s: nothing begins with %s", name, p)
			}
			if seen[p] != "" {
				t.Errorf("%s is of %s and of %s", p, seen[p], name)
			}
			seen[p] = name
		}
	}
	for file, want := range map[string]string{
		"load/source/tokens.go": "client", "load/worker/group.go": "several clients", "plan/plan.go": "core",
		"cmd/sweep/logs_kube.go": "Kubernetes", "cmd/sweep/logs.go": "servers' logs", "report/export/vllm.go": "export",
	} {
		if got := capabilityOf(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// What people make in a checkout is no room: binaries, and the runs of the quick start.
func TestFoldersOf(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"plan", "runs", "bin", ".git"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, ".gitignore"), []byte("/bin/\n/runs/\n/sweep\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := foldersOf(root); err != nil || !slices.Equal(got, []string{"plan"}) {
		t.Errorf("%q, %v, want plan alone", got, err)
	}
}

func TestSum(t *testing.T) {
	files := map[string]count{"plan/a.go": {program: 3}, "plan/a_test.go": {rest: 5}, "load/b.go": {program: 2, rest: 1}}
	got := sum(files, roomOf)
	if got["plan"] != (count{3, 5}) || got["load"] != (count{2, 1}) {
		t.Errorf("%v", got)
	}
	if !strings.HasPrefix(roomOf(module+"plan/axes"), "plan") {
		t.Error("the room of a package is not its first folder")
	}
}

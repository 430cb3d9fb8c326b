package main

import (
	"errors"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestDocs_promises checks the tables of docs/reliability.md: P1 to P47 in order,
// each with a test or with what is missing, and each test one that .ci/run runs,
// or a task that the row names.
func TestDocs_promises(t *testing.T) {
	const root, last = "../../../..", 47
	tasks := readTasks(t, root)
	ci := tasks.script(t, readText(t, root+"/.ci/run"))
	rows := regexp.MustCompile(`(?m)^\| P(\d+) \| .+ \| (.+) \|$`).FindAllStringSubmatch(readText(t, root+"/docs/reliability.md"), -1)
	if len(rows) != last {
		t.Errorf("%d promises, want %d", len(rows), last)
	}
	packages := map[string]suite{}
	for i, row := range rows {
		id, held := "P"+row[1], row[2]
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("%s stands where P%d should", id, i+1)
		}
		commands, found := slices.Clone(ci), false
		for _, m := range regexp.MustCompile("`task ([^`]+)`").FindAllStringSubmatch(held, -1) {
			commands = append(commands, tasks.commands(t, m[1])...)
		}
		for _, m := range regexp.MustCompile("`([^`]*)\\.((?:Test|Fuzz)[^`]*)`").FindAllStringSubmatch(held, -1) {
			dir, name := m[1], strings.Split(m[2], "/")
			if _, ok := packages[dir]; !ok {
				packages[dir] = readSuite(t, filepath.Join(root, dir))
			}
			found = true
			built, ok := packages[dir].tests[name[0]]
			switch {
			case !ok:
				t.Errorf("%s: package %s has no %s", id, dir, name[0])
			case !packages[dir].hasCases(name[1:]):
				t.Errorf("%s: %s.%s has no case %s", id, dir, name[0], strings.Join(name[1:], "/"))
			case !slices.ContainsFunc(commands, func(c command) bool { return c.runs(dir, name, built) }):
				t.Errorf("%s: %s.%s is run neither by .ci/run nor by a task that the row names", id, dir, m[2])
			}
		}
		if !found && !strings.Contains(held, "Not yet: ") {
			t.Errorf("%s has no test, and does not say what is missing", id)
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A suite is the tests of a package, each with the build constraint of its file,
// or nil, and the words that the name of a case can be from.
type suite struct {
	tests map[string]constraint.Expr
	words map[string]bool
}

func readSuite(t *testing.T, dir string) suite {
	t.Helper()
	s := suite{map[string]constraint.Expr{}, map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var built constraint.Expr
		for _, g := range f.Comments {
			if g.Pos() < f.Package && constraint.IsGoBuild(g.List[0].Text) {
				if built, err = constraint.Parse(g.List[0].Text); err != nil {
					t.Fatal(err)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					s.tests[n.Name.Name] = built
				}
			case ast.Expr:
				if text, ok := literal(n); ok {
					s.words[strings.ReplaceAll(text, " ", "_")] = true
				}
			}
			return true
		})
	}
	// Cases that are files.
	err = filepath.WalkDir(filepath.Join(dir, "testdata"), func(name string, _ fs.DirEntry, err error) error {
		base, _, _ := strings.Cut(filepath.Base(name), ".")
		s.words[base] = true
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s suite) hasCases(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !s.words[name] })
}

// A command is one go test.
type command struct {
	tags, run string
	packages  []string
}

// runs reports whether the command runs a test, or a case of it, of a package.
func (c command) runs(dir string, name []string, built constraint.Expr) bool {
	in := slices.ContainsFunc(c.packages, func(p string) bool {
		tree, all := strings.CutSuffix(p, "/...")
		return path.Clean(p) == dir || all && (tree == "." || strings.HasPrefix(dir+"/", path.Clean(tree)+"/"))
	})
	if !in || built != nil && !built.Eval(func(tag string) bool {
		return tag == "linux" || tag == "unix" || slices.Contains(strings.Split(c.tags, ","), tag)
	}) {
		return false
	}
	run := strings.Split(c.run, "/")
	for i, part := range run {
		if i >= len(name) || !regexp.MustCompile(part).MatchString(name[i]) {
			return false
		}
	}
	return true
}

// commandsOf returns the tests that a line of a shell runs.
func commandsOf(line string) []command {
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1)
	i := slices.Index(words, "go")
	if i < 0 || i+1 == len(words) || words[i+1] != "test" {
		return nil
	}
	var c command
	words = words[i+2:]
	for i, word := range words {
		switch {
		case word == "-tags":
			c.tags = words[i+1]
		case word == "-run":
			c.run = strings.Trim(words[i+1], "'")
		case strings.HasPrefix(word, "./"):
			c.packages = append(c.packages, word)
		}
	}
	return []command{c}
}

// taskfile is what is read of Taskfile.yml.
type taskfile struct {
	Tasks map[string]struct {
		Deps []string
		Cmd  string
		Cmds []any
		Vars map[string]any
	}
}

func readTasks(t *testing.T, root string) (f taskfile) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readText(t, root+"/Taskfile.yml")), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// script returns the tests that a script runs, by itself or by its tasks.
func (f taskfile) script(t *testing.T, text string) (list []command) {
	t.Helper()
	for line := range strings.Lines(text) {
		if call, ok := strings.CutPrefix(line, "task "); ok {
			list = append(list, f.commands(t, strings.TrimSpace(call))...)
		} else if _, calls, ok := strings.Cut(line, " task "); ok && strings.HasPrefix(line, "beside ") {
			for call := range strings.FieldsSeq(calls) {
				list = append(list, f.commands(t, call)...)
			}
		} else if test := strings.TrimSpace(line); strings.HasPrefix(test, "go test ") { // in a function, or a step
			list = append(list, commandsOf(test)...)
		}
	}
	return list
}

// commands returns the tests that a call of a task runs: NAME KEY=VALUE.
func (f taskfile) commands(t *testing.T, call string) (list []command) {
	t.Helper()
	name, rest, _ := strings.Cut(call, " ")
	task, ok := f.Tasks[name]
	if !ok {
		t.Errorf("there is no task %s", name)
	}
	vars := map[string]string{}
	for key, value := range task.Vars { // {{.KEY | default "VALUE"}}
		text, _ := value.(string)
		_, text, _ = strings.Cut(text, `default "`)
		vars[key], _, _ = strings.Cut(text, `"`)
	}
	for set := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(set, "=")
		vars[key] = value
	}
	for _, dep := range task.Deps {
		list = append(list, f.commands(t, dep)...)
	}
	for _, cmd := range append(task.Cmds, task.Cmd) {
		switch cmd := cmd.(type) {
		case string:
			for key, value := range vars {
				cmd = strings.ReplaceAll(cmd, "{{."+key+"}}", value)
			}
			list = append(list, commandsOf(cmd)...)
		case map[string]any:
			if other, ok := cmd["task"].(string); ok {
				list = append(list, f.commands(t, other)...)
			}
		}
	}
	return list
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

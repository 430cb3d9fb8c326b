package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/engine"
)

// The pages are read by people who type what stands there. Each block of code is
// fenced, and its language says how it is held to the program:
//
//	sh       commands, a line each: parsed, never run
//	console  commands after "$ ", and what they print
//	yaml     a plan or a part of one: schemagen.TestDocs_blocks
//	yml      a part of an engine file: its keys are known
//	sql      a query of docs/data.md: sinks/parquet.TestInterop runs it
//	text     anything else
//
// A console block with output, and a text, has a comment in the line before:
//
//	<!-- run -->              the commands run here, and print lines of this shape
//	<!-- run: sim ARGS -->    the same, with a simulated server at 127.0.0.1:8000
//	<!-- file: NAME -->       the block is this file in later commands of the page
//	<!-- checked: PKG.TEST -->  that test reads the block
//	<!-- shown: REASON -->    it cannot be checked, because of this
//
// go test -tags slow ./cmd/sweep -run TestDocs -update rewrites the lines of blocks that run.
var updateDocs = flag.Bool("update", false, "rewrite the output in README.md and docs")

// shownBlocks is how many blocks nothing checks. A new one wants a reason that is
// as good as that of an old one.
const shownBlocks = 18

// A block is one fenced block of a page.
type block struct {
	page string // below the repository's root
	line int    // of the fence, from 1
	lang string
	mark string // of the comment before it
	text []string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// TestREADME: it stays short, and the plans that it lists for the simulator run there.
func TestREADME(t *testing.T) {
	t.Parallel()
	text := docPages(t)["README.md"]
	if n := strings.Count(text, "\n"); n > 120 {
		t.Errorf("%d lines, want 120 at most", n)
	}
	_, section, found := strings.Cut(text, "These plans run on the simulator")
	section, _, ended := strings.Cut(section, "These want real servers")
	plans := regexp.MustCompile(`plans/\S+\.yaml`).FindAllString(section, -1)
	if !found || !ended || len(plans) < 5 {
		t.Fatalf("the section of the simulator has %q", plans)
	}
	for _, file := range plans {
		src, err := os.ReadFile("../../" + file)
		if err != nil || !regexp.MustCompile(`(?m)^backend:(\n  kind:)? sim$`).Match(src) {
			t.Errorf("%s does not run on the simulator: %v", file, err)
		}
	}
}

// docPages returns the pages with their text, by their paths below the root.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d pages, %v", len(paths), err)
	}
	pages := map[string]string{}
	for _, p := range append(paths, "../../README.md", "../../CONTRIBUTING.md") {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		pages[strings.TrimPrefix(filepath.ToSlash(p), "../../")] = string(data)
	}
	return pages
}

// blocksOf returns the blocks of a page, and where it has code without a fence.
func blocksOf(page, text string) (list []block, bare []int) {
	lines := strings.Split(text, "\n")
	comment := regexp.MustCompile(`^<!-- ((?:run|file|checked|shown)\b.*?) -->$`)
	mark := ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch m := comment.FindStringSubmatch(line); {
		case m != nil:
			mark = m[1]
			continue
		case strings.HasPrefix(line, "```"):
			b := block{page: page, line: i + 1, lang: strings.TrimPrefix(line, "```"), mark: mark}
			for i++; i < len(lines) && lines[i] != "```"; i++ {
				b.text = append(b.text, lines[i])
			}
			list = append(list, b)
		case strings.HasPrefix(line, "    ") && i > 0 && lines[i-1] == "":
			bare = append(bare, i+1)
		}
		if line != "" {
			mark = ""
		}
	}
	return list, bare
}

// commands returns those of a block, with the lines that a \ or a | goes on to.
func (b block) commands() (list []string) {
	open := false
	for _, line := range b.text {
		if b.lang == "console" && !open {
			var ok bool
			if line, ok = strings.CutPrefix(line, "$ "); !ok {
				continue
			}
		}
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if open {
			list[len(list)-1] += " " + line
		} else {
			list = append(list, line)
		}
		open = strings.HasSuffix(line, "|") || strings.HasSuffix(line, "\\")
	}
	return list
}

// printed reports whether a console block shows output.
func (b block) printed() bool {
	return len(b.text) > len(b.commands()) && slices.ContainsFunc(b.text, func(l string) bool { return !strings.HasPrefix(l, "$ ") && !strings.HasPrefix(l, "  ") && l != "" })
}

// otherPrograms are the programs of others that the pages use.
var otherPrograms = []string{"alias", "crontab", "curl", "docker", "duckdb", "export", "git", "grep", "kill", "kubectl", "ssh-keyscan", "sed", ".", "./my-cloud", "echo", "bin/runpod-emulator", "source", "sha256sum", "sudo", "tar"}

func TestDocs(t *testing.T) {
	t.Parallel()
	shown := 0
	for page, text := range docPages(t) {
		list, bare := blocksOf(page, text)
		for _, line := range bare {
			t.Errorf("%s:%d: code without a fence: begin it with ```sh, ```console, ```yaml or ```text", page, line)
		}
		for _, b := range list {
			kind, rest, _ := strings.Cut(b.mark, ":")
			if kind == "shown" {
				shown++
				if strings.TrimSpace(rest) == "" {
					t.Errorf("%s: a block that is only shown wants a reason: <!-- shown: REASON -->", b)
				}
			}
			if kind == "checked" {
				if err := testExists(strings.TrimSpace(rest)); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			}
			switch b.lang {
			case "sh", "console":
				if b.lang == "console" && b.printed() && kind == "" {
					t.Errorf("%s: this output is not checked: write <!-- run -->, <!-- checked: PKG.TEST --> or <!-- shown: REASON --> in the line before", b)
				}
				for _, c := range b.commands() {
					if err := checkCommand(c); err != nil {
						t.Errorf("%s: %s: %v", b, c, err)
					}
				}
			case "yaml": // schemagen.TestDocs_blocks
			case "yml":
				if err := checkEngineFile(strings.Join(b.text, "\n")); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			case "sql":
				if b.page != "docs/data.md" {
					t.Errorf("%s: a query that no test runs: it belongs into docs/data.md", b)
				}
			case "json", "text":
				if b.lang == "json" && !json.Valid([]byte(strings.Join(b.text, "\n"))) {
					t.Errorf("%s: this is no JSON", b)
				}
				if kind != "checked" && kind != "shown" && kind != "file" { // a file is read by a command
					t.Errorf("%s: this text is not checked: write <!-- checked: PKG.TEST --> or <!-- shown: REASON --> in the line before", b)
				}
			default:
				t.Errorf("%s: a block of %q: want sh, console, yaml, yml, sql, json or text", b, b.lang)
			}
		}
	}
	if shown != shownBlocks {
		t.Errorf("%d blocks are shown and not checked, want %d: check the new one, or change shownBlocks", shown, shownBlocks)
	}
}

// testExists checks a test's name, as in cmd/sweep.TestDocs.
func testExists(name string) error {
	at := strings.LastIndexByte(name, '.')
	if at < 0 {
		return fmt.Errorf("%q: want the package and the test, as cmd/sweep.TestDocs", name)
	}
	files, err := filepath.Glob(filepath.Join("../..", name[:at], "*_test.go"))
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if strings.Contains(string(data), "\nfunc "+name[at+1:]+"(") {
			return nil
		}
	}
	return fmt.Errorf("there is no test %s", name)
}

// wordsOf splits a command line, with quotes and without its comment.
func wordsOf(line string) (list []string) {
	for _, m := range regexp.MustCompile(`#.*$|'([^']*)'|"([^"]*)"|[^\s]+`).FindAllStringSubmatch(line, -1) {
		switch {
		case strings.HasPrefix(m[0], "#"):
			return list
		case m[1] != "":
			list = append(list, m[1])
		case m[2] != "":
			list = append(list, m[2])
		default:
			list = append(list, m[0])
		}
	}
	return list
}

// checkCommand checks one line that a reader may type: sweep's commands and flags,
// the project's tasks and tests, the files that it names.
func checkCommand(line string) error {
	for part := range strings.SplitSeq(line, " | ") {
		part, _, _ = strings.Cut(part, " || ")
		w := wordsOf(strings.TrimSuffix(part, "&"))
		for len(w) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(w[0]) {
			w = w[1:]
		}
		if len(w) == 0 {
			continue
		}
		if i := slices.IndexFunc(w, func(s string) bool { return s == ">" || s == ">>" || strings.HasPrefix(s, "<") }); i > 0 {
			w = w[:i]
		}
		var err error
		switch {
		case w[0] == "sweep" || w[0] == "bin/sweep":
			err = checkSweep(w[1:])
		case len(w) > 2 && w[0] == "go" && w[1] == "run" && w[2] == "./cmd/sweep":
			err = checkSweep(w[3:])
		case len(w) > 3 && w[0] == "go" && w[1] == "tool" && w[3] == "task":
			err = checkTasks(w[4:])
		case w[0] == "task":
			err = checkTasks(w[1:])
		case len(w) > 2 && w[0] == "go":
			err = checkGo(w[1:])
		case !slices.Contains(otherPrograms, w[0]):
			err = fmt.Errorf("%q is no program that the pages may use: see otherPrograms", w[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSweep parses a command line of sweep as the program does, and looks for the
// files of this repository that it names.
func checkSweep(args []string) error {
	at := newApp().root()
	var rest []string
	for i := 0; i < len(args) && !at.SkipFlagParsing; i++ { // sim has the flags of an engine
		arg := args[i]
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			next := at.Command(arg)
			switch {
			case next != nil && len(rest) == 0:
				at = next
			case at.Name == "sweep":
				return fmt.Errorf("sweep has no command %q", arg)
			default:
				rest = append(rest, arg)
			}
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		f := namedFlag(at, name)
		if f == nil {
			return fmt.Errorf("sweep %s has no flag %s", at.Name, arg)
		}
		if v, ok := f.(cli.DocGenerationFlag); ok && v.TakesValue() && !given {
			if i++; i == len(args) {
				return fmt.Errorf("%s wants a value", arg)
			}
			value = args[i]
		}
		if name == "set" && !strings.Contains(value, "=") {
			return fmt.Errorf("--set %s: want PATH=VALUE", value)
		}
	}
	for _, arg := range rest {
		if strings.HasPrefix(arg, "plans/") {
			if _, err := os.Stat(filepath.Join("../..", arg)); err != nil {
				return fmt.Errorf("there is no %s", arg)
			}
		}
	}
	return nil
}

// checkTasks checks names of tasks, with their variables.
func checkTasks(names []string) error {
	data, err := os.ReadFile("../../Taskfile.yml")
	if err != nil {
		return err
	}
	var file struct {
		Tasks map[string]any `yaml:"tasks"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := file.Tasks[name]; !ok && !strings.Contains(name, "=") && !strings.HasPrefix(name, "-") {
			return fmt.Errorf("there is no task %s", name)
		}
	}
	return nil
}

// checkGo checks the packages and the test of a call of the go command.
func checkGo(args []string) error {
	pkg := ""
	for i, arg := range args {
		if strings.HasPrefix(arg, "./") && arg != "./..." {
			pkg = strings.TrimPrefix(arg, "./")
			if _, err := os.Stat(filepath.Join("../..", pkg)); err != nil {
				return fmt.Errorf("there is no package %s", arg)
			}
		}
		if arg == "-run" && i+1 < len(args) && strings.HasPrefix(args[i+1], "Test") {
			if err := testExists(pkg + "." + args[i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEngineFile checks that a part of an engine file has known keys.
func checkEngineFile(text string) error {
	var part map[string]any
	if err := yaml.Unmarshal([]byte(text), &part); err != nil {
		return err
	}
	data, err := os.ReadFile("../../schemas/engine.schema.json")
	if err != nil {
		return err
	}
	for key := range part {
		// A part of metrics.series is indented, and its keys are quantities.
		if strings.HasPrefix(text, " ") {
			if !slices.ContainsFunc(engine.Quantities(), func(q engine.Quantity) bool { return q.Name == key }) {
				return fmt.Errorf("no series of an engine file is a %s", key)
			}
			continue
		}
		if !strings.Contains(string(data), `"`+key+`": {`) {
			return fmt.Errorf("an engine file has no key %s", key)
		}
	}
	return nil
}

// TestDocs_links looks for the file and the heading of every link within the pages.
func TestDocs_links(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^):#\s]*)(?:#([^)\s]+))?\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	other := regexp.MustCompile(`[^\w\- ]`)
	for page, text := range docPages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, at := text, page
			if m[1] != "" {
				at = filepath.Join(filepath.Dir(page), m[1])
				data, err := os.ReadFile(filepath.Join("../..", at))
				if info, e := os.Stat(filepath.Join("../..", at)); err != nil && (e != nil || !info.IsDir()) {
					t.Errorf("%s: there is no %s", page, at)
					continue
				}
				target = string(data)
			}
			found := m[2] == "" || slices.ContainsFunc(heading.FindAllStringSubmatch(target, -1), func(h []string) bool {
				return strings.ReplaceAll(other.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == m[2]
			})
			if !found {
				t.Errorf("%s: %s has no heading #%s", page, at, m[2])
			}
		}
	}
}

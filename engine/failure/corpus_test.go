package failure_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/failure"
)

var update = flag.Bool("update", false, "write the hints and changes of the corpus anew")

const corpusDir = "testdata"

// A failed is one log of the corpus: how a server ended, and what is to be
// made of it.
type failed struct {
	Log    string `yaml:"log"`
	Source string `yaml:"source"`
	Ending ending `yaml:"end,omitempty"`
	Class  string `yaml:"class"`
	Line   string `yaml:"line,omitempty"` // part of the line that says so; "" is the last
	Hint   string `yaml:"hint,omitempty"`
	Change string `yaml:"change,omitempty"`

	lines []string
}

// An ending is an End as golden.yaml has it.
type ending struct {
	Exited     bool     `yaml:"exited,omitempty"`
	Code       int      `yaml:"code,omitempty"`
	Signal     string   `yaml:"signal,omitempty"`
	OOMKilled  bool     `yaml:"oomkilled,omitempty"`
	TimedOut   bool     `yaml:"timedout,omitempty"`
	Hung       bool     `yaml:"hung,omitempty"`
	WrongModel []string `yaml:"wrongmodel,omitempty"`
}

func (f *failed) end() failure.End {
	e := f.Ending
	return failure.End{Exited: e.Exited, Code: e.Code, Signal: e.Signal, OOMKilled: e.OOMKilled, TimedOut: e.TimedOut, Hung: e.Hung, WrongModel: e.WrongModel}
}

// profile returns the built-in one that the log's folder names, or one like it.
func (f *failed) profile(t *testing.T) *engine.Profile {
	t.Helper()
	name := filepath.Dir(f.Log)
	if p, ok := engine.Lookup(name); ok {
		return p
	}
	return &engine.Profile{Name: name}
}

func corpus(t *testing.T) []*failed {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(corpusDir, "golden.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var list []*failed
	if err := yaml.UnmarshalWithOptions(src, &list, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		f.lines = tailOf(t, filepath.Join(corpusDir, f.Log))
		if f.Source == "" {
			t.Errorf("%s: where is it from?", f.Log)
		}
	}
	return list
}

func tailOf(t *testing.T, path string) []string {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lines, err := failure.Tail(r, failure.TailLines)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestFailures_corpus(t *testing.T) {
	all := corpus(t)
	perClass, recorded := map[string]int{}, 0
	for _, f := range all {
		got := f.profile(t).Classify(f.lines, f.end())
		if *update {
			f.Hint, f.Change = got.Hint, got.Change
		}
		if got.Class != f.Class || !strings.Contains(got.Line, f.Line) || got.Hint != f.Hint || got.Change != f.Change {
			t.Errorf("%s:\n got %q by %q, hint %q, change %q\nwant %q by %q, hint %q, change %q",
				f.Log, got.Class, got.Line, got.Hint, got.Change, f.Class, f.Line, f.Hint, f.Change)
		}
		if got.Says == "" {
			t.Errorf("%s: class %q says nothing", f.Log, got.Class)
		}
		if strings.Contains(got.Advice(), "${") && !strings.Contains(got.Advice(), "${HF_TOKEN}") {
			t.Errorf("%s: a group was not filled in: %q", f.Log, got.Advice())
		}
		perClass[got.Class]++
		if f.Source == "recorded" {
			recorded++
		}
	}
	if *update {
		writeGolden(t, all)
	}
	t.Logf("%d logs, %d of them recorded, in %d classes: %v", len(all), recorded, len(perClass), perClass)
	for _, c := range failure.Classes() {
		if perClass[c.Name] == 0 {
			t.Errorf("no log is of class %q", c.Name)
		}
	}
	files, err := filepath.Glob(filepath.Join(corpusDir, "*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name, _ := filepath.Rel(corpusDir, path)
		if filepath.Dir(name) != "healthy" && !slices.ContainsFunc(all, func(f *failed) bool { return f.Log == name }) {
			t.Errorf("%s is not in golden.yaml", name)
		}
	}
}

func writeGolden(t *testing.T, all []*failed) {
	t.Helper()
	path := filepath.Join(corpusDir, "golden.yaml")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(old), "\n- log:")
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte(head+"\n"), text...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every entry of the tables is the one that explains some log of the corpus.
func TestFailures_eachEntry(t *testing.T) {
	used := map[string]bool{}
	key := func(p *engine.Profile, f failure.Text) string {
		if slices.ContainsFunc(p.Failures, func(own failure.Text) bool { return own == f }) {
			return p.Name + ": " + f.Match
		}
		return f.Match
	}
	for _, f := range corpus(t) {
		p := f.profile(t)
		if e, ok := failure.Explains(p.Failures, f.lines); ok {
			used[key(p, e)] = true
		}
	}
	for _, e := range failure.Common() {
		if !used[e.Match] {
			t.Errorf("no log of the corpus is explained by %s %q", e.Class, e.Match)
		}
	}
	for _, name := range engine.Names() {
		p, _ := engine.Lookup(name)
		if p.Like != "" {
			continue // the entries of the one that it is like
		}
		for _, e := range p.Failures {
			if !used[name+": "+e.Match] {
				t.Errorf("no log of the corpus is explained by %s's %s %q", name, e.Class, e.Match)
			}
		}
	}
}

// explained reports whether an entry that is no wrapper explains a log.
func (f *failed) explained(t *testing.T) bool {
	e, ok := failure.Explains(f.profile(t).Failures, f.lines)
	return ok && !e.Wrapper
}

// A log is explained in the same way whatever stands around its lines.
func TestFailures_mutations(t *testing.T) {
	const indent = "        "
	each := func(change func(i int, line string) []string) func([]string) []string {
		return func(lines []string) []string {
			var out []string
			for i, l := range lines {
				out = append(out, change(i, l)...)
			}
			return out
		}
	}
	prefix := func(text string) func([]string) []string {
		return each(func(_ int, l string) []string { return []string{text + l} })
	}
	mutations := map[string]func([]string) []string{
		"colours": each(func(_ int, l string) []string {
			return []string{"\x1b[0;36m" + strings.Replace(l, " ", "\x1b[0m \x1b[1;31m", 2) + "\x1b[0m"}
		}),
		"CRLF":            each(func(_ int, l string) []string { return []string{l + "\r"} }),
		"Kubernetes":      prefix("2026-01-02T03:04:05.123456789Z stderr F "),
		"a process' name": prefix("(EngineCore pid=1) ERROR 01-02 10:11:12 [core.py:1104] "),
		"compose":         prefix("server-1  | "),
		"two processes": each(func(i int, l string) []string {
			return []string{l, fmt.Sprintf("(Worker_TP1 pid=%d) INFO 01-02 10:11:12 [worker.py:9] step %d", i, i)}
		}),
		"twice":       func(lines []string) []string { return slices.Concat(lines, lines) },
		"rulers":      each(func(_ int, l string) []string { return []string{l, strings.Repeat("=", 80)} }),
		"blank lines": each(func(_ int, l string) []string { return []string{"", l, indent} }),
		"no UTF-8":    each(func(_ int, l string) []string { return []string{l + " \xff\xfe"} }),
		"a healthy before": func(lines []string) []string {
			return slices.Concat(tailOf(t, filepath.Join(corpusDir, "healthy", "vllm.log")), lines)
		},
		"a long traceback and its wrapper after": func(lines []string) []string {
			out := slices.Clone(lines)
			for i := range 380 - len(lines) {
				out = append(out, fmt.Sprintf("  File \"/opt/x.py\", line %d, in f", i))
			}
			return append(out, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
		},
	}
	for name, mutate := range mutations {
		for _, f := range corpus(t) {
			got := f.profile(t).Classify(mutate(slices.Clone(f.lines)), f.end())
			if strings.HasSuffix(name, "after") && got.Class == "wrapper" && !f.explained(t) {
				continue // only its end explained it, which says less than a wrapper
			}
			if got.Class != f.Class {
				t.Errorf("%s, %s: got %q by %q, want %q", f.Log, name, got.Class, got.Line, f.Class)
			}
		}
	}
}

// A log that ends in the midst gives the same class, or none, or the one of a
// more general entry: what a part of a log says exactly, all of it says too.
func TestFailures_cut(t *testing.T) {
	for _, f := range corpus(t) {
		p := f.profile(t)
		whole, _ := failure.Explains(p.Failures, f.lines)
		for n := 0; n < len(f.lines); n += 1 + len(f.lines)/20 {
			half := f.lines[n][:len(f.lines[n])/2]
			entry, ok := failure.Explains(p.Failures, append(slices.Clone(f.lines[:n]), half))
			if ok && !entry.Wrapper && entry.Class != f.Class && order(p, entry) < order(p, whole) {
				t.Errorf("%s until line %d: %q, which the whole log is not", f.Log, n+1, entry.Class)
			}
		}
	}
}

// The texts by which most entries are ruled out never rule out a match.
func TestPattern_literals(t *testing.T) {
	for _, f := range corpus(t) {
		for _, text := range failure.Overlooked(f.lines) {
			t.Errorf("%s: a line matches %q, and is not found by it", f.Log, text.Match)
		}
	}
}

func order(p *engine.Profile, f failure.Text) int {
	return slices.Index(slices.Concat(p.Failures, failure.Common()), f)
}

// Servers that were well say nothing that is taken for a failure.
func TestFailures_healthy(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpusDir, "healthy", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no logs of healthy servers: %v", err)
	}
	for _, path := range files {
		lines := tailOf(t, path)
		for _, name := range engine.Names() {
			p, _ := engine.Lookup(name)
			if got := p.Classify(lines, failure.End{Exited: true}); got.Class != failure.ClassExit {
				t.Errorf("%s for %s: %q by %q", filepath.Base(path), name, got.Class, got.Line)
			}
		}
	}
}

// An engine that a plan names otherwise is changed under its name there.
func TestClassify_engineKey(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	lines := []string{"max_num_seqs (256) exceeds available Mamba cache blocks (211)"}
	for key, want := range map[string]string{
		"":         "engines.vllm.args.max-num-seqs: 211",
		"fast":     "engines.fast.args.max-num-seqs: 211",
		"a$1${2}b": "engines.a$1${2}b.args.max-num-seqs: 211",
	} {
		if got := p.Classify(lines, failure.End{Exited: true, Code: 1, Engine: key}).Change; got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

func TestClasses_table(t *testing.T) {
	known := map[string]bool{}
	for _, c := range failure.Classes() {
		if known[c.Name] || c.Says == "" || strings.HasSuffix(c.Says, ".") {
			t.Errorf("%q: said twice, not at all, or with a full stop: %q", c.Name, c.Says)
		}
		known[c.Name] = true
	}
	lists := [][]failure.Text{failure.Common()}
	for _, name := range engine.Names() {
		p, _ := engine.Lookup(name)
		lists = append(lists, p.Failures)
	}
	for _, e := range slices.Concat(lists...) {
		if !known[e.Class] {
			t.Errorf("%q is in no table: %s", e.Class, e.Match)
		}
		if !e.Wrapper && e.Change == "" {
			t.Errorf("%s %q does not say what to change in the plan", e.Class, e.Match)
		}
	}
}

// docs/failures.md lists the classes as the program knows them.
func TestClasses_documented(t *testing.T) {
	const path = "../../docs/failures.md"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(src)) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, c := range failure.Classes() {
		want = append(want, fmt.Sprintf("| `%s` | %s |", c.Name, c.Says))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

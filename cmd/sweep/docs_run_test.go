package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readersServer is the address of a server in the pages.
const readersServer = "http://127.0.0.1:8000"

// TestDocs_run runs the blocks that say so, a page's in one folder one after
// another as a reader would, and compares what they print with what is shown.
func TestDocs_run(t *testing.T) {
	t.Parallel()
	for page, text := range docPages(t) {
		list, _ := blocksOf(page, text)
		list = slices.DeleteFunc(list, func(b block) bool { return !strings.HasPrefix(b.mark, "run") && !strings.HasPrefix(b.mark, "file:") })
		if len(list) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			// A burst of other work on this machine can leave a cell undecided, and that is
			// what the page then shows. It does not come three times.
			var wrong []string
			for range 3 {
				if wrong = runPage(t, page, text, list); len(wrong) == 0 {
					return
				}
			}
			for _, text := range wrong {
				t.Error(text)
			}
		})
	}
}

// runPage runs the blocks of a page, and returns where it shows something else; with
// -update it rewrites that.
func runPage(t *testing.T, page, text string, list []block) (wrong []string) {
	dir := t.TempDir()
	plans, err := filepath.Abs("../../plans")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(plans, filepath.Join(dir, "plans")); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	url := ""
	for _, b := range slices.Backward(list) { // the first server serves the whole page
		if args, ok := strings.CutPrefix(b.mark, "run: sim"); ok {
			url = strings.TrimSpace(args)
		}
	}
	if url != "" {
		url = startSim(t, strings.Fields(url)...)
	}
	type change struct {
		from, to int // lines of the page, from 0
		lines    []string
	}
	var changes []change
	for _, b := range list {
		if name, ok := strings.CutPrefix(b.mark, "file: "); ok {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(strings.Join(b.text, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, part := range b.parts() {
			got := runShown(t, dir, url, part.command)
			now, ok := match(part.shown, got)
			if ok && !*updateDocs {
				continue
			}
			if !*updateDocs {
				wrong = append(wrong, fmt.Sprintf("%s: %s\nprints\n%s\n\nand the page shows\n%s\n\ngo test ./cmd/sweep -run TestDocs_run -update rewrites it", b, part.command, strings.Join(got, "\n"), strings.Join(part.shown, "\n")))
				continue
			}
			from := b.line + part.at
			changes = append(changes, change{from, from + len(part.shown), now})
		}
	}
	for _, c := range slices.Backward(changes) {
		lines = slices.Replace(lines, c.from, c.to, c.lines...)
	}
	if len(changes) > 0 {
		if err := os.WriteFile(filepath.Join("../..", page), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return wrong
}

// A part of a console block is a command and the lines that it prints.
type part struct {
	command string
	at      int // where the lines begin in the block
	shown   []string
}

func (b block) parts() (list []part) {
	for i, line := range b.text {
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, part{command: c, at: i + 1})
		} else if len(list) > 0 {
			p := &list[len(list)-1]
			p.shown = append(p.shown, line)
		}
	}
	return list
}

// runShown runs one command of a page in dir and returns the lines that it prints:
// first what people are told, then the result. A run is kept from being judged by
// how busy this machine is.
func runShown(t *testing.T, dir, url, command string) []string {
	t.Helper()
	w := wordsOf(command)
	if len(w) > 2 && w[0] == "go" {
		w = w[2:]
	}
	if w[0] != "sweep" && w[0] != "./cmd/sweep" {
		t.Fatalf("%s: only commands of sweep can be run", command)
	}
	args := w[1:]
	if args[0] == "sim" {
		return nil // it runs already
	}
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, readersServer, url)
	}
	// A busy machine must not decide what is printed: a run gets wider bounds, which
	// bench does not take.
	codes := []int{exitOK, exitSLO}
	switch args[0] {
	case "bench":
		codes = append(codes, exitIncomplete)
	case "run":
		args = slices.Concat(args[:1], rehearsal, args[1:])
		plan, err := os.ReadFile(filepath.Join(dir, args[len(args)-1]))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(plan), "kind: endpoint") {
			args = slices.Insert(args, 1, "--set", "backend.url="+url)
		}
	}
	got := sweep(t, dir, []string{"NO_COLOR=1", "XDG_CACHE_HOME=" + filepath.Join(dir, ".cache")}, args...)
	if !slices.Contains(codes, got.code) {
		t.Fatalf("%s: exit %d\n%s%s", command, got.code, got.stderr, got.stdout)
	}
	out := got.stderr + got.stdout
	for old, now := range maps.All(map[string]string{url: readersServer, strings.TrimPrefix(url, "http://"): "127.0.0.1:8000"}) {
		if old != "" {
			out = strings.ReplaceAll(out, old, now)
		}
	}
	out = strings.ReplaceAll(out, dir+"/", "")
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	return slices.DeleteFunc(lines, func(l string) bool {
		return strings.Contains(l, "] ETA ") || strings.HasPrefix(l, "        INVALID: ") || strings.HasPrefix(l, "        undecided: ")
	})
}

// match compares lines by their shape: figures, durations, marks of cells and the
// space between columns may differ. "..." stands for any lines. now is what the
// page should show: the new lines in the places of the old.
func match(shown, got []string) (now []string, ok bool) {
	rest, skip := got, false
	for _, line := range shown {
		if strings.TrimSpace(line) == "..." {
			skip = true
			now = append(now, line)
			continue
		}
		at := slices.IndexFunc(rest, func(s string) bool { return shapeOf(s) == shapeOf(line) })
		if at < 0 || at > 0 && !skip {
			return got, false
		}
		now = append(now, rest[at])
		rest, skip = rest[at+1:], false
	}
	if len(rest) > 0 && !skip {
		return got, false
	}
	return now, true
}

var shapes = []struct {
	from *regexp.Regexp
	to   string
}{
	// The judgement of a cell.
	{regexp.MustCompile(`: \d+ cells?: .*`), ": M"},
	{regexp.MustCompile(`^Marks: .*`), "Marks"},
	{regexp.MustCompile(`SIMULATED .*`), "M"},
	{regexp.MustCompile(`^\s+[^\s\w(] [a-z].*`), "legend"},
	{regexp.MustCompile(`^(Best)?(\s+[a-z_]+=\d+)( at |: ).*`), "$1$2 M"},
	{regexp.MustCompile(`(^|\s)[^\s\w(]\s+(\d)`), "$1 $2"},
	{regexp.MustCompile(`(\d)\?([/)])`), "$1$2"},
	{regexp.MustCompile(`, (SLO|INVALID) .*$`), ""},
	{regexp.MustCompile(`±\S+`), "±"},
	{regexp.MustCompile(`\s+(<- .*|\?|misses .*)$`), ""},
	// Ids, times and figures.
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?\b`), "T"},
	{regexp.MustCompile(`\b[0-9a-f]{8,}\b`), "I"},
	{regexp.MustCompile(`(\d+m)?\d+(\.\d+)?(µs|us|ms|s|m)\b`), "N s"},
	{regexp.MustCompile(`\d[\d,.]*(e[+-]\d+)?`), "N"},
	{regexp.MustCompile(`[-─]{2,}`), "-"},
	{regexp.MustCompile(`\s+`), " "},
}

// shapeOf is a line without what differs from run to run.
func shapeOf(line string) string {
	for _, s := range shapes {
		line = s.from.ReplaceAllString(line, s.to)
	}
	return strings.TrimSpace(line)
}

func TestMatch(t *testing.T) {
	t.Parallel()
	got := strings.Split("a 12 ms\nb\n  8  * 603  50.2/12.6 (95)\nlast 1m2s", "\n")
	for _, c := range []struct {
		shown string
		ok    bool
	}{
		{"a 9.5 ms\nb\n  8   + 7   5/1 (9)\nlast 2s", true},
		{"a 9.5 ms\n...\nlast 2s", true},
		{"...", true},
		{"a 9.5 ms\n...", true},
		{"a 9.5 ms\nlast 2s", false},
		{"a 9.5 s\n...", false},
		{"...\nlast 2s\nmore", false},
		{"a 9.5 ms", false},
	} {
		if _, ok := match(strings.Split(c.shown, "\n"), got); ok != c.ok {
			t.Errorf("match(%q) = %v", c.shown, ok)
		}
	}
	now, _ := match([]string{"a 1 ms", "..."}, got)
	if !slices.Equal(now, []string{"a 12 ms", "..."}) {
		t.Errorf("the page would show %q", now)
	}
}

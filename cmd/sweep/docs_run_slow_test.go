//go:build slow

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
			// what the page then shows. It does not come five times.
			var wrong []string
			for range 5 {
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
				wrong = append(wrong, fmt.Sprintf("%s: %s\nprints\n%s\n\nand the page shows\n%s\n\ngo test -tags slow ./cmd/sweep -run TestDocs_run -update rewrites it", b, part.command, strings.Join(got, "\n"), strings.Join(part.shown, "\n")))
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
	if args[0] == "run" {
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
	if !slices.Contains(ranThrough, got.code) {
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

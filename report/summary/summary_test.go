package summary

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/reporttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestSummary holds each testdata/*.txtar: the run that it describes, and what
// is said of it. The files narrow.txt and terminal.txt are for terminals of 60 and 80 columns, and
// colour.txt has what is painted between the verdict's braces.
func TestSummary(t *testing.T) {
	t.Parallel()
	styles := map[string]draw.Style{
		"summary.txt":  {},
		"summary.md":   {Markdown: true},
		"narrow.txt":   {Width: 60},
		"terminal.txt": {Width: 80},
		"colour.txt":   {Paint: func(v conclude.Verdict, s string) string { return fmt.Sprintf("{%s:%s}", v, s) }},
	}
	reporttest.Golden(t, "testdata/*.txtar", *update, reporttest.Described, func(t *testing.T, name string, run *report.Run) string {
		style, ok := styles[name]
		if !ok {
			t.Fatalf("there is no style %s", name)
		}
		var b strings.Builder
		if err := Write(&b, run, style); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(b.String(), run.Dir, "DIR")
		checkHarmless(t, name, got)
		return got
	})
}

var (
	control  = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e\u2066-\u2069]")
	workflow = regexp.MustCompile(`(?m)^\s*::|##\[`)
	html     = regexp.MustCompile(`(?:^|[^\\])<[A-Za-z/!]`)
)

// checkHarmless holds that no text of an engine drives a terminal, a CI runner
// or a browser.
func checkHarmless(t *testing.T, name, text string) {
	t.Helper()
	for what, re := range map[string]*regexp.Regexp{"a control character": control, "a workflow command": workflow} {
		if found := re.FindString(text); found != "" {
			t.Errorf("%s: %s: %q", name, what, found)
		}
	}
	if found := html.FindString(text); strings.HasSuffix(name, ".md") && found != "" {
		t.Errorf("%s: HTML: %q", name, found)
	}
	if limit := map[string]int{"narrow.txt": 60, "terminal.txt": 80}[name]; limit > 0 {
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > limit && !strings.Contains(line, "| ") && !strings.Contains(line, "DIR") {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
}

func TestSummary_missingEngine(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, `
plan p
axes engine! concurrency
cell vllm 1
  failed start error="spec|start vllm: not found"
`)
	var b strings.Builder
	if err := Write(&b, run, draw.Style{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "engines.NAME.command") {
		t.Errorf("nothing says what to do about an engine that is not there:\n%s", b.String())
	}
}

// TestSummary_writeError holds that a full disk is told.
func TestSummary_writeError(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	run := reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  ok tok=1")
	if err := Write(writerFunc(func([]byte) (int, error) { return 0, full }), run, draw.Style{}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

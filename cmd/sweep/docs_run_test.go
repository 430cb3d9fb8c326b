package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
	{regexp.MustCompile(` \(\d+ requests\)`), ""},
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

// shapeOf returns a line without what differs from run to run.
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

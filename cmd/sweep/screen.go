package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"sweep.dev/sweep/internal/plaintext"
)

// A screen keeps lines at the bottom of a terminal and redraws them in place.
// Each change is one write, so that it is never half shown. The nil screen
// draws nothing.
type screen struct {
	w     io.Writer
	size  func() (columns, rows int)
	drawn []string // our lines, above the cursor
}

// draw puts lines in place of those that are there. What does not fit on the
// terminal is left out: the cursor cannot go back above its top.
func (s *screen) draw(lines []string) {
	if s == nil {
		return
	}
	s.replace("", lines)
}

// say prints a text that stays, and below it our lines.
func (s *screen) say(text string, lines []string) { s.replace(text+"\n", lines) }

func (s *screen) replace(above string, lines []string) {
	width, height := s.size()
	if most := max(1, height-1); len(lines) > most {
		left := len(lines) - most + 1
		lines = append(append([]string{}, lines[:most-1]...), fmt.Sprintf("  ... and %d more", left))
	}
	var b strings.Builder
	if up := s.rows(width); up > 0 {
		// The carriage return matters: the terminal itself writes "^C".
		fmt.Fprintf(&b, "\r\x1b[%dA\x1b[J", up)
	}
	b.WriteString(above)
	fresh := make([]string, len(lines))
	for i, l := range lines {
		fresh[i] = cut(l, width)
		b.WriteString(fresh[i] + "\n")
	}
	s.drawn = fresh
	if b.Len() > 0 {
		io.WriteString(s.w, b.String()) //nolint:errcheck // a terminal that is gone is no reason to stop a run
	}
}

// rows returns how much of the terminal our lines take now: one that has become
// narrower since they were drawn has wrapped them.
func (s *screen) rows(width int) int {
	n := 0
	for _, l := range s.drawn {
		n += max(1, (utf8.RuneCountInString(l)+width-1)/max(1, width))
	}
	return n
}

// cut shortens a line to the terminal, which would wrap it and spoil the redraw.
func cut(s string, width int) string {
	r := []rune(s)
	if width < 2 || len(r) < width {
		return s
	}
	return strings.TrimRight(string(r[:width-2]), " ") + "…"
}

// wrap breaks a text that is too long for the terminal at its spaces; the
// lines after the first are indented.
func wrap(s string, width int) string { return plaintext.Wrap(s, width, "    ") }

// quotedLine is a line of a file that is shown, with its number or the place in it.
var quotedLine = regexp.MustCompile(`^ *[0-9]* *\| `)

// fold breaks the lines of a text that are too long for the terminal, but for those of
// a file.
func fold(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if utf8.RuneCountInString(l) > width && !quotedLine.MatchString(l) {
			lead := l[:len(l)-len(strings.TrimLeft(l, " "))]
			lines[i] = lead + wrap(l, width-len(lead))
		}
	}
	return strings.Join(lines, "\n")
}

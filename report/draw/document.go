// Package draw writes a report as plain text or as Markdown. It lays documents out, and
// escapes every text from every source.
package draw

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/conclude"
)

// A Style says how a document is written.
type Style struct {
	Markdown bool
	// Width is the columns of the terminal it is for. 0 is none: grids are cut
	// into parts at 100 columns all the same, other lines are left whole.
	Width int
	// Paint colours a text by its verdict; nil leaves it as it is.
	Paint func(conclude.Verdict, string) string
	// Dim makes a text step back; nil leaves it as it is.
	Dim func(string) string
}

// An Item is one entry of a section.
type Item struct {
	Text   string
	Quoted []string // lines of a log
	Below  []string // what the entry is about, where it is about much
	Drawn  []string // lines of a terminal that stand as they are, before those below
}

// Items returns entries of a text each.
func Items(texts []string) []Item {
	items := make([]Item, len(texts))
	for i, text := range texts {
		items[i].Text = text
	}
	return items
}

// A Document is written from its beginning to its end, and keeps the first error.
type Document struct {
	w     io.Writer
	style Style
	err   error
	blank bool // the last line is
}

// New begins a document.
func New(w io.Writer, style Style) *Document { return &Document{w: w, style: style} }

// Err returns the first error of writing.
func (d *Document) Err() error { return d.err }

func (d *Document) line(text string) {
	d.blank = text == ""
	if d.err == nil {
		_, d.err = fmt.Fprintln(d.w, text)
	}
}

// Title writes the first line.
func (d *Document) Title(text string) {
	if d.style.Markdown {
		d.line("# " + escape(text))
	} else {
		d.wrap("", "", text)
	}
	d.line("")
}

// Paragraph writes lines that belong together.
func (d *Document) Paragraph(lines ...string) {
	if len(lines) == 0 {
		return
	}
	for i, l := range lines {
		switch {
		case !d.style.Markdown:
			d.wrap("", "  ", l)
		case i < len(lines)-1:
			d.line(escape(l) + "  ") // a line break
		default:
			d.line(escape(l))
		}
	}
	d.line("")
}

// Section writes entries under a title, and nothing if there are none.
func (d *Document) Section(title string, items []Item) {
	if len(items) == 0 {
		return
	}
	if d.style.Markdown {
		d.line("## " + escape(title))
		d.line("")
	} else {
		d.wrap("", "", title+":")
	}
	for _, it := range items {
		d.entry("", it.Text)
		for _, l := range it.Drawn {
			if !d.style.Markdown {
				d.line("    " + plaintext.Line(l))
			}
		}
		for _, l := range it.Below {
			d.entry("  ", l)
		}
		for _, l := range it.Quoted {
			if d.style.Markdown {
				d.line("  - " + escape("log: "+l))
			} else {
				d.line("    | " + plaintext.Line(l))
			}
		}
	}
	d.line("")
}

// Lines writes lines as they are under a title, and nothing if there are none.
func (d *Document) Lines(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	if d.style.Markdown {
		d.line("## " + escape(title))
		d.line("")
		d.line("```")
	} else {
		d.wrap("", "", title+":")
	}
	for _, l := range lines {
		if d.style.Markdown {
			d.line(plaintext.Line(l))
		} else {
			d.line("  " + plaintext.Line(l))
		}
	}
	if d.style.Markdown {
		d.line("```")
	}
	d.line("")
}

func (d *Document) entry(indent, text string) {
	if d.style.Markdown {
		d.line(indent + "- " + escape(text))
		return
	}
	d.wrap(indent+"  ", indent+"    ", text)
}

// wrap breaks a text at its spaces where the width of the terminal is known.
func (d *Document) wrap(first, rest, text string) {
	line := first
	parts := strings.Split(text, unbroken)
	for i := range parts {
		parts[i] = plaintext.Line(parts[i])
	}
	for i, word := range strings.Fields(strings.Join(parts, unbroken)) {
		word = strings.ReplaceAll(word, unbroken, " ")
		switch {
		case i == 0:
			line += word
		case d.style.Width > 0 && columns(line)+1+columns(word) > d.style.Width:
			d.line(line)
			line = rest + word
		default:
			line += " " + word
		}
	}
	d.line(line)
}

func columns(s string) int { return utf8.RuneCountInString(s) }

package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"sweep.dev/sweep/internal/plaintext"
)

// gridWidth is where a grid is cut into parts when nobody says how wide the
// terminal is.
const gridWidth = 100

// An item is one entry of a section.
type item struct {
	text   string
	quoted []string // lines of a log
	below  []string // what the entry is about, where it is about much
}

// A printer writes one document as plain text or as Markdown, and keeps the
// first error. Every text goes through plaintext.Line or escape here,
// wherever it comes from.
type printer struct {
	w io.Writer
	Style
	err error
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

func (p *printer) title(text string) {
	if p.Markdown {
		p.line("# " + escape(text))
	} else {
		p.wrap("", "", text)
	}
	p.line("")
}

// paragraph writes lines that belong together.
func (p *printer) paragraph(lines ...string) {
	if len(lines) == 0 {
		return
	}
	for i, l := range lines {
		switch {
		case !p.Markdown:
			p.wrap("", "  ", l)
		case i < len(lines)-1:
			p.line(escape(l) + "  ") // a line break
		default:
			p.line(escape(l))
		}
	}
	p.line("")
}

func (p *printer) section(title string, items []item) {
	if len(items) == 0 {
		return
	}
	if p.Markdown {
		p.line("## " + escape(title))
		p.line("")
	} else {
		p.wrap("", "", title+":")
	}
	for _, it := range items {
		p.entry("", it.text)
		for _, l := range it.below {
			p.entry("  ", l)
		}
		for _, l := range it.quoted {
			if p.Markdown {
				p.line("  - " + escape("log: "+l))
			} else {
				p.line("    | " + plaintext.Line(l))
			}
		}
	}
	p.line("")
}

func (p *printer) entry(indent, text string) {
	if p.Markdown {
		p.line(indent + "- " + escape(text))
		return
	}
	p.wrap(indent+"  ", indent+"    ", text)
}

// wrap breaks a text at its spaces where the width of the terminal is known.
func (p *printer) wrap(first, rest, text string) {
	line := first
	for i, word := range strings.Fields(plaintext.Line(text)) {
		switch {
		case i == 0:
			line += word
		case p.Width > 0 && columns(line)+1+columns(word) > p.Width:
			p.line(line)
			line = rest + word
		default:
			line += " " + word
		}
	}
	p.line(line)
}

func columns(s string) int { return utf8.RuneCountInString(s) }

func (p *printer) grid(g grid) {
	if p.Markdown {
		p.markdownGrid(g)
		return
	}
	p.wrap("", "  ", g.name)
	limit := p.Width
	if limit == 0 {
		limit = gridWidth
	}
	// The name of the axis stands with each of its values, or where that makes
	// the grid too wide, once above them.
	heads := g.heads()
	width := g.widths(heads)
	if total(width) > limit {
		heads = append([]string{g.down}, g.values...)
		width = g.widths(heads)
	}
	for from := 1; from < len(heads); {
		to := from + 1
		for to < len(heads) && total(width[:1])+total(width[from:to+1]) <= limit {
			to++
		}
		if g.across != "" && heads[1] == g.values[0] {
			p.line(strings.Repeat(" ", total(width[:1])+2) + g.across)
		}
		p.part(g, heads, width, from, to)
		from = to
	}
}

// heads are the axis that goes down, and each column of the one across, which
// a table of different things has not.
func (g grid) heads() []string {
	heads := []string{g.down}
	for _, v := range g.values {
		heads = append(heads, strings.TrimSpace(g.across+" "+v))
	}
	return heads
}

func (g grid) widths(heads []string) []int {
	width := make([]int, len(heads))
	for i, h := range heads {
		width[i] = columns(h)
		for _, row := range g.rows {
			width[i] = max(width[i], columns(row[i].text))
		}
	}
	return width
}

// total is what columns take with the gaps before them.
func total(width []int) (n int) {
	for _, w := range width {
		n += 2 + w
	}
	return n
}

// part writes the columns from, up to and without to, of a grid, with the
// values of the axis that goes down in front.
func (p *printer) part(g grid, heads []string, width []int, from, to int) {
	width = append([]int{width[0]}, width[from:to]...)
	write := func(fields []field) {
		var b strings.Builder
		gap := 0 // of the columns before
		for i, f := range fields {
			text := plaintext.Line(f.text)
			b.WriteString(strings.Repeat(" ", gap+2))
			gap = width[i] - columns(text)
			if p.Paint != nil && f.verdict != "" {
				text = p.Paint(f.verdict, text)
			}
			b.WriteString(text)
		}
		p.line(strings.TrimRight(b.String(), " "))
	}
	head := []field{{text: heads[0]}}
	for _, h := range heads[from:to] {
		head = append(head, field{text: h})
	}
	write(head)
	for _, row := range g.rows {
		write(append([]field{row[0]}, row[from:to]...))
	}
	p.line("")
}

func (p *printer) markdownGrid(g grid) {
	p.line("## " + escape(g.name))
	p.line("")
	heads := g.heads()
	texts := make([]string, len(heads))
	write := func(text func(int) string) {
		for i := range texts {
			texts[i] = escapeInline(text(i))
		}
		p.line("| " + strings.Join(texts, " | ") + " |")
	}
	write(func(i int) string { return heads[i] })
	p.line("|" + strings.Repeat(" --- |", len(heads)))
	for _, row := range g.rows {
		write(func(i int) string { return row[i].text })
	}
	p.line("")
}

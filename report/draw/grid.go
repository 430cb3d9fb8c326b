package draw

import (
	"strings"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/conclude"
)

// gridWidth is the width at which a grid is cut into parts if the terminal's width
// is unknown.
const gridWidth = 100

// A Grid is a table: of points that differ in two axes, or of things that have the
// same figures.
type Grid struct {
	Name   string    // above it; "" for none
	Down   string    // the axis that goes down
	Values []string  // the heads of the columns: what their points share, or the names of figures
	Rows   [][]Field // each a value of the axis that goes down, and its points
}

// A Field is one place of a grid.
type Field struct {
	Text    string
	Verdict conclude.Verdict // "" if there is none
}

// Fields returns fields without a verdict.
func Fields(texts ...string) []Field {
	all := make([]Field, len(texts))
	for i, text := range texts {
		all[i].Text = text
	}
	return all
}

// Grid writes a grid, in parts where it is wider than the terminal.
func (d *Document) Grid(g Grid) {
	if d.style.Markdown {
		d.markdownGrid(g)
		return
	}
	if g.Name != "" {
		d.wrap("", "  ", g.Name)
	}
	limit := d.style.Width
	if limit == 0 {
		limit = gridWidth
	}
	heads := g.heads()
	width := g.widths(heads)
	for from := 1; from < len(heads); {
		to := from + 1
		for to < len(heads) && total(width[:1])+total(width[from:to+1]) <= limit {
			to++
		}
		d.part(g, heads, width, from, to)
		from = to
	}
}

// heads returns those of all columns, the axis that goes down first.
func (g Grid) heads() []string { return append([]string{g.Down}, g.Values...) }

func (g Grid) widths(heads []string) []int {
	width := make([]int, len(heads))
	for i, h := range heads {
		width[i] = columns(h)
		for _, row := range g.Rows {
			width[i] = max(width[i], columns(row[i].Text))
		}
	}
	return width
}

// total returns what columns take with the gaps before them.
func total(width []int) (n int) {
	for _, w := range width {
		n += 2 + w
	}
	return n
}

// part writes the columns from, up to and without to, of a grid, with the
// values of the axis that goes down in front.
func (d *Document) part(g Grid, heads []string, width []int, from, to int) {
	width = append([]int{width[0]}, width[from:to]...)
	write := func(fields []Field) {
		var b strings.Builder
		gap := 0 // of the columns before
		for i, f := range fields {
			text := plaintext.Line(f.Text)
			b.WriteString(strings.Repeat(" ", gap+2))
			gap = width[i] - columns(text)
			if d.style.Paint != nil && f.Verdict != "" {
				text = d.style.Paint(f.Verdict, text)
			}
			b.WriteString(text)
		}
		d.line(strings.TrimRight(b.String(), " "))
	}
	head := []Field{{Text: heads[0]}}
	for _, h := range heads[from:to] {
		head = append(head, Field{Text: h})
	}
	write(head)
	for _, row := range g.Rows {
		write(append([]Field{row[0]}, row[from:to]...))
	}
	d.line("")
}

func (d *Document) markdownGrid(g Grid) {
	d.line("## " + escape(g.Name))
	d.line("")
	heads := g.heads()
	texts := make([]string, len(heads))
	write := func(text func(int) string) {
		for i := range texts {
			texts[i] = escapeInline(text(i))
		}
		d.line("| " + strings.Join(texts, " | ") + " |")
	}
	write(func(i int) string { return heads[i] })
	d.line("|" + strings.Repeat(" --- |", len(heads)))
	for _, row := range g.Rows {
		write(func(i int) string { return row[i].Text })
	}
	d.line("")
}

package draw

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/conclude"
)

// DefaultWidth is the width in columns of a board if the terminal's is unknown.
const DefaultWidth = 80

// A Figure is one place of a board: a mark, a value, and a second value in brackets.
type Figure struct {
	Verdict conclude.Verdict // its colour
	Mark    string           // one character, or none
	Value   string
	Note    string // behind the value, with its brackets
	Below   string // on a second line, under the note; "" for none
	Doubt   bool   // the value must not be relied on: it is dim
}

// A Board is a table of figures whose heads may have several lines.
type Board struct {
	Title string
	// Heads are the lines above the columns, the outermost axis first. Neighbours with
	// equal heads so far share one.
	Heads [][]string
	Down  string // the axis that goes down
	Names []string
	Rows  [][]*Figure // for each name one figure a column; nil if there is none
}

// gap is between two columns of a board.
const gap = 2

// column is how wide the parts of a column are.
type column struct{ value, note, all int }

func (b *Board) columns() []column {
	n := 0
	for _, row := range b.Rows {
		n = max(n, len(row))
	}
	widths := make([]column, n)
	for i := range widths {
		w := &widths[i]
		for _, row := range b.Rows {
			if f := row[i]; f != nil && f.Note != "" {
				w.value, w.note = max(w.value, columns(f.Value)), max(w.note, columns(f.Note)+1, columns(f.Below)+1)
			}
		}
		w.all = 2 + w.value + w.note
		for _, row := range b.Rows {
			if f := row[i]; f != nil && f.Note == "" {
				w.all = max(w.all, 2+columns(f.Value))
			}
		}
	}
	for at := range b.Heads {
		b.eachHead(at, func(from, to int, text string) {
			room := -gap
			for _, w := range widths[from:to] {
				room += gap + w.all
			}
			widths[to-1].all += max(0, 2+columns(text)-room)
		})
	}
	return widths
}

// eachHead visits the heads of one line with the columns that share each.
func (b *Board) eachHead(at int, visit func(from, to int, text string)) {
	line := b.Heads[at]
	for from := 0; from < len(line); {
		to := from + 1
		for to < len(line) && b.shared(at, to) {
			to++
		}
		visit(from, to, line[from])
		from = to
	}
}

// shared reports whether a column has the heads of the one before it down to a line. The
// last line's heads are each column's own.
func (b *Board) shared(at, i int) bool {
	if at == len(b.Heads)-1 {
		return false
	}
	for _, line := range b.Heads[:at+1] {
		if line[i] != line[i-1] {
			return false
		}
	}
	return true
}

func (b *Board) left() int {
	n := columns(b.Down)
	for _, name := range b.Names {
		n = max(n, columns(name))
	}
	return n
}

// Width returns how many columns of a terminal the board takes.
func (b *Board) Width() int {
	n := 2 + b.left()
	for _, w := range b.columns() {
		n += gap + w.all
	}
	return n
}

// Height returns how many lines the board takes, without its title.
func (b *Board) Height() int {
	n := b.headLines() + len(b.Rows)
	for _, row := range b.Rows {
		if second(row) != nil {
			n++
		}
	}
	return n
}

// second returns the second line of a row; nil if nothing is below its figures.
func second(row []*Figure) []*Figure {
	if !slices.ContainsFunc(row, func(f *Figure) bool { return f != nil && f.Below != "" }) {
		return nil
	}
	below := make([]*Figure, len(row))
	for i, f := range row {
		if f != nil && f.Below != "" {
			below[i] = &Figure{Verdict: f.Verdict, Note: f.Below, Doubt: f.Doubt}
		}
	}
	return below
}

// headLines returns 0 for a board of one figure.
func (b *Board) headLines() int {
	if len(b.Heads) == 0 && b.Down != "" {
		return 1
	}
	return len(b.Heads)
}

// Pages returns the board, or if it is wider than a terminal, parts of its columns that
// are not. A page has one column at least.
func (b *Board) Pages(width int) []*Board {
	if len(b.Rows) == 0 || b.Width() <= width {
		return []*Board{b}
	}
	var pages []*Board
	for from, n := 0, len(b.Rows[0]); from < n; {
		to := from + 1
		for to < n && b.part(from, to+1).Width() <= width {
			to++
		}
		pages = append(pages, b.part(from, to))
		from = to
	}
	return pages
}

// part returns a board of some of the columns, without the rows that have nothing in them.
func (b *Board) part(from, to int) *Board {
	p := &Board{Title: b.Title, Down: b.Down}
	for _, line := range b.Heads {
		p.Heads = append(p.Heads, line[from:to])
	}
	for i, row := range b.Rows {
		some := row[from:to]
		if slices.ContainsFunc(some, func(f *Figure) bool { return f != nil }) {
			p.Names, p.Rows = append(p.Names, b.Names[i]), append(p.Rows, some)
		}
	}
	return p
}

// Board writes a board. It does not look at the width of the terminal: see [Board.Pages].
func (d *Document) Board(b *Board) {
	if b.Title != "" {
		d.wrap("", "  ", b.Title)
	}
	widths, left := b.columns(), b.left()
	name := func(text string) string { return "  " + pad(plaintext.Line(text), left) }
	heads := b.headLines()
	for at := range heads {
		line := name("")
		if at == heads-1 {
			line = name(b.Down)
		}
		if at < len(b.Heads) {
			b.eachHead(at, func(from, to int, text string) {
				room := -gap
				for _, w := range widths[from:to] {
					room += gap + w.all
				}
				line += strings.Repeat(" ", gap) + pad("  "+plaintext.Line(text), room)
			})
		}
		d.line(strings.TrimRight(line, " "))
	}
	write := func(head string, row []*Figure) {
		var line strings.Builder
		line.WriteString(name(head))
		behind := 0 // spaces that only count if something follows
		for j, f := range row {
			text, n := d.figure(f, widths[j])
			if n == 0 {
				behind += gap + widths[j].all
				continue
			}
			line.WriteString(strings.Repeat(" ", behind+gap) + text)
			behind = widths[j].all - n
		}
		d.line(strings.TrimRight(line.String(), " "))
	}
	for i, row := range b.Rows {
		write(b.Names[i], row)
		if below := second(row); below != nil {
			write("", below)
		}
	}
}

// figure returns a figure in its column, and how many columns it takes.
func (d *Document) figure(f *Figure, w column) (text string, n int) {
	if f == nil {
		return "", 0
	}
	body := plaintext.Line(f.Value)
	if f.Note != "" {
		body = strings.Repeat(" ", max(0, w.value-columns(body))) + body + " " + plaintext.Line(f.Note)
	}
	n = 2 + columns(body)
	mark := pad(f.Mark, 1) + " "
	if d.style.Paint == nil {
		return mark + body, n
	}
	if f.Mark != "" {
		mark = d.style.Paint(f.Verdict, f.Mark) + " "
	}
	switch {
	case body == "":
	case f.Doubt && d.style.Dim != nil:
		body = d.style.Dim(body)
	case f.Verdict != "":
		body = d.style.Paint(f.Verdict, body)
	}
	return mark + body, n
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

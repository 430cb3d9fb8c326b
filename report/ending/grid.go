package ending

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
)

// grid writes the figures of all cells and the answers below them. A grid of too many
// lines is drawn as one line for each series, with a mark for each cell.
func (e *ending) grid(d *draw.Document, style draw.Style) {
	if len(e.points) == 0 {
		return
	}
	boards := e.boards(cmp.Or(style.Width, draw.DefaultWidth), maxGridLines/e.share)
	if boards == nil {
		e.strips(d)
		return
	}
	d.Parts(e.caption(), e.common())
	for _, b := range boards {
		d.Board(b)
	}
	d.Parts(e.legend(false)...)
	d.Blank()
	d.Labelled("Best", e.answers()...)
}

// A form is which latencies a grid shows of a cell, and where.
type form struct {
	latencies []compare.Measure
	narrow    bool // the second has a line of its own, and so have the names of axes
}

// forms are those in which the grid is tried: both latencies, and then one alone, if no
// grid of both has room.
func (e *ending) forms() [][]form {
	if len(e.latencies) < 2 {
		return [][]form{{{latencies: e.latencies}}}
	}
	return [][]form{
		{{latencies: e.latencies}, {latencies: e.latencies, narrow: true}},
		{{latencies: e.latencies[:1]}},
	}
}

// caption names the figures of a grid.
func (e *ending) caption() string {
	text := compare.Rates[e.rate.ID()]
	if slices.ContainsFunc(e.points, func(p *compare.Point) bool { return p.Valid > 1 }) {
		text += " ± sd"
	}
	var names []string
	for _, l := range e.form.latencies {
		names = append(names, measureName(l.Column))
	}
	switch {
	case len(names) == 0:
		return text
	case e.form.narrow:
		return fmt.Sprintf("%s (%s ms), below (%s ms)", text, names[0], names[1])
	}
	return text + " (" + strings.Join(names, " / ") + " ms)"
}

// boards are the grid of the run, folded by its outermost axes into blocks, and then by
// columns into pages, as far as the width of a terminal asks for. It is narrow if it stays
// in fewer parts then. Nil if it takes more lines than room.
func (e *ending) boards(width, room int) []*draw.Board {
	down, rest := e.down()
	if down == nil {
		f := e.figure(e.points[0])
		return []*draw.Board{{Names: []string{""}, Rows: [][]*draw.Figure{{f}}}}
	}
	for _, forms := range e.forms() {
		for folded := range max(1, len(rest)) {
			for _, e.form = range forms {
				boards := e.blocks(down, rest, folded)
				if lines(boards) <= room && !slices.ContainsFunc(boards, func(b *draw.Board) bool { return b.Width() > width }) {
					return boards
				}
			}
		}
		for _, e.form = range forms {
			var pages []*draw.Board
			for _, b := range e.blocks(down, rest, max(0, len(rest)-1)) {
				pages = append(pages, b.Pages(width)...)
			}
			if lines(pages) <= room {
				return pages
			}
		}
	}
	e.form = form{latencies: e.latencies}
	return nil
}

// lines is how many lines some boards take.
func lines(boards []*draw.Board) (n int) {
	for _, b := range boards {
		n += b.Height()
		if b.Title != "" {
			n++
		}
	}
	return n
}

// blocks are a board for each combination of the first few axes.
func (e *ending) blocks(down *compare.Axis, rest compare.Axes, folded int) []*draw.Board {
	series := e.series(down, rest)
	var boards []*draw.Board
	for from := 0; from < len(series); {
		title := rest[:folded].Text(series[from].Points[0].Cell)
		to := from + 1
		for to < len(series) && rest[:folded].Text(series[to].Points[0].Cell) == title {
			to++
		}
		b := e.board(down, rest[folded:], series[from:to])
		b.Title = title
		boards = append(boards, b)
		from = to
	}
	return boards
}

// board is a grid with a column for each series.
func (e *ending) board(down *compare.Axis, across compare.Axes, series []*compare.Series) *draw.Board {
	b := &draw.Board{Down: down.Column}
	for _, a := range across {
		names, line := make([]string, len(series)), make([]string, len(series))
		for i, s := range series {
			line[i] = a.Of(s.Points[0].Cell)
			if name, value, ok := strings.Cut(line[i], "="); ok && e.form.narrow {
				names[i], line[i] = name, value
			}
		}
		if slices.ContainsFunc(names, func(n string) bool { return n != "" }) {
			b.Heads = append(b.Heads, names)
		}
		b.Heads = append(b.Heads, line)
	}
	for _, v := range down.Values {
		row, some := make([]*draw.Figure, len(series)), false
		for i, s := range series {
			if at := slices.IndexFunc(s.Points, func(p *compare.Point) bool { return p.Cell.Value(down.Column) == v }); at >= 0 {
				row[i], some = e.figure(s.Points[at]), true
			}
		}
		if some {
			b.Names, b.Rows = append(b.Names, fmt.Sprint(v)), append(b.Rows, row)
		}
	}
	return b
}

// figure is a cell in the grid. The numbers of an INVALID cell are those of its INVALID
// trials.
func (e *ending) figure(p *compare.Point) *draw.Figure {
	f := &draw.Figure{Verdict: p.Verdict, Mark: mark(p.Verdict)}
	switch p.Verdict {
	case compare.Pending, compare.Skipped:
		return f
	case compare.NoStart, compare.FailedRun:
		f.Value = p.Reason()
		return f
	}
	f.Doubt = p.Verdict == compare.Invalid || p.Verdict == compare.Undecided
	rate, ok := shownOf(p, e.rate)
	if !ok {
		f.Value = p.Reason()
		return f
	}
	if f.Value = rate; p.Valid > 1 {
		f.Value += fmt.Sprintf(" ±%.0f%%", 100*p.Spread(e.rate))
	}
	texts := make([]string, len(e.form.latencies))
	for i, l := range e.form.latencies {
		texts[i], _ = shownOf(p, l)
		if p.Mark(l.Column) != "" {
			texts[i] += compare.Undecided.Mark()
		}
	}
	switch {
	case len(texts) == 0:
	case e.form.narrow:
		f.Note, f.Below = "("+texts[0]+")", "("+texts[1]+")"
	default:
		f.Note = "(" + strings.Join(texts, "/") + ")"
	}
	if p.Valid > 0 && p.Valid < len(p.Trials) {
		f.Note = strings.TrimSpace(f.Note + fmt.Sprintf(" %d/%d", p.Valid, len(p.Trials)))
	}
	return f
}

// shownOf is a figure of the trials of a point that count, for people.
func shownOf(p *compare.Point, m compare.Measure) (text string, ok bool) {
	if p.Valid > 0 {
		text = p.Shown(m)
		return text, text != "-"
	}
	if v, ok := p.Average(m); ok {
		return humanize.Figure(v), true
	}
	return "-", false
}

// mark is that of a verdict in a grid of figures, where an acceptable cell has none.
func mark(v compare.Verdict) string {
	if v == compare.Acceptable {
		return ""
	}
	return v.Mark()
}

// meanings are the verdicts in the words of a legend.
var meanings = map[compare.Verdict]string{
	compare.SweetSpot: "sweet spot", compare.Acceptable: "acceptable", compare.Unstable: "unstable", compare.Undecided: "undecided",
	compare.Missed: "misses an SLO", compare.Invalid: "INVALID: do not trust", compare.NoStart: "did not start",
	compare.FailedRun: "failed", compare.Skipped: "skipped", compare.Pending: "pending",
}

// legend explains the marks that a grid has, and with acceptable also that.
func (e *ending) legend(acceptable bool) []string {
	var parts []string
	for _, v := range compare.Verdicts() {
		if v == compare.Acceptable && !acceptable {
			continue
		}
		if slices.ContainsFunc(e.points, func(p *compare.Point) bool { return p.Verdict == v }) {
			parts = append(parts, v.Mark()+" "+meanings[v])
		}
	}
	if acceptable {
		return indent(parts)
	}
	few, part := false, false
	for _, p := range e.points {
		few = few || p.Verdict != compare.Pending && slices.ContainsFunc(e.form.latencies, func(l compare.Measure) bool { return p.Mark(l.Column) != "" })
		part = part || p.Valid > 0 && p.Valid < len(p.Trials)
	}
	if few {
		parts = append(parts, "(n?) of too few requests")
	}
	if part {
		parts = append(parts, "n/m: valid trials")
	}
	return indent(parts)
}

// indent sets a legend below its grid.
func indent(parts []string) []string {
	if len(parts) > 0 {
		parts[0] = "  " + parts[0]
	}
	return parts
}

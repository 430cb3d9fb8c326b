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
	width := cmp.Or(style.Width, draw.DefaultWidth)
	boards := e.boards(width)
	lines := 0
	for _, b := range boards {
		lines += b.Height()
		if b.Title != "" {
			lines++
		}
	}
	if lines > maxGridLines/e.share {
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

// caption names the figures of a grid.
func (e *ending) caption() string {
	text := compare.Rates[e.rate.ID()]
	if slices.ContainsFunc(e.points, func(p *compare.Point) bool { return p.Valid > 1 }) {
		text += " ± sd"
	}
	if e.latency.Column != "" {
		text += " (" + measureName(e.latency.Column) + " ms)"
	}
	return text
}

// boards are the grid of the run, folded by its outermost axes into blocks, and then by
// columns into pages, as far as the width of a terminal asks for.
func (e *ending) boards(width int) []*draw.Board {
	down, rest := e.down()
	if down == nil {
		f := e.figure(e.points[0])
		return []*draw.Board{{Names: []string{""}, Rows: [][]*draw.Figure{{f}}}}
	}
	for folded := range max(1, len(rest)) {
		boards := e.blocks(down, rest, folded)
		if !slices.ContainsFunc(boards, func(b *draw.Board) bool { return b.Width() > width }) {
			return boards
		}
	}
	var pages []*draw.Board
	for _, b := range e.blocks(down, rest, max(0, len(rest)-1)) {
		pages = append(pages, b.Pages(width)...)
	}
	return pages
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
		line := make([]string, len(series))
		for i, s := range series {
			line[i] = a.Of(s.Points[0].Cell)
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
	if e.latency.Column != "" {
		text, _ := shownOf(p, e.latency)
		if p.Mark(e.latency.Column) != "" {
			text += compare.Undecided.Mark()
		}
		f.Note = "(" + text + ")"
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
		few = few || p.Verdict != compare.Pending && e.latency.Column != "" && p.Mark(e.latency.Column) != ""
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

package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/view"
)

// A grid is the cells of one load with what is said of them. Of several loads each has
// figures of its own.
type grid struct {
	view.Grid
	view.Shown
	claims []conclude.Claim // about its series
	share  int              // how many share the bounds of a run
	more   string
	narrow bool // the second latency has a line of its own, and so have the names of axes
}

// grids draws the figures of the cells, the best of them, and the objectives.
func (e *ending) grids(d *draw.Document, style draw.Style) {
	all := e.Grids()
	shown := all[:min(len(all), maxLoads)]
	for _, one := range shown {
		g := &grid{Grid: one, Shown: view.ShownOf(one.Points), share: len(shown), more: e.more}
		about := map[string]bool{}
		for _, p := range g.Points {
			about[view.About(p.Cell)] = true
		}
		g.claims = slices.DeleteFunc(slices.Clone(e.Set.Claims), func(c conclude.Claim) bool { return !about[c.About] })
		g.draw(d, style)
		d.Blank()
	}
	if n := len(all) - len(shown); n > 0 {
		d.Parts(humanize.Plural(n, "more load") + ": " + e.more)
	}
	d.Labelled("SLO", e.objectives()...)
}

// draw writes the figures of all cells and the answers below them. A grid of too many
// lines is drawn as one line for each series, with a mark for each cell.
func (g *grid) draw(d *draw.Document, style draw.Style) {
	boards := g.boards(cmp.Or(style.Width, draw.DefaultWidth), maxGridLines/g.share)
	if boards == nil {
		g.strips(d)
		return
	}
	d.Parts(g.caption(), g.Common())
	for _, b := range boards {
		d.Board(b)
	}
	// An acceptable cell has no mark.
	marks := slices.DeleteFunc(view.Marks(g.Points), func(m string) bool { return strings.HasPrefix(m, conclude.Acceptable.Mark()) })
	d.Parts(indented(append(marks, view.Notes(g.Points, g.Main)...))...)
	d.Blank()
	d.Labelled("Best", g.answers()...)
}

// indented sets a legend below its grid.
func indented(parts []string) []string {
	if len(parts) > 0 {
		parts[0] = "  " + parts[0]
	}
	return parts
}

// caption names the figures.
func (g *grid) caption() string {
	text := view.Caption(g.Points, g.Rate, g.Main)
	if g.narrow {
		text = strings.Replace(text, " / ", " ms), below (", 1)
	}
	return text
}

// A form is which latencies are shown of a cell, and where.
type form struct {
	latencies []conclude.Measure
	narrow    bool
}

// forms returns those in which the grid is tried: both latencies, and then one alone, if no
// grid of both has room.
func (g *grid) forms() [][]form {
	if len(g.Main) < 2 {
		return [][]form{{{latencies: g.Main}}}
	}
	return [][]form{
		{{latencies: g.Main}, {latencies: g.Main, narrow: true}},
		{{latencies: g.Main[:1]}},
	}
}

// boards returns the grid, folded by its outermost axes into blocks, and then by columns into
// pages, as far as the width of a terminal asks for. It is narrow if it stays in fewer
// parts then. Nil if it takes more lines than room.
func (g *grid) boards(width, room int) []*draw.Board {
	both := g.Main
	for _, forms := range g.forms() {
		for folded := range max(1, len(g.Across)) {
			for _, f := range forms {
				g.Main, g.narrow = f.latencies, f.narrow
				boards := g.blocks(folded)
				if lines(boards) <= room && !slices.ContainsFunc(boards, func(b *draw.Board) bool { return b.Width() > width }) {
					return boards
				}
			}
		}
		for _, f := range forms {
			g.Main, g.narrow = f.latencies, f.narrow
			var pages []*draw.Board
			for _, b := range g.blocks(max(0, len(g.Across)-1)) {
				pages = append(pages, b.Pages(width)...)
			}
			if lines(pages) <= room {
				return pages
			}
		}
	}
	g.Main, g.narrow = both, false
	return nil
}

// lines returns how many lines some boards take.
func lines(boards []*draw.Board) (n int) {
	for _, b := range boards {
		n += b.Height()
		if b.Title != "" {
			n++
		}
	}
	return n
}

// blocks returns a board for each combination of the first few axes.
func (g *grid) blocks(folded int) []*draw.Board {
	var boards []*draw.Board
	for _, block := range g.Blocks(folded) {
		b := &draw.Board{Title: block.Title}
		if g.Down != nil {
			b.Down = g.Down.Column
		}
		for _, a := range block.Across {
			names, line := make([]string, len(block.Series)), make([]string, len(block.Series))
			for i, s := range block.Series {
				line[i] = a.Of(s.Points[0].Cell)
				if name, value, ok := strings.Cut(line[i], "="); ok && g.narrow {
					names[i], line[i] = name, value
				}
			}
			if slices.ContainsFunc(names, func(n string) bool { return n != "" }) {
				b.Heads = append(b.Heads, names)
			}
			b.Heads = append(b.Heads, line)
		}
		for _, row := range block.Rows {
			figures := make([]*draw.Figure, len(row.Points))
			for i, p := range row.Points {
				if p != nil {
					figures[i] = g.figure(p)
				}
			}
			b.Names, b.Rows = append(b.Names, row.Name), append(b.Rows, figures)
		}
		boards = append(boards, b)
	}
	return boards
}

// figure returns a cell on a board, where an acceptable one has no mark.
func (g *grid) figure(p *conclude.Point) *draw.Figure {
	f := view.Figure(p, g.Rate, g.Main)
	if p.Verdict == conclude.Acceptable {
		f.Mark = ""
	}
	if above, below, ok := strings.Cut(f.Note, "/"); ok && g.narrow && strings.HasPrefix(above, "(") {
		below, part, _ := strings.Cut(below, " ")
		f.Note, f.Below = strings.TrimSpace(above+") "+part), "("+below
	}
	return f
}

// answers returns the sweet spots of all series, and which are not decided and why. Series
// of which the same is to be said stand together.
func (g *grid) answers() []string {
	type answer struct {
		names []string
		text  string
	}
	var all []answer
	for _, c := range g.claims {
		switch {
		case c.Question == conclude.AskBest: // of the series before
			all[len(all)-1].text += "; most " + c.Measure.Name + g.describe(c)
		case c.Question != conclude.AskSweetSpot:
		case c.Answer == conclude.Decided:
			all = append(all, answer{[]string{g.SideOf(c)}, g.describe(c) + c.Best("; ")})
		default:
			all = append(all, answer{[]string{g.SideOf(c)}, ": " + view.Open(c)})
		}
	}
	var some []answer
	for _, a := range all {
		if i := slices.IndexFunc(some, func(b answer) bool { return b.text == a.text }); i >= 0 {
			some[i].names = append(some[i].names, a.names...)
		} else {
			some = append(some, a)
		}
	}
	lines := make([]string, len(some))
	for i, a := range some {
		lines[i] = strings.TrimLeft(strings.Join(a.names, ", ")+a.text, ": ")
	}
	return append(cut(lines, maxAnswers/g.share, "answer", g.more), g.edge()...)
}

// edge says that sweet spots are at the most load that was tried.
func (g *grid) edge() []string {
	if text := view.Edge(g.claims); text != "" {
		return []string{text}
	}
	return nil
}

// describe returns the cell of a claim with its figures: " at concurrency=16: 1390 tok/s, p95
// TTFT 214 ms, $0.71 per 1M output tokens".
func (g *grid) describe(c conclude.Claim) string {
	p := c.Places[0].Point
	return " at " + conclude.LoadText(p.Cell) + ": " + view.Figures(p, c.Measure, g.Main[:min(1, len(g.Main))])
}

// strips draw a large grid: a line for each series, with a mark for each of its cells
// and its sweet spot.
func (g *grid) strips(d *draw.Document) {
	series := g.Series()
	values := make([]string, len(g.Down.Values))
	for i, v := range g.Down.Values {
		values[i] = fmt.Sprint(v)
	}
	d.Parts("sweet spot: "+g.caption(), g.Common())
	d.Parts("one mark for each " + g.Down.Column + ": " + view.List(values))
	var names, marks, answers []string
	left, middle := 0, 0
	for _, s := range series[:min(len(series), maxSeries/g.share)] {
		n, m := g.Across.Text(s.Points[0].Cell), g.strip(s)
		names, marks, answers = append(names, n), append(marks, m), append(answers, g.inShort(s))
		left, middle = max(left, len([]rune(n))), max(middle, len(m))
	}
	for i, n := range names {
		line := "  " + n + strings.Repeat(" ", left-len([]rune(n))) + "  " + marks[i] + strings.Repeat(" ", middle-len(marks[i])) + "  " + answers[i]
		d.Parts(line)
	}
	if n := len(series) - maxSeries/g.share; n > 0 {
		d.Parts(fmt.Sprintf("  the other %d of %d series: %s", n, len(series), g.more))
	}
	d.Parts(indented(view.Marks(g.Points))...)
	d.Blank()
	d.Labelled("Best", g.tally()...)
}

// strip returns a mark for each value of the axis that goes down.
func (g *grid) strip(s *conclude.Series) string {
	marks := []byte(strings.Repeat(" ", len(g.Down.Values)))
	for _, p := range s.Points {
		if at := g.Down.Rank(p.Cell); at >= 0 {
			marks[at] = p.Verdict.Mark()[0]
		}
	}
	return string(marks)
}

// inShort returns the answer of a series in a few words: of a sweet spot "16: 1390 (214)".
func (g *grid) inShort(s *conclude.Series) string {
	for _, c := range g.claims {
		switch {
		case c.Question != conclude.AskSweetSpot || c.About != view.About(s.Points[0].Cell):
		case c.Answer == conclude.Decided:
			p := c.Places[0].Point
			f := g.figure(p)
			return strings.TrimSpace(fmt.Sprint(p.Cell.Value(g.Down.Column)) + ": " + f.Value + " " + f.Note)
		case c.Answer == conclude.None:
			return "none is acceptable"
		default:
			return string(c.Answer)
		}
	}
	return ""
}

// tally counts the answers of all series.
func (g *grid) tally() []string {
	counts := map[conclude.Answer]int{}
	for _, c := range g.claims {
		if c.Question == conclude.AskSweetSpot {
			counts[c.Answer]++
		}
	}
	var parts []string
	if n := counts[conclude.Decided]; n > 0 {
		parts = append(parts, humanize.Plural(n, "sweet spot"))
	}
	if n := counts[conclude.NotDecided] + counts[conclude.Tied]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d not decided", n))
	}
	if n := counts[conclude.None]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d series without an acceptable cell", n))
	}
	if len(parts) == 0 {
		return nil
	}
	return append([]string{strings.Join(parts, ", ")}, g.edge()...)
}

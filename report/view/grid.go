package view

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
)

// A Grid is points by the axes that they vary.
type Grid struct {
	Points []*conclude.Point
	Axes   conclude.Axes  // all that vary, those of the server first
	Down   *conclude.Axis // the amount of load where the points vary it, else the last; nil for one cell
	Across conclude.Axes  // the others
}

// GridOf lays points out.
func GridOf(points []*conclude.Point) Grid {
	g := Grid{Points: points, Axes: conclude.Varied(points)}
	if len(g.Axes) == 0 {
		return g
	}
	at := slices.IndexFunc(g.Axes, func(a conclude.Axis) bool { return a.Amount })
	if at < 0 {
		at = len(g.Axes) - 1
	}
	g.Down, g.Across = &g.Axes[at], slices.Delete(slices.Clone(g.Axes), at, at+1)
	return g
}

// Grids returns those of each named load; of a plan with one load the one of all cells.
func (v *View) Grids() []Grid {
	var all []Grid
	for _, l := range conclude.ByLoadName(v.Set.Points) {
		all = append(all, GridOf(l.Points))
	}
	return all
}

// Common returns what all cells share, in the words of their labels.
func (g Grid) Common() string {
	return g.Points[0].Cell.Text(func(s conclude.Setting) bool { return !g.Axes.Has(s) })
}

// Servers counts the axes of Across that are of the server: the first ones.
func (g Grid) Servers() int {
	n := slices.IndexFunc(g.Across, func(a conclude.Axis) bool { return !a.Server })
	if n < 0 {
		return len(g.Across)
	}
	return n
}

// Series returns the points that differ in Down alone, each in its order, by the order of the
// other axes.
func (g Grid) Series() []*conclude.Series {
	all := conclude.Group(g.Points, func(p *conclude.Point) string { return g.Across.Text(p.Cell) })
	slices.SortStableFunc(all, func(x, y *conclude.Series) int { return g.Across.Compare(x.Points[0].Cell, y.Points[0].Cell) })
	if g.Down != nil {
		for _, s := range all {
			slices.SortStableFunc(s.Points, func(x, y *conclude.Point) int { return g.Down.Rank(x.Cell) - g.Down.Rank(y.Cell) })
		}
	}
	return all
}

// A Block is a part of a grid: a column for each of its series, a row for each value of
// the axis that goes down.
type Block struct {
	Title  string        // what its cells share, of the axes that other blocks have
	Across conclude.Axes // those that its columns differ in
	Series []*conclude.Series
	Rows   []Row
}

// A Row is the points of one value of the axis that goes down.
type Row struct {
	Name   string            // "" in a grid of one cell
	Points []*conclude.Point // for each series; nil for a cell that the plan has not
}

// Blocks returns a block for each combination of the first few axes of Across.
func (g Grid) Blocks(folded int) []Block {
	if g.Down == nil {
		s := &conclude.Series{Points: g.Points}
		return []Block{{Series: []*conclude.Series{s}, Rows: []Row{{Points: g.Points}}}}
	}
	series := g.Series()
	var all []Block
	for from := 0; from < len(series); {
		b := Block{Title: g.Across[:folded].Text(series[from].Points[0].Cell), Across: g.Across[folded:]}
		to := from + 1
		for to < len(series) && g.Across[:folded].Text(series[to].Points[0].Cell) == b.Title {
			to++
		}
		b.Series = series[from:to]
		b.Rows = g.rows(b.Series)
		all = append(all, b)
		from = to
	}
	return all
}

// rows returns the values of the axis that goes down that one of some series has.
func (g Grid) rows(series []*conclude.Series) []Row {
	var rows []Row
	for _, v := range g.Down.Values {
		row, some := Row{Name: fmt.Sprint(v), Points: make([]*conclude.Point, len(series))}, false
		for i, s := range series {
			if at := slices.IndexFunc(s.Points, func(p *conclude.Point) bool { return p.Cell.Value(g.Down.Column) == v }); at >= 0 {
				row.Points[i], some = s.Points[at], true
			}
		}
		if some {
			rows = append(rows, row)
		}
	}
	return rows
}

// Head returns the name of a column of a block; "" if there is one alone.
func (b Block) Head(i int) string { return b.Across.Text(b.Series[i].Points[0].Cell) }

// Figure returns a cell in a grid: how much it carries, some of its latencies behind that in
// brackets, and how many of its trials are valid if not all are. A latency that rests on
// too few requests has a question mark. The numbers of an INVALID cell are those of its
// INVALID trials.
func Figure(p *conclude.Point, rate conclude.Measure, latencies []conclude.Measure) *draw.Figure {
	f := &draw.Figure{Verdict: p.Verdict, Mark: p.Verdict.Mark()}
	switch p.Verdict {
	case conclude.Pending, conclude.Skipped:
		return f
	case conclude.NoStart, conclude.FailedRun:
		f.Value = p.Reason()
		return f
	}
	f.Doubt = p.Verdict == conclude.Invalid || p.Verdict == conclude.Undecided
	carried, ok := figureOf(p, rate)
	if !ok {
		f.Value = p.Reason()
		return f
	}
	if f.Value = carried; p.Valid > 1 {
		f.Value += fmt.Sprintf(" ±%.0f%%", 100*p.Spread(rate))
	}
	texts := make([]string, len(latencies))
	for i, l := range latencies {
		texts[i], _ = figureOf(p, l)
		if p.RestsOn(l.Column) > 0 {
			texts[i] += conclude.Undecided.Mark()
		}
	}
	if len(texts) > 0 {
		f.Note = "(" + strings.Join(texts, "/") + ")"
	}
	if p.Valid > 0 && p.Valid < len(p.Trials) {
		f.Note = strings.TrimSpace(f.Note + fmt.Sprintf(" %d/%d", p.Valid, len(p.Trials)))
	}
	return f
}

// Caption names the figures of a grid of points: "tok/s ± sd (p95 TTFT / p95 E2E ms)".
func Caption(points []*conclude.Point, rate conclude.Measure, latencies []conclude.Measure) string {
	text := conclude.Rates[rate.ID()]
	if slices.ContainsFunc(points, func(p *conclude.Point) bool { return p.Valid > 1 }) {
		text += " ± sd"
	}
	names := make([]string, len(latencies))
	for i, l := range latencies {
		names[i] = LatencyName(l)
	}
	if len(names) == 0 {
		return text
	}
	return text + " (" + strings.Join(names, " / ") + " ms)"
}

// meanings are the verdicts in the words of a legend.
var meanings = map[conclude.Verdict]string{
	conclude.SweetSpot: "sweet spot", conclude.Acceptable: "acceptable", conclude.Unstable: "unstable", conclude.Undecided: "undecided",
	conclude.Missed: "misses an SLO", conclude.Invalid: "INVALID: do not trust", conclude.NoStart: "did not start",
	conclude.FailedRun: "failed", conclude.Skipped: "skipped", conclude.Pending: "pending",
}

// Marks explain the marks that points have, best first.
func Marks(points []*conclude.Point) []string {
	var all []string
	for _, v := range conclude.Verdicts() {
		if slices.ContainsFunc(points, func(p *conclude.Point) bool { return p.Verdict == v }) {
			all = append(all, v.Mark()+" "+meanings[v])
		}
	}
	return all
}

// Notes explain what else stands in the figures of points.
func Notes(points []*conclude.Point, latencies []conclude.Measure) []string {
	few, part := false, false
	for _, p := range points {
		few = few || p.Verdict != conclude.Pending && slices.ContainsFunc(latencies, func(l conclude.Measure) bool { return p.RestsOn(l.Column) > 0 })
		part = part || p.Valid > 0 && p.Valid < len(p.Trials)
	}
	var all []string
	if few {
		all = append(all, "(n?) of too few requests")
	}
	if part {
		all = append(all, "n/m: valid trials")
	}
	return all
}

// SideOf returns the server and the kind of request of a claim's series, in the words in which it
// differs from the others of a grid.
func (g Grid) SideOf(c conclude.Claim) string {
	rest := slices.DeleteFunc(slices.Clone(g.Axes), func(a conclude.Axis) bool { return a.Amount })
	for _, p := range g.Points {
		if About(p.Cell) == c.About {
			return rest.Text(p.Cell)
		}
	}
	return c.About
}

// About returns the name that claims have for the series of a cell: its settings without the
// amount of load.
func About(c conclude.Cell) string {
	return c.Text(func(s conclude.Setting) bool { return !s.Amount })
}

// Where returns some of the cells of an objective in words: the loads, if they are all that
// have the objective there, else the cells if they are few, or the least load; "" if they
// are all of its cells.
func (g Grid) Where(points []*conclude.Point, o *Objective) string {
	if len(points) == o.Cells {
		return ""
	}
	few := ""
	if len(points) <= maxNamed {
		names := make([]string, len(points))
		for i, p := range points {
			names[i] = g.Axes.Short(p.Cell)
		}
		few = ", at " + strings.Join(names, " and ")
	}
	if g.Down == nil || !g.Down.Amount || g.Axes.At(result.LoadAxis) != nil { // each load has an amount of its own
		return few
	}
	at, all := map[any]int{}, map[any]int{}
	for _, p := range points {
		at[p.Cell.Value(g.Down.Column)]++
	}
	for _, some := range o.By {
		for _, p := range some {
			all[p.Cell.Value(g.Down.Column)]++
		}
	}
	var values []string
	whole := true
	for _, v := range g.Down.Values {
		if at[v] > 0 {
			values = append(values, fmt.Sprint(v))
			whole = whole && at[v] == all[v]
		}
	}
	switch {
	case whole:
		return ", at " + g.Down.Column + " " + List(values)
	case few != "":
		return few
	}
	return ", the least load at " + g.Down.Column + " " + values[0]
}

// maxNamed is how many cells are named where they are few.
const maxNamed = 2

// List returns values in words, shortened in the middle where they are many.
func List(values []string) string {
	if len(values) > 12 {
		values = append(append(values[:4:4], "..."), values[len(values)-2:]...)
	}
	return strings.Join(values, ", ")
}

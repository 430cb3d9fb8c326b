package webpage

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/chart"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/view"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/groups"
)

// A figure is a chart with its name and the table that stands beside it.
type figure struct {
	File  string // the name of its file, without an extension
	Title string
	Note  string
	SVG   template.HTML
	Table table
	chart chart.Chart
}

// newFigure draws a chart; ok is false if there is nothing to draw.
func newFigure(file, title, note string, c chart.Chart, t table) (figure, bool) {
	svg := c.SVG()
	// The package chart escapes every text that it writes.
	return figure{file, title, note, template.HTML(svg), t, c}, svg != ""
}

// The most panels and series of one kind that are drawn. Tables have all.
const (
	maxPanels = 24
	maxSeries = 8
	maxShapes = 6
)

// rate returns the figure by which cells carry load: its column is of the cells table.
func (v *runView) rate(p *conclude.Point) (float64, bool) { return p.Average(v.Rate) }

// point returns a cell in a plot; ok is false if it lacks a figure.
func (v *runView) point(p *conclude.Point, x, y conclude.Measure) (pt chart.Point, ok bool) {
	pt.X, ok = p.Average(x)
	if !ok {
		return pt, false
	}
	if pt.Y, ok = p.Average(y); !ok {
		return pt, false
	}
	v.markVerdict(&pt, p)
	return pt, true
}

// markVerdict draws a point by the verdict of its cell.
func (v *runView) markVerdict(pt *chart.Point, p *conclude.Point) {
	pt.Crossed = p.Verdict == conclude.Invalid
	pt.Faint = p.Verdict == conclude.Missed || p.Verdict == conclude.Undecided || pt.Crossed
	pt.Label, pt.Title, pt.Cell = load(p.Cell), v.title(p), v.ID+p.Cell.ID
}

// title returns a cell in words: what a pointer that rests on it shows.
func (v *runView) title(p *conclude.Point) string {
	parts := []string{p.Cell.Label + ": " + string(p.Verdict)}
	if value, ok := v.rate(p); ok {
		parts = append(parts, v.Rate.Column+" "+humanize.Figure(value))
	}
	for _, l := range v.All() {
		for _, q := range []string{"p50", "p95"} {
			m := conclude.Measure{Column: col.Latency(q, l)}
			if value, ok := p.Average(m); ok {
				parts = append(parts, m.Column+" "+humanize.Figure(value))
			}
		}
	}
	if n := p.Valid; n > 1 {
		parts = append(parts, "means over "+humanize.Plural(n, "valid trial"))
	}
	if p.Valid == 0 && p.Verdict != conclude.Pending {
		parts = append(parts, p.Reason())
	}
	return strings.Join(parts, "; ")
}

// heat makes a panel for each server and kind of request.
func (v *runView) heat() {
	values := []float64{}
	for _, p := range v.Set.Points {
		if value, ok := p.Figure(v.Rate); ok {
			values = append(values, value)
		}
	}
	level := levels(values)
	for _, g := range v.Grids() {
		for _, b := range g.Blocks(g.Servers()) {
			if len(v.Heat) == maxPanels {
				v.HeatLeft++
				continue
			}
			name := cmp.Or(strings.TrimSpace(conclude.LoadName(g.Points[0].Cell)+" "+b.Title), "all cells")
			if f, ok := newFigure("grid", name, "", v.panel(name, g, b, level), table{}); ok {
				v.Heat = append(v.Heat, f)
			}
		}
	}
	var names, columns []string
	for _, l := range v.below() {
		names, columns = append(names, "p95 "+strings.ToUpper(l)), append(columns, col.Latency("p95", l))
	}
	v.HeatLegend = append(v.HeatLegend, fmt.Sprintf("Each field: the mark of its verdict, %s (%s), and below %s in ms (%s). A darker field is a higher number (in the dark theme a lighter one).",
		v.Rate.Name, v.Rate.Column, strings.Join(names, " and "), strings.Join(columns, ", ")))
	v.HeatLegend = append(v.HeatLegend, "Marks: "+strings.Join(view.Marks(v.Set.Points), ", ")+". A sweet spot is framed; a number that is crossed out must not be used.")
}

// panel returns a block of a grid as a heat map.
func (v *runView) panel(name string, g view.Grid, b view.Block, level func(float64) int) chart.Heat {
	h := chart.Heat{Title: "Grid of " + name, Down: "load", Across: strings.Join(b.Across.Columns(), ", ")}
	if g.Down != nil {
		h.Down = g.Down.Column
	}
	for i := range b.Series {
		h.Columns = append(h.Columns, b.Head(i))
	}
	for _, r := range b.Rows {
		row := chart.HeatRow{Name: cmp.Or(r.Name, "-")}
		for _, p := range r.Points {
			row.Cells = append(row.Cells, v.field(p, level))
		}
		h.Rows = append(h.Rows, row)
	}
	return h
}

// field returns a cell of the heat map; p is nil if the plan has none.
func (v *runView) field(p *conclude.Point, level func(float64) int) chart.HeatCell {
	if p == nil {
		return chart.HeatCell{None: true}
	}
	h := chart.HeatCell{Mark: p.Verdict.Mark(), Level: -1, Title: v.title(p), Cell: v.ID + p.Cell.ID, Strong: p.Verdict == conclude.SweetSpot}
	value, ok := v.rate(p)
	if !ok {
		h.Text = string(p.Verdict)
		return h
	}
	h.Text, h.Crossed = v.Rate.Show(value), p.Verdict == conclude.Invalid
	for _, l := range v.below() {
		m := conclude.Measure{Column: col.Latency("p95", l)}
		text := strings.ToUpper(l) + " "
		if lat, ok := p.Average(m); ok {
			h.Below = append(h.Below, text+m.Show(lat)+" ms"+p.Mark(m.Column))
		} else if p.Valid > 0 {
			h.Below = append(h.Below, text+p.Shown(m))
		}
	}
	if p.Valid > 0 {
		h.Level = level(value)
	}
	return h
}

// below returns the latencies whose p95 stands in a field of the heat map.
func (v *runView) below() []string {
	if v.E2E && v.Latencies[0] != "e2e" {
		return []string{v.Latencies[0], "e2e"}
	}
	return v.Latencies[:1]
}

// levels divides the range of values into shades, evenly by their logarithm.
func levels(values []float64) func(float64) int {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	return func(v float64) int {
		if v <= 0 || high <= low {
			return 1
		}
		return min(chart.Levels-1, int(float64(chart.Levels)*math.Log(v/low)/math.Log(high/low)))
	}
}

// comparison is a part of an objective that is a column against a number.
var bound = regexp.MustCompile(`^\s*([a-z][a-z0-9_]*)\s*[<>]=?\s*([0-9]+(?:\.[0-9]+)?)\s*$`)

// limits returns the objectives of points that bound a column.
func limits(points []*conclude.Point, column string) []chart.Limit {
	var all []chart.Limit
	for _, p := range points {
		for _, o := range p.Objectives {
			exprs := []string{o.Expr}
			for _, part := range o.Parts {
				exprs = append(exprs, part.Expr)
			}
			for _, expr := range exprs {
				m := bound.FindStringSubmatch(expr)
				if m == nil || m[1] != column {
					continue
				}
				at, err := strconv.ParseFloat(m[2], 64)
				l := chart.Limit{Name: o.Name + ": " + strings.TrimSpace(expr), At: at}
				if err == nil && !slices.Contains(all, l) {
					all = append(all, l)
				}
			}
		}
	}
	return all
}

// throughput draws rate against latency, a chart for each kind of request.
func (v *runView) throughput() {
	x := conclude.Measure{Column: col.Latency("p95", v.Latencies[0])}
	shapes, more := v.shapes()
	for _, shape := range shapes {
		plot := chart.Plot{
			Title: "Throughput against latency", Y: chart.Axis{Name: v.axis(v.Rate.Column)}, X: chart.Axis{Name: v.axis(x.Column)},
		}
		t := v.table("cell", x.Column, v.Rate.Column)
		var all []chart.Series
		for i, s := range v.servers(shape) {
			series := chart.Series{Name: s.Name, Kind: i, Line: true}
			for _, p := range byLoad(s.Points) {
				if pt, ok := v.point(p, x, v.Rate); ok {
					series.Points = append(series.Points, pt)
					t.add(v, p, x.Column, v.Rate.Column)
				}
			}
			all = append(all, series)
		}
		note := draws(&plot, all)
		for _, l := range limits(shape.Points, x.Column) {
			l.OnX = true
			plot.Limits = append(plot.Limits, l)
		}
		if f, ok := newFigure("throughput", cmp.Or(shape.Name, "throughput against latency"), notes(note, more), plot, t); ok {
			v.Throughput = append(v.Throughput, f)
		}
	}
}

// shapes returns the points by their kind of request, those that are drawn, and what is
// said of the others in the note of a figure.
func (v *runView) shapes() (drawn []*conclude.Series, note string) {
	all := conclude.Group(v.Set.Points, func(p *conclude.Point) string { return v.names.request(p.Cell) })
	if n := len(all) - maxShapes; n > 0 {
		return all[:maxShapes], fmt.Sprintf("%s more: see the table of all trials.", humanize.Plural(n, "kind")+" of request")
	}
	return all, ""
}

// servers returns the points of a kind of request by their servers.
func (v *runView) servers(shape *conclude.Series) []*conclude.Series {
	return conclude.Group(shape.Points, func(p *conclude.Point) string { return v.names.server(p.Cell) })
}

// draws adds the first series to a plot, and says which are left out.
func draws(plot *chart.Plot, series []chart.Series) (note string) {
	plot.Series = append(plot.Series, series[:min(maxSeries, len(series))]...)
	if n := len(series) - maxSeries; n > 0 {
		return fmt.Sprintf("%s more: see the table.", humanize.Plural(n, "server"))
	}
	return ""
}

// notes joins what is said of a figure.
func notes(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), " ")
}

// axis returns a column as the name of an axis.
func (v *runView) axis(column string) string { return axisOf(v.Run.Resolved.Columns, column) }

// axisOf returns a column with its unit.
func axisOf(columns []result.Column, column string) string {
	text := column
	if c, ok := result.Lookup(columns, column); ok && c.Unit != "" {
		text += " [" + c.Unit + "]"
	}
	return text
}

// latency draws percentiles against load, for each series.
func (v *runView) latency() {
	for _, shape := range conclude.Group(v.Set.Points, func(p *conclude.Point) string {
		return v.names.of(p.Cell, func(s conclude.Setting) bool { return !s.Amount })
	}) {
		name := conclude.AmountAxis(shape.Points)
		if len(shape.Points) < 2 || name == "" {
			continue
		}
		if len(v.Latency) >= maxPanels {
			v.LatencyOff++
			continue
		}
		points := byLoad(shape.Points)
		for _, l := range v.Latencies {
			v.percentiles(shape.Name, name, l, points)
		}
	}
}

func (v *runView) percentiles(about, name, latency string, points []*conclude.Point) {
	columns := []string{col.Latency("p50", latency), col.Latency("p95", latency), col.Latency("p99", latency)}
	plot := chart.Plot{
		Title: strings.ToUpper(latency) + " against load: " + about,
		X:     chart.Axis{Name: name, Log: conclude.Load(points[len(points)-1].Cell) >= 8*conclude.Load(points[0].Cell)},
		Y:     chart.Axis{Name: strings.ToUpper(latency) + " [ms]"},
	}
	t := v.table("cell", columns...)
	for i, column := range columns {
		series := chart.Series{Name: column, Kind: i, Dash: i, Line: true}
		for _, p := range points {
			m := conclude.Measure{Column: column}
			value, ok := p.Average(m)
			if !ok {
				continue
			}
			pt := chart.Point{X: conclude.Load(p.Cell), Y: value}
			pt.Low, pt.High = interval(p, column)
			v.markVerdict(&pt, p)
			pt.Label = ""
			pt.Title = fmt.Sprintf("%s; %s %s", v.title(p), column, humanize.Figure(value))
			if pt.High > pt.Low {
				pt.Title += fmt.Sprintf(" (95 %% interval %s to %s)", humanize.Figure(pt.Low), humanize.Figure(pt.High))
			}
			series.Points = append(series.Points, pt)
		}
		plot.Series = append(plot.Series, series)
		plot.Limits = append(plot.Limits, limits(points, column)...)
	}
	for _, p := range points {
		t.add(v, p, columns...)
	}
	if f, ok := newFigure("latency-"+latency, strings.ToUpper(latency)+" against load: "+cmp.Or(about, "all cells"), "", plot, t); ok {
		v.Latency = append(v.Latency, f)
	}
}

// interval returns the 95 % interval of a column: of the mean over the trials of a cell, or of
// its only trial. Tables of cells of older versions have lower ends below 0, where no figure
// is.
func interval(p *conclude.Point, column string) (low, high float64) {
	if p.Valid > 1 {
		return max(0, p.Group.Float(column+groups.CILow)), p.Group.Float(column + groups.CIHigh)
	}
	for _, t := range p.Counting() {
		low, one := t.Outcome.Row.Number(column + col.LowSuffix)
		high, two := t.Outcome.Row.Number(column + col.HighSuffix)
		if one && two {
			return low, high
		}
	}
	return 0, 0
}

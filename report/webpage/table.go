package webpage

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/webpage/pack"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// MaxRows is how many rows a table of the page has. The script draws those of all
// trials that fit a filter.
const MaxRows = 500

// A table is a table of the page.
type table struct {
	Title string
	Head  []head
	Rows  [][]field
	Left  int // rows that are not shown
	Notes []string
}

// A head is the name of a column, and what it means.
type head struct {
	Name  string
	Title string
	Text  bool // its values are texts
}

// A field is one place of a table.
type field struct {
	Text    string
	Verdict conclude.Verdict // "" if there is none
	Cell    string           // what a click opens
	Number  bool
}

// table begins a table with a column of texts and some columns of the cells table.
func (v *runView) table(first string, columns ...string) table {
	t := table{Head: []head{{Name: first, Text: true}}}
	for _, c := range columns {
		t.Head = append(t.Head, head{Name: c, Title: doc(v.Run.Resolved.Columns, c)})
	}
	return t
}

// add adds a row with a cell and its figures.
func (t *table) add(v *runView, p *conclude.Point, columns ...string) {
	if len(t.Rows) == MaxRows {
		t.Left++
		return
	}
	row := []field{v.name(p)}
	for _, c := range columns {
		row = append(row, figureOf(p, c))
	}
	t.Rows = append(t.Rows, row)
}

// name returns a cell with its verdict.
func (v *runView) name(p *conclude.Point) field {
	return field{Text: p.Verdict.Mark() + " " + p.Cell.Label, Verdict: p.Verdict, Cell: v.ID + p.Cell.ID}
}

// figureOf returns the mean of a column over the trials of a cell that count, marked where it
// must not be used or rests on too few requests.
func figureOf(p *conclude.Point, column string) field {
	m := conclude.Measure{Column: column}
	f := field{Text: "-", Number: true}
	if v, ok := p.Average(m); ok {
		f.Text = humanize.Figure(v) + p.Mark(column)
		if p.Valid == 0 {
			f.Text, f.Verdict = conclude.Invalid.Mark()+" "+f.Text, conclude.Invalid
		}
	} else if p.Valid > 0 {
		f.Text = p.Shown(m)
	}
	return f
}

// tableOf returns a grid of a summary.
func tableOf(g draw.Grid, notes []string) table {
	t := table{Title: g.Name, Head: []head{{Name: g.Down, Text: true}}, Notes: notes}
	for _, value := range g.Values {
		t.Head = append(t.Head, head{Name: value})
	}
	for i, row := range g.Rows {
		if i == MaxRows {
			t.Left = len(g.Rows) - i
			break
		}
		var fields []field
		for j, f := range row {
			fields = append(fields, field{Text: f.Text, Verdict: f.Verdict, Number: j > 0})
		}
		t.Rows = append(t.Rows, fields)
	}
	return t
}

// shownColumns are the columns of the table of all trials, where any trial has them.
var shownColumns = []string{
	col.ThroughputTokS, col.RequestThroughput, col.P50TTFTMs, col.P95TTFTMs, col.P99TTFTMs, col.P50TPOTMs, col.P95TPOTMs,
	col.P50E2EMs, col.P95E2EMs, col.P50UserTokS, col.USDPer1MOutputTokens, col.JoulesPerOutputToken, col.Completed, col.ErrorRate,
}

// cells writes the table of all trials.
func (v *runView) cells() {
	outcomes := v.Run.Outcomes()
	columns := slices.DeleteFunc(slices.Clone(shownColumns), func(c string) bool {
		return !slices.ContainsFunc(outcomes, func(o *result.Outcome) bool { return o.Row[c] != nil || o.Row.Infinite(c) })
	})
	t := v.table("cell", columns...)
	t.Head = slices.Insert(t.Head, 1, head{Name: "verdict", Text: true})
	if v.Run.Repeated() {
		t.Head = slices.Insert(t.Head, 1, head{Name: "trial"})
	}
	for i, trial := range v.Run.Trials {
		if i == MaxRows {
			t.Left = len(v.Run.Trials) - i
			break
		}
		verdict := conclude.Judge(trial)
		row := []field{{Text: trial.Cell.Label, Cell: v.ID + trial.Cell.ID}}
		if v.Run.Repeated() {
			row = append(row, field{Text: humanize.Figure(int64(trial.Trial)), Number: true})
		}
		row = append(row, field{Text: strings.TrimSpace(verdict.Mark() + " " + string(verdict) + " " + pack.Why(trial)), Verdict: verdict})
		for _, c := range columns {
			f := field{Text: "-", Number: true}
			if trial.Outcome != nil {
				f.Text = shown(trial.Outcome.Row, c)
			}
			if verdict == conclude.Invalid && f.Text != "-" {
				f.Text, f.Verdict = verdict.Mark()+" "+f.Text, verdict
			}
			row = append(row, f)
		}
		t.Rows = append(t.Rows, row)
	}
	v.Cells = t
}

// shown returns a figure of a row for people.
func shown(row result.Row, column string) string {
	if row.Infinite(column) {
		return conclude.Infinite
	}
	return humanize.Figure(row[column])
}

// steadyColumns say how steady a trial was, and on how much its figures rest.
var steadyColumns = []string{
	col.PlateauS, col.PlateauRequests, col.TTFTDrift, col.TPOTDrift, col.ThroughputDrift,
	col.P99ClientLagMs, col.StampErrorMs, col.CalibratedErrorMs, col.ClientCPU, col.MaxRTTMs,
}

// steady writes the table of how steady cells were.
func (v *runView) steady() {
	points := v.Set.Points
	columns := slices.DeleteFunc(slices.Clone(steadyColumns), func(c string) bool {
		return !slices.ContainsFunc(points, func(p *conclude.Point) bool { _, ok := p.Average(conclude.Measure{Column: c}); return ok })
	})
	t := v.table("cell", columns...)
	for _, p := range points {
		t.add(v, p, columns...)
	}
	if len(columns) > 0 {
		v.Steady = t
	}
}

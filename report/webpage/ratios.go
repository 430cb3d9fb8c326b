package webpage

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/chart"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
)

// A sideTable is one side against another: two values of an axis, or two runs.
type sideTable struct {
	Title   string
	Lines   []string // what differs, and what the intervals cover
	Figures []figure
	Table   table
	Quality table // of two runs that asked quality prompts
}

// sides name what is compared, for people.
type sides struct{ base, head string }

// compareSides draws a comparison. id begins what a click on a cell opens, and columns say what
// the metrics are.
func compareSides(c *compare.Comparison, title string, names sides, id string, columns []result.Column) sideTable {
	h := sideTable{Title: title, Table: ratioTable(c, names, id)}
	for _, m := range compare.Metrics() {
		if !m.Judged || m.Share {
			continue // a cost follows from the rate, and a share has no ratio
		}
		f := chart.Forest{
			Title: fmt.Sprintf("%s of %s over that of %s, with 95 %% intervals", m.Column, names.head, names.base),
			Axis:  fmt.Sprintf("%s, %s / %s: %s is %s", m.Column, names.head, names.base, better(m), m.Better), Alike: compare.Alike,
		}
		for i := range c.Cells {
			for k := range c.Cells[i].Figures {
				if fig := &c.Cells[i].Figures[k]; fig.Metric == m.Column && fig.Ratio != nil {
					f.Rows = append(f.Rows, forestRow(&c.Cells[i], fig, id))
				}
			}
		}
		if drawn, ok := newFigure("ratio-"+strings.ReplaceAll(m.Column, "_", "-"), axisOf(columns, m.Column), "", f, table{}); ok {
			h.Figures = append(h.Figures, drawn)
		}
	}
	return h
}

// better returns which side of 1 is the better one.
func better(m compare.Metric) string {
	if m.LessIsBest() {
		return "below 1"
	}
	return "above 1"
}

func forestRow(cell *compare.Cell, f *compare.Figure, id string) chart.ForestRow {
	r := chart.ForestRow{
		Name: cell.Short(), Ratio: *f.Ratio, Text: ratioText(*f.Ratio) + " " + f.Word(), Cell: id + cell.ID,
		Better: f.Verdict == compare.Faster, Worse: f.Verdict == compare.Slower,
		Title: cell.Label + ": " + f.Metric + " " + ratioText(*f.Ratio) + ", " + f.Words(),
	}
	if f.Low != nil {
		r.Low = *f.Low
	}
	if f.High != nil {
		r.High = *f.High
	}
	if f.Low != nil && f.High != nil {
		r.Title += fmt.Sprintf(" (95 %% interval %s to %s, %s)", ratioText(*f.Low), ratioText(*f.High), f.Scope)
	}
	return r
}

// ratioText returns a ratio with the digits that tell 2 % from 1 %.
func ratioText(v float64) string {
	if v < 0.1 || v >= 10 {
		return humanize.Figure(v)
	}
	return fmt.Sprintf("%.3f", v)
}

// ratioColumns are the columns of comparison.csv that the table has.
var ratioColumns = []string{"cell", "metric", "base", "head", "ratio", "low", "high", "verdict", "repeats"}

// ratioTable has a line for each figure of each cell, and one for each cell that is not
// compared.
func ratioTable(c *compare.Comparison, names sides, id string) table {
	t := table{Title: fmt.Sprintf("Ratios: base is %s, head is %s", names.base, names.head)}
	for _, name := range ratioColumns {
		t.Head = append(t.Head, head{Name: name, Title: doc(compare.Columns(), name), Text: slices.Contains([]string{"cell", "metric", "verdict"}, name)})
	}
	optional := func(v *float64, share bool) field {
		switch {
		case v == nil:
			return field{Text: "-", Number: true}
		case share:
			return field{Text: fmt.Sprintf("%+.2g", *v), Number: true}
		}
		return field{Text: ratioText(*v), Number: true}
	}
	add := func(row []field) {
		if len(t.Rows) == MaxRows {
			t.Left++
			return
		}
		t.Rows = append(t.Rows, row)
	}
	for i := range c.Cells {
		cell := &c.Cells[i]
		for k := range cell.Figures {
			f := &cell.Figures[k]
			if !f.Said() {
				continue
			}
			base, head := f.Sides()
			repeats := "-"
			if f.Repeats != nil {
				repeats = fmt.Sprint(*f.Repeats)
			}
			verdict := f.Word()
			if f.Why != "" && f.Verdict != compare.Same {
				verdict += ": " + f.Why
			}
			share := f.Share()
			add([]field{
				{Text: cell.Short(), Cell: id + cell.ID},
				{Text: f.Metric},
				{Text: base, Number: true},
				{Text: head, Number: true},
				optional(f.Ratio, share), optional(f.Low, share), optional(f.High, share),
				{Text: verdict},
				{Text: repeats, Number: true},
			})
		}
	}
	t.Notes = c.LeftOut(false)
	return t
}

// turns writes the values of the axis that the plan compares by turns.
func (v *runView) turns() {
	t := v.Turns()
	if t == nil {
		return
	}
	for _, s := range t.Sides {
		h := compareSides(s.Comparison, t.Title(s), sides{t.Baseline, s.Value}, v.ID, v.Run.Resolved.Columns)
		if len(s.Cells) == 0 {
			h.Lines = []string{s.Nothing()}
		}
		if t.Drift != "" {
			h.Lines = append(h.Lines, t.Drift)
		}
		v.Sides = append(v.Sides, h)
	}
}

// between holds each run but the first against the first.
func between(runs []*report.Run, views []*runView) []sideTable {
	if len(runs) < 2 {
		return nil
	}
	side := func(i int) compare.Side {
		m := runs[i].State.Manifest
		return compare.Side{Name: runs[i].Dir, RunID: m.RunID, Plan: runs[i].Resolved.Plan, Points: views[i].Set.Points, Answers: views[i].answers}
	}
	var all []sideTable
	for i := range runs[1:] {
		head := i + 1
		c := compare.Compare(side(0), side(head), compare.Options{})
		title := runs[head].Dir + " against " + runs[0].Dir
		if len(c.Cells) == 0 {
			all = append(all, sideTable{Title: title, Lines: []string{c.Nothing()}})
			continue
		}
		h := compareSides(c, title, shortNames(runs[0].Dir, runs[head].Dir), views[head].ID, runs[head].Resolved.Columns)
		h.Lines = []string{c.Identity(), c.Covered()}
		if c.Quality != nil {
			h.Quality = tableOf(c.Quality.Runs().Grid(), c.Quality.Runs().LeftOut(false))
		}
		if c.Simulated {
			h.Lines = append([]string{"SIMULATED"}, h.Lines...)
		}
		all = append(all, h)
	}
	return all
}

// shortNames returns the last elements of two paths, or the paths if those are the same.
func shortNames(base, head string) sides {
	if b, h := filepath.Base(base), filepath.Base(head); b != h {
		return sides{b, h}
	}
	return sides{base, head}
}

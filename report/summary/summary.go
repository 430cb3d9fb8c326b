// Package summary writes everything there is to say about a run: all grids, all
// comparisons, each objective and each trial without numbers to use.
package summary

import (
	"cmp"
	"io"
	"strings"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/view"
)

// Write writes what a run found: the cells worth using and what is not decided, every
// objective that was missed with the value that missed it, the reasons for INVALID and
// failed trials with what to try, the grids, and then what all of that rests on.
func Write(w io.Writer, r *report.Run, style draw.Style) error {
	v := view.Of(r)
	d := draw.New(w, style)

	d.Title(r.State.Manifest.Plan + ": " + v.Count())
	paragraph(d, v.Simulated())
	owed, kept := v.Pods()
	d.Section(v.OwedTitle(), owed)
	d.Section(v.KeptTitle(), kept)
	if v.Searching() {
		answers := v.Capacity()
		d.Section(capacity.Title(answers), capacity.Items(answers))
	} else {
		d.Section("Sweet spots", v.Spots())
		d.Paragraph(v.ToDecide()...)
		d.Section("Objectives that were not met", v.Missed())
		d.Section("Objectives that are undecided", v.Undecided())
	}
	d.Section("Objectives that could not be checked", v.Unchecked())
	d.Section("INVALID: these numbers must not be used", v.Invalid())
	d.Section("Failed", v.Failed())
	d.Section(v.NoStartTitle(), v.NoStart())
	if text := v.Unfinished(); text != "" {
		d.Section("Not finished", draw.Items([]string{text}))
	}
	d.Section("What to try", v.Advice())
	grids(d, v)
	comparisons(d, v)
	p, unread := v.Quality()
	if p != nil {
		d.Grid(p.Grid())
		d.Section("Does it answer worse than the baseline?", p.Verdicts())
		d.Paragraph(p.Notes()...)
	}
	paragraph(d, unread)
	d.Section(v.RehearsedTitle(), v.Rehearsed())
	d.Section("Cost of output tokens", v.Costs())
	d.Section("Prices", v.Prices())
	d.Section("Unstable", v.Unstable())
	d.Section("Jitter zone (decides nothing)", v.Jitter())
	d.Section("Trials unlike the others of their cell (they count all the same)", v.Outliers())
	d.Section("Findings", v.Findings())
	paragraph(d, v.Requests())
	d.Paragraph(v.Trust()...)
	d.Section("How cells are judged", draw.Items(conclude.Rules))
	d.Section("Files", draw.Items(v.Files()))
	d.Paragraph(v.Calibration...)
	if style.Markdown {
		d.Section("Next", draw.Items([]string{v.Next()}))
	}
	return d.Err()
}

// paragraph writes a text, and nothing for none.
func paragraph(d *draw.Document, text string) {
	if text != "" {
		d.Paragraph(text)
	}
}

// grids draws a grid for each load and server; servers go across where nothing else does.
func grids(d *draw.Document, v *view.View) {
	latencies := view.P95(v.All())
	for _, g := range v.Grids() {
		folded := g.Servers()
		if folded > 0 && folded == len(g.Across) {
			folded--
		}
		for _, b := range g.Blocks(folded) {
			d.Grid(grid(v, g, b, latencies))
		}
	}
	points := v.Set.Points
	lines := append([]string{"Each cell: " + view.Caption(points, v.Rate, latencies) + "."}, view.Notes(points, latencies)...)
	d.Paragraph(append(lines, "Marks: "+strings.Join(view.Marks(points), ", ")+".")...)
}

// grid returns a block of a run's grid as a table.
func grid(v *view.View, g view.Grid, b view.Block, latencies []conclude.Measure) draw.Grid {
	t := draw.Grid{Name: title(v, g, b)}
	if g.Down != nil {
		t.Down = g.Down.Column
	}
	for i := range b.Series {
		t.Values = append(t.Values, b.Head(i))
	}
	if len(b.Series) == 1 && t.Values[0] == "" {
		t.Values[0] = conclude.Rates[v.Rate.ID()]
	}
	for _, row := range b.Rows {
		line := []draw.Field{{Text: row.Name}}
		for _, p := range row.Points {
			line = append(line, field(p, v.Rate, latencies))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// title returns what the cells of a block share of what others differ in, of several loads with
// the name of theirs; of one block all that they share.
func title(v *view.View, g view.Grid, b view.Block) string {
	var parts []string
	if load := conclude.LoadName(g.Points[0].Cell); load != "" {
		parts = append(parts, "load "+load)
	}
	if b.Title != "" {
		parts = append(parts, b.Title)
	}
	return cmp.Or(strings.Join(parts, ", "), g.Common(), "all cells")
}

func field(p *conclude.Point, rate conclude.Measure, latencies []conclude.Measure) draw.Field {
	if p == nil {
		return draw.Field{}
	}
	f := view.Figure(p, rate, latencies)
	text := strings.TrimSpace(cmp.Or(f.Value, string(p.Verdict)) + " " + f.Note)
	return draw.Field{Text: p.Verdict.Mark() + " " + text, Verdict: p.Verdict}
}

// comparisons writes the sections that a plan has by what it varies: several engines,
// settings of memory, several GPUs, sides by turns.
func comparisons(d *draw.Document, v *view.View) {
	if v.Searching() {
		return
	}
	table := func(t *view.Table) {
		if t != nil {
			d.Grid(t.Grid)
			d.Paragraph(t.Notes...)
		}
	}
	table(v.Engines())
	d.Section("Engines ranked", v.Ranked())
	table(v.Surface())
	for _, t := range v.GPUs() {
		table(t)
	}
	if t := v.Turns(); t != nil {
		for _, g := range t.Grids() {
			d.Grid(g)
		}
		d.Paragraph(t.Notes()...)
	}
	d.Section("Which GPU for which load", v.Choices())
}

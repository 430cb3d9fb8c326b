package nightly

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly/gate"
	"sweep.dev/sweep/report/chart"
	"sweep.dev/sweep/report/webpage"
)

//go:embed page.tmpl
var markup string

// Bounds of a page, so that a history of any length is one that a browser opens.
const (
	mostSeries = 300 // that are drawn
	mostNights = 366 // that a chart and its table show, the last ones
)

// A trendPage is what the template shows.
type trendPage struct {
	Title   string
	Policy  string
	Style   template.CSS
	Count   string
	Changes []trendChange
	Last    []trendChange // series that are outside of their band in the last night
	Series  []trendSeries
	Shown   string // of the nights, if a chart does not show all
	Left    int    // series that are not drawn
}

// A trendChange is a step of a series, for the list at the head of the page.
type trendChange struct{ Date, Run, Series, Anchor, Step, Changed string }

// A trendSeries is one chart with its table.
type trendSeries struct {
	Anchor, Label, Metric, State, Last, Note string
	SVG                                      template.HTML
	Rows                                     []trendRow
}

// A trendRow is a night.
type trendRow struct{ Date, Run, Value, Low, High, State, Changed string }

// Page writes the trend as one HTML file that needs nothing else, and no script: each
// series as a chart, with its nights as a table below.
func (b *Board) Page(w io.Writer) error {
	css, policy := webpage.Style()
	p := trendPage{Policy: policy, Style: template.CSS(css)} // a constant of this program
	plans := map[string]bool{}
	var titles []string
	for _, n := range b.Nights {
		if !plans[n.Plan] {
			plans[n.Plan] = true
			titles = append(titles, n.Plan)
		}
	}
	p.Title = strings.Join(titles, ", ")
	p.Count = fmt.Sprintf("%s to %s: %s, %s", b.Nights[0], b.Nights[len(b.Nights)-1], humanize.Plural(len(b.Nights), "night"), fmt.Sprintf("%d series", len(b.Series)))
	if n := len(b.Nights); n > mostNights {
		p.Shown = fmt.Sprintf("The last %d of %d nights are shown; --json has all.", mostNights, n)
	}
	for i, s := range b.Series {
		steps := gate.Steps(s.Values)
		anchor := fmt.Sprintf("s%d", i+1)
		if last := s.Last().State; outside(last) {
			p.Last = append(p.Last, trendChange{Series: s.Label + ", " + s.Metric.Column, Anchor: anchor, Step: words(last)})
		}
		for _, step := range steps {
			n := b.Nights[step.Night]
			p.Changes = append(p.Changes, trendChange{n.String(), n.Run, s.Label + ", " + s.Metric.Column, anchor, stepped(step), s.stepText(step.Night)})
		}
		if i >= mostSeries {
			p.Left++
			continue
		}
		p.Series = append(p.Series, b.drawn(s, steps, anchor))
	}
	t, err := template.New("trend").Funcs(template.FuncMap{"line": plaintext.Line}).Parse(markup)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

func stepped(step gate.Step) string {
	return fmt.Sprintf("%s -> %s, %+.1f %%", humanize.Figure(step.Before), humanize.Figure(step.After), 100*(step.After/step.Before-1))
}

// drawn returns a series as a chart and a table.
func (b *Board) drawn(s Series, steps []gate.Step, anchor string) trendSeries {
	v, n := s.Last(), len(b.Nights)
	from := max(0, n-mostNights)
	out := trendSeries{
		Anchor: anchor, Label: s.Label, Metric: s.Metric.Column, State: words(v.State), Last: value(v.Value) + unit(s),
	}
	line := chart.Series{Line: true}
	plot := chart.Plot{Title: s.Label + ", " + s.Metric.Column, X: chart.Axis{Name: "night", Near: true, Words: b.tick}, Y: chart.Axis{Name: s.Metric.Column, Near: true}}
	infinite := 0
	for i := from; i < n; i++ {
		v := s.Verdicts[i]
		title := fmt.Sprintf("%s (run %s): %s%s, %s", b.Nights[i], b.Nights[i].Run, value(s.Values[i]), unit(s), v.State)
		switch x := s.Values[i]; {
		case math.IsInf(x, 0):
			infinite++
		case !math.IsNaN(x):
			line.Points = append(line.Points, chart.Point{X: float64(i + 1), Y: x, Faint: outside(v.State), Title: title})
		}
		if !math.IsNaN(v.Low) && !math.IsNaN(v.High) {
			plot.Area = append(plot.Area, chart.Point{X: float64(i + 1), Low: v.Low, High: v.High})
		}
	}
	for i := n - 1; i >= from; i-- {
		v := s.Verdicts[i]
		out.Rows = append(out.Rows, trendRow{b.Nights[i].String(), b.Nights[i].Run, value(s.Values[i]), value(v.Low), value(v.High), words(v.State), s.Changed(i)})
	}
	for _, step := range steps {
		if step.Night >= from {
			plot.Limits = append(plot.Limits, chart.Limit{Name: b.Nights[step.Night].String(), At: float64(step.Night + 1), OnX: true, Above: true})
		}
	}
	plot.Series = []chart.Series{line}
	out.SVG = template.HTML(plot.SVG()) // escaped by package chart
	if infinite > 0 {
		out.Note = "Not drawn, as the value is infinite: " + humanize.Plural(infinite, "night") + "."
	}
	return out
}

// tick returns the date of a night, by its number from 1; "" if there is no such night.
func (b *Board) tick(number float64) string {
	n := int(number)
	if float64(n) != number || n < 1 || n > len(b.Nights) {
		return ""
	}
	return b.Nights[n-1].String()
}

// outside reports whether a night is not a part of the band: its point is hollow.
func outside(s gate.State) bool {
	return s == gate.Suspect || s == gate.Regression || s == gate.Better || s == gate.Withdrawn || s == gate.Missing
}

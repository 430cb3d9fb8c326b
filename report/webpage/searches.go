package webpage

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/chart"
)

// A searched is how the capacity for one objective was found.
type searched struct {
	Title   string
	Lines   []string // why the search ended, and why it stops there
	Figures []figure
}

// searches draws the searches of a plan with find.
func (v *runView) searches() {
	for i := range v.found {
		if len(v.Searched) == maxPanels/2 {
			v.SearchedLeft++
			continue
		}
		a := &v.found[i]
		probes := a.Probes()
		if len(probes) == 0 {
			continue
		}
		s := searched{Title: a.About(), Lines: a.Ended()}
		for _, f := range []func(*capacity.Answer, []capacity.Probe) (figure, bool){v.probes, v.keptShares} {
			if f, ok := f(a, probes); ok {
				s.Figures = append(s.Figures, f)
			}
		}
		v.Searched = append(v.Searched, s)
	}
}

// An ended is how probes end.
type ended struct {
	mark, name string
	crossed    bool
}

// outcomes are the marks of probes in words, in the order of a legend.
var outcomes = []ended{
	{mark: capacity.Kept, name: "kept"},
	{mark: capacity.Missed, name: "missed"},
	{mark: capacity.Invalid, name: "INVALID", crossed: true},
	{mark: capacity.Failed, name: "failed", crossed: true},
}

// probes draws the trials of a search in their order, with the loads of its answer.
func (v *runView) probes(a *capacity.Answer, probes []capacity.Probe) (figure, bool) {
	low, high := probes[0].Load, probes[0].Load
	for _, p := range probes {
		low, high = min(low, p.Load), max(high, p.Load)
	}
	plot := chart.Plot{
		Title: "Search: " + a.About(),
		X:     chart.Axis{Name: "trial, in order"},
		Y:     chart.Axis{Name: v.axis(a.Of.Axis), Log: high >= 8*low, Near: true},
	}
	way := chart.Series{Kind: 6, Dash: 2, Line: true, Small: true}
	series := make([]chart.Series, len(outcomes))
	for i, o := range outcomes {
		series[i] = chart.Series{Name: o.name, Kind: i}
	}
	t := table{Head: []head{{Name: "trial"}, {Name: a.Of.Axis, Title: doc(v.Run.Resolved.Columns, a.Of.Axis)}, {Name: "why it was run", Text: true}, {Name: "objective", Text: true}, {Name: "what was measured", Text: true}}}
	for n, p := range probes {
		i := slices.IndexFunc(outcomes, func(o ended) bool { return o.mark == p.Mark })
		why := "to find a load"
		if p.Fresh {
			why = "to confirm it"
		}
		title := fmt.Sprintf("trial %d, %s: %s %s", n+1, why, a.Load(p.Load), outcomes[i].name)
		if p.Why != "" {
			title += ": " + p.Why
		}
		pt := chart.Point{X: float64(n + 1), Y: p.Load, Faint: !p.Fresh, Crossed: outcomes[i].crossed, Title: title, Cell: v.ID + p.Cell}
		series[i].Points = append(series[i].Points, pt)
		way.Points = append(way.Points, chart.Point{X: pt.X, Y: pt.Y})
		if len(t.Rows) == MaxRows {
			t.Left++
			continue
		}
		t.Rows = append(t.Rows, []field{
			{Text: fmt.Sprint(n + 1), Number: true},
			{Text: capacity.Number(p.Load), Number: true, Cell: v.ID + p.Cell},
			{Text: why},
			{Text: p.Mark + " " + outcomes[i].name},
			{Text: p.Why},
		})
	}
	plot.Series = append(plot.Series, way)
	for i, l := range answered(a) {
		plot.Series = append(plot.Series, chart.Series{
			Name: l.name + " " + capacity.Number(l.load), Kind: 3 + i, Dash: i, Line: true, Small: true,
			Points: []chart.Point{{X: 1, Y: l.load}, {X: float64(len(probes)), Y: l.load}},
		})
	}
	for _, s := range series {
		if len(s.Points) > 0 {
			plot.Series = append(plot.Series, s)
		}
	}
	return newFigure("search", "each trial in its order", "", plot, t)
}

// A named is a load of an answer.
type named struct {
	name string
	load float64
}

// answered returns the loads of an answer: certified, the point estimate if that is another, and
// where it fails.
func answered(a *capacity.Answer) (all []named) {
	if a.Capacity != nil {
		name := "certified"
		if a.Point != nil && *a.Point == *a.Capacity {
			name = "certified, point estimate"
		}
		all = append(all, named{name, *a.Capacity})
	}
	if a.FailsAt != nil {
		all = append(all, named{"fails at", *a.FailsAt})
	}
	if a.Point != nil && (a.Capacity == nil || *a.Point != *a.Capacity) {
		all = append(all, named{"point estimate", *a.Point})
	}
	return all
}

// keptShares draws for each load which share of its trials kept the objective.
func (v *runView) keptShares(a *capacity.Answer, probes []capacity.Probe) (figure, bool) {
	bars := chart.Shares{Title: "Trials that kept the objective: " + a.About(), Unit: "filled: kept; hollow: missed; pale: no fresh trial"}
	t := table{Head: []head{{Name: a.Of.Axis, Title: doc(v.Run.Resolved.Columns, a.Of.Axis)}, {Name: "trials", Text: true}, {Name: "kept"}, {Name: "missed"}, {Name: "INVALID"}, {Name: "answer", Text: true}}}
	for _, l := range slices.Backward(a.Levels()) {
		var says []string
		for _, n := range answered(a) {
			if n.load == l.Load {
				says = append(says, n.name)
			}
		}
		row := chart.Share{
			Name: capacity.Number(l.Load), Part: l.Kept, Whole: l.Kept + l.Missed, Faint: !l.Fresh,
			Text: fmt.Sprintf("%d of %d", l.Kept, l.Kept+l.Missed), Title: fmt.Sprintf("%s: %d of %d trials kept the objective", a.Load(l.Load), l.Kept, l.Kept+l.Missed),
		}
		if l.Kept+l.Missed == 0 {
			row.Text = "INVALID"
		}
		row.Text = strings.Join(append([]string{row.Text}, says...), ", ")
		if i := slices.IndexFunc(probes, func(p capacity.Probe) bool { return p.Load == l.Load }); i >= 0 {
			row.Cell = v.ID + probes[i].Cell
		}
		bars.Rows = append(bars.Rows, row)
		kind := "on the way"
		if l.Fresh {
			kind = "fresh"
		}
		t.Rows = append(t.Rows, []field{
			{Text: row.Name, Number: true, Cell: row.Cell},
			{Text: kind},
			{Text: fmt.Sprint(l.Kept), Number: true},
			{Text: fmt.Sprint(l.Missed), Number: true},
			{Text: fmt.Sprint(l.Open), Number: true},
			{Text: strings.Join(says, ", ")},
		})
	}
	return newFigure("search-kept", v.axis(a.Of.Axis)+" and the trials that kept the objective", "", bars, t)
}

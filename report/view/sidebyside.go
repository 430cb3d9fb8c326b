package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result/col"
)

// enginesTable returns a comparison with a measure on each line and an engine in each column.
func (v *View) enginesTable(c *conclude.Comparison) draw.Grid {
	g := draw.Grid{Name: "Engines side by side", Down: col.Engine}
	if c.Name != "" {
		g.Name += ": " + c.Name
	}
	shown := c.Measured()
	for _, p := range shown {
		g.Values = append(g.Values, fmt.Sprint(v.Set.Value(p, col.Engine)))
	}
	line := func(name string, text func(*conclude.Point) string) {
		row := []draw.Field{{Text: name}}
		for _, p := range shown {
			row = append(row, draw.Field{Text: text(p)})
		}
		g.Rows = append(g.Rows, row)
	}
	outcome := []draw.Field{{Text: "outcome"}}
	for _, p := range shown {
		outcome = append(outcome, draw.Field{Text: p.Verdict.Mark() + " " + p.Outcome(), Verdict: p.Verdict})
	}
	g.Rows = append(g.Rows, outcome)
	line("version", func(p *conclude.Point) string { return cmp.Or(words(p, col.EngineVersion), "-") })
	line("requests completed", v.completed)
	for _, m := range conclude.Measures {
		ranked := c.Ranks(m)
		line(m.Name, func(p *conclude.Point) string {
			rank := ""
			if r, ok := ranked[p]; ok && r.Ratio > 0 {
				rank = times(r.Ratio)
			} else if ok {
				rank = unapart(r, m)
			}
			return measured(p, m, rank)
		})
		if m.Column == conclude.Reported {
			line("reported / actual", overReported)
		}
	}
	return g
}

// measured returns a line's field: the value, and how much worse it is than the
// best. What an INVALID trial measured has a mark and no rank.
func measured(p *conclude.Point, m conclude.Measure, rank string) string {
	v, ok := p.Average(m)
	switch {
	case !ok:
		return "-"
	case p.Valid == 0 && !m.Lasting:
		return conclude.Invalid.Mark() + " " + humanize.Figure(v) + p.Mark(m.Column)
	}
	text := humanize.Figure(v) + p.Mark(m.Column)
	if rank != "" {
		text += "  " + rank
	}
	return text
}

// overReported returns the throughput that the engine reports over the delivered one.
func overReported(p *conclude.Point) string {
	claimed, told := p.Average(conclude.Measure{Column: conclude.Reported})
	actual, measured := p.Average(conclude.TokenRate)
	if !told || !measured || actual <= 0 {
		return "-"
	}
	text := fmt.Sprintf("%.2f", claimed/actual)
	if p.Valid == 0 {
		text = conclude.Invalid.Mark() + " " + text
	}
	return text
}

// words returns the different texts of a column over the trials that count.
func words(p *conclude.Point, column string) string {
	var all []string
	for _, t := range p.Counting() {
		if text, ok := t.Outcome.Row[column].(string); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// scraped returns the replicas of roles whose metrics were read, by the files that
// keep what they exposed.
func scraped(p *conclude.Point) []string {
	var roles []string
	for _, t := range p.Trials {
		if t.Outcome == nil {
			continue
		}
		for _, f := range t.Outcome.Files {
			if role, ok := layout.Scraped(f.Name); ok && !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
		}
	}
	return roles
}

// counts say which values of an axis ran on how many GPUs, if those differ and
// the plan does not vary them: then deployments are compared.
func (v *View) counts(axis string, points []*conclude.Point) []string {
	var order []string
	by := map[string][]string{}
	all := map[string]bool{}
	for _, p := range points {
		if p.Cell.Value(col.GPUCount) != nil {
			return nil // every sentence names it
		}
		name := fmt.Sprint(v.Set.Value(p, axis))
		if by[name] == nil {
			order = append(order, name)
		}
		for _, t := range p.Counting() {
			if n, ok := t.Outcome.Row[col.GPUCount].(int64); ok && !slices.Contains(by[name], fmt.Sprint(n)) {
				by[name] = append(by[name], fmt.Sprint(n))
				all[fmt.Sprint(n)] = true
			}
		}
	}
	if len(all) < 2 {
		return nil
	}
	var each []string
	for _, name := range order {
		if len(by[name]) > 0 {
			each = append(each, name+" "+strings.Join(by[name], ", "))
		}
	}
	return []string{fmt.Sprintf("The servers have different numbers of GPUs (%s): this compares deployments.", strings.Join(each, "; "))}
}

// caveats returns the limits of a comparison: what else differs, what is simulated and
// what has no numbers.
func (v *View) caveats(c *conclude.Comparison) []string {
	var lines []string
	for _, column := range v.Set.Tied() {
		var each []string
		for _, p := range c.Points {
			each = append(each, fmt.Sprintf("%v %v", v.Set.Value(p, col.Engine), v.Set.Value(p, column)))
		}
		lines = append(lines, fmt.Sprintf("The engines differ in %s too (%s): this compares deployments, not engines alone.", column, strings.Join(each, ", ")))
	}
	lines = append(lines, v.counts(col.Engine, c.Points)...)
	lines = append(lines, drifted(c.Points)...)
	var simulated []string
	for _, p := range c.Points {
		if p.Simulated() {
			simulated = append(simulated, fmt.Sprint(v.Set.Value(p, col.Engine)))
		}
	}
	if len(simulated) > 0 {
		lines = append(lines, "Simulated: "+strings.Join(simulated, ", ")+". They share one arithmetic of a GPU, and differ in what they say and in how they divide its memory.")
	}
	var read []string
	for _, p := range c.Points {
		if roles := scraped(p); len(roles) > 0 {
			read = append(read, fmt.Sprintf("%v %s", v.Set.Value(p, col.Engine), strings.Join(roles, ", ")))
		}
	}
	if len(read) > 0 {
		lines = append(lines, "Metrics were read from: "+strings.Join(read, "; ")+".")
	}
	var without []string
	for _, p := range c.Points {
		if p.Valid == 0 && p.Verdict != conclude.Invalid {
			without = append(without, fmt.Sprintf("%v (%s)", v.Set.Value(p, col.Engine), p.Outcome()))
		}
	}
	if len(without) > 0 {
		lines = append(lines, "Without numbers: "+strings.Join(without, ", ")+".")
	}
	var notes []string
	if c.Valid() > 1 {
		notes = append(notes, "Nx: certainly slower than the best of the line, N times. ~: not distinguishable.")
	}
	if slices.ContainsFunc(c.Points, func(p *conclude.Point) bool { return p.Verdict == conclude.Invalid }) {
		notes = append(notes, "!: of an INVALID trial, and not ranked.")
	}
	if slices.ContainsFunc(c.Points, func(p *conclude.Point) bool { return p.Valid > 1 }) {
		notes = append(notes, "Means over the valid trials.")
	}
	return append(lines, strings.Join(append(notes, "-: not measured."), " "))
}

package onecell

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/agreement"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// A line is one figure of the table.
type line struct {
	name   string
	column string
	money  bool // dollars
	unless bool // left out if it is 0 or not known in all trials
	// of is the figure of a row where it is no column; ok is false if it is not known.
	of func(result.Row) (v float64, ok bool)
}

// lines returns the usual figures, in the order in which people read them.
func lines() []line {
	return []line{
		{name: "requests completed", column: col.Completed},
		{name: "requests failed", column: col.Failed, unless: true},
		{name: "output tokens/s", column: col.ThroughputTokS},
		{name: "TTFT p50, ms", column: col.P50TTFTMs},
		{name: "TTFT p95, ms", column: col.P95TTFTMs},
		{name: "TTFT p99, ms", column: col.P99TTFTMs},
		{name: "TPOT p50, ms", column: col.P50TPOTMs},
		{name: "TPOT p95, ms", column: col.P95TPOTMs},
		{name: "E2E p95, ms", column: col.P95E2EMs},
		{name: "client's mean TTFT, ms", column: col.MeanTTFTMsWhole},
		{name: "server's mean TTFT, ms", column: col.MeanServerTTFTMs},
		{name: "client - server, ms", of: ttftGap},
		{name: "GPU busy, %", column: col.MeanGPUUtil},
		{name: "$ per 1M output tokens", column: col.USDPer1MOutputTokens, money: true},
	}
}

// ttftGap returns how much later the client saw first tokens than the server, in ms. It is
// known only if both speak of the same requests.
func ttftGap(row result.Row) (v float64, ok bool) {
	for _, f := range agreement.Compare(row) {
		if f.Name == col.MeanTTFTMsWhole {
			return f.Client - f.Server, true
		}
	}
	return 0, false
}

// number returns the figure of a row.
func (l line) number(row result.Row) (v float64, ok bool) {
	if l.of != nil {
		return l.of(row)
	}
	return row.Number(l.column)
}

func (l line) show(v float64) string {
	if l.money {
		return humanize.Price(v)
	}
	return humanize.Figure(v)
}

// text returns the figure of a trial; a percentile of too few requests has their number
// behind it.
func (l line) text(t conclude.Trial) string {
	if t.Outcome == nil {
		return "-"
	}
	row := t.Outcome.Row
	if l.column != "" && row.Infinite(l.column) {
		return conclude.Infinite
	}
	v, ok := l.number(row)
	if !ok {
		return "-"
	}
	alone := conclude.Point{Trials: []conclude.Trial{t}}
	return l.show(v) + alone.Mark(l.column)
}

// grids returns the tables of the trials. Trials of which no figure is known have none,
// but for columns that are asked for.
func (v *view) grids() []draw.Grid {
	unmeasured := !slices.ContainsFunc(v.measured(), func(t conclude.Trial) bool {
		return slices.ContainsFunc(lines(), func(l line) bool { return l.text(t) != "-" })
	})
	switch g := v.trialGrid(); {
	case len(v.measured()) == 0:
		return nil
	case v.o.Columns != nil:
		return []draw.Grid{v.columnGrid(v.o.Columns)}
	case unmeasured && !v.o.Verbose:
		return nil
	case v.o.Verbose:
		all := v.columnGrid(v.run.Resolved.Columns)
		all.Name = "all columns"
		return []draw.Grid{g, v.sides(), all}
	case len(v.p.Trials) > 1 && wide(g) > v.limit:
		return []draw.Grid{v.folded()}
	default:
		return []draw.Grid{g}
	}
}

// heads returns the names of the columns, one for each trial.
func (v *view) heads() []string {
	var heads []string
	for _, t := range v.p.Trials {
		heads = append(heads, fmt.Sprint(t.Trial))
	}
	return heads
}

// verdicts returns the verdicts on the trials.
func (v *view) verdicts() []draw.Field {
	row := []draw.Field{{Text: "verdict"}}
	for _, t := range v.p.Trials {
		verdict := conclude.Judge(t)
		row = append(row, draw.Field{Text: verdict.Mark() + " " + string(verdict), Verdict: verdict})
	}
	return row
}

// trialGrid has a column for each trial, and one for the mean of those that are valid.
func (v *view) trialGrid() draw.Grid {
	g := draw.Grid{Down: "trial", Values: v.heads(), Rows: [][]draw.Field{v.verdicts()}}
	mean := len(v.p.Trials) > 1 && v.p.Valid > 0
	if mean {
		g.Values = append(g.Values, "mean")
		g.Rows[0] = append(g.Rows[0], draw.Field{})
	}
	for _, l := range v.shown() {
		row := []draw.Field{{Text: l.name}}
		for _, t := range v.p.Trials {
			f := draw.Field{Text: l.text(t)}
			if verdict := conclude.Judge(t); verdict == conclude.Invalid {
				f.Verdict = verdict
			}
			row = append(row, f)
		}
		if mean {
			row = append(row, draw.Field{Text: v.mean(l)})
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// shown returns the lines that have something to say of this cell.
func (v *view) shown() []line {
	return slices.DeleteFunc(lines(), func(l line) bool {
		return l.unless && !slices.ContainsFunc(v.measured(), func(t conclude.Trial) bool {
			n, _ := l.number(t.Outcome.Row)
			return n != 0
		})
	})
}

// mean returns that of a figure over the valid trials, with the spread of tokens/s.
func (v *view) mean(l line) string {
	values := v.values(l)
	if values == nil {
		return "-"
	}
	sum := 0.0
	for _, x := range values {
		sum += x
	}
	text := l.show(sum/float64(len(values))) + v.p.Mark(l.column)
	if l.column == conclude.TokenRate.Column && len(values) > 1 {
		text += fmt.Sprintf(" ±%.0f%%", 100*v.p.Spread(conclude.TokenRate))
	}
	return text
}

// values returns a figure of the trials that count, sorted; nil if it is unknown or
// infinite in any of them.
func (v *view) values(l line) []float64 {
	var values []float64
	for _, t := range v.p.Counting() {
		x, ok := l.number(t.Outcome.Row)
		if !ok || l.column != "" && t.Outcome.Row.Infinite(l.column) {
			return nil
		}
		values = append(values, x)
	}
	slices.Sort(values)
	return values
}

// folded returns the table of many trials: what figures came to over those that count.
func (v *view) folded() draw.Grid {
	var marks strings.Builder
	for _, t := range v.p.Trials {
		marks.WriteString(conclude.Judge(t).Mark())
	}
	of := fmt.Sprintf("the %d VALID trials", v.p.Valid)
	if v.p.Valid == 0 {
		of = "trials that are not VALID"
	}
	g := draw.Grid{
		Name:   fmt.Sprintf("trials 1 to %d: %s; figures of %s; -v shows each", len(v.p.Trials), marks.String(), of),
		Down:   "",
		Values: []string{"mean", "least", "median", "most"},
	}
	for _, l := range v.shown() {
		row := draw.Fields(l.name, v.mean(l), "-", "-", "-")
		if values := v.values(l); values != nil {
			n := len(values)
			for i, x := range []float64{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]} {
				row[2+i].Text = l.show(x)
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// sides returns what client and server say of the same things, in each trial.
func (v *view) sides() draw.Grid {
	g := draw.Grid{Name: "the same by client / server; a finding marks what no known reason explains", Down: "trial", Values: v.heads()}
	at := map[string]int{} // by figure, its row
	for i, t := range v.p.Trials {
		if t.Outcome == nil {
			continue
		}
		for _, f := range agreement.Compare(t.Outcome.Row) {
			n, ok := at[f.Name]
			if !ok {
				n = len(g.Rows)
				at[f.Name] = n
				row := []draw.Field{{Text: f.Name}}
				for range v.p.Trials {
					row = append(row, draw.Field{Text: "-"})
				}
				g.Rows = append(g.Rows, row)
			}
			text := humanize.Figure(f.Client) + " / " + humanize.Figure(f.Server)
			if f.Code != (finding.Code{}) {
				text += " " + f.Code.String()
			}
			g.Rows[n][1+i].Text = text
		}
	}
	return g
}

// leastField is the least that a value of a column is cut to, in columns of a terminal.
const leastField = 12

// columnGrid has a line for each of some columns. A value that is too long for its
// place loses its end.
func (v *view) columnGrid(columns []result.Column) draw.Grid {
	g := draw.Grid{Down: "trial", Values: v.heads(), Rows: [][]draw.Field{v.verdicts()}}
	names, widest := make([]string, len(columns)), 0
	for i, c := range columns {
		names[i] = c.Name
		if c.Unit != "" {
			names[i] += ", " + c.Unit
		}
		widest = max(widest, utf8.RuneCountInString(names[i]))
	}
	room := max(leastField, (v.limit-widest-2)/len(v.p.Trials)-2)
	for i, c := range columns {
		row := []draw.Field{{Text: names[i]}}
		for _, t := range v.p.Trials {
			text := "-"
			if t.Outcome != nil {
				text = value(t.Outcome.Row, c.Name)
			}
			if r := []rune(text); len(r) > room {
				text = string(r[:room-1]) + "…"
			}
			row = append(row, draw.Field{Text: text})
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// value returns a column of a row; of a percentile that is not known, its bounds.
func value(row result.Row, column string) string {
	if row.Infinite(column) {
		return conclude.Infinite
	}
	if v := row[column]; v != nil {
		return humanize.Figure(v)
	}
	if bounds := row.Bounds()[column]; bounds != "" {
		return bounds
	}
	return "-"
}

// wide returns how many columns of a terminal a grid takes.
func wide(g draw.Grid) int {
	total := 0
	for i := range len(g.Values) + 1 {
		widest := utf8.RuneCountInString(g.Down)
		if i > 0 {
			widest = utf8.RuneCountInString(g.Values[i-1])
		}
		for _, row := range g.Rows {
			widest = max(widest, utf8.RuneCountInString(row[i].Text))
		}
		total += 2 + widest
	}
	return total
}

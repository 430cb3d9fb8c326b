package view

import (
	"cmp"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result/col"
)

// shapeNote says what a table of GPUs has.
const shapeNote = "load: that of the highest mean of tokens for a dollar, of the cells that meet every objective; the other figures are of the same cell. tok/s: 1000 / p50 TPOT, what one user sees; per $/h: that for the price of an hour. Mtok/$: millions of tokens, of prompts and answers, for a dollar. The figures are of the cards that were measured, not of every card of their kind. ~: not distinguishable from the best. ?: not decided; the figures are of the best cell that is known."

// bestTable returns the table of a comparison of GPUs at their bests.
func bestTable(c conclude.Claim) draw.Grid {
	g := draw.Grid{
		Name: "GPUs for " + cmp.Or(c.About, TheLoad), Down: col.GPU,
		Values: []string{"$/h", "load", "p95 TTFT", "tok/s", "per $/h", "Mtok/$"},
	}
	if len(c.Loads) > 1 {
		g.Name += ", each at its best of " + c.At
	} else if c.At != "" {
		g.Name += ", at " + c.At
	}
	row := func(side string, p *conclude.Point, value string) []draw.Field {
		usd, _ := p.Figure(conclude.Measure{Column: col.USDPerHour})
		user := conclude.Measure{Column: col.P50UserTokS}
		return draw.Fields(
			side, humanize.Price(usd), positive(conclude.Load(p.Cell)), p.Shown(conclude.FirstToken)+p.Mark(conclude.FirstToken.Column),
			p.Shown(user)+p.Mark(user.Column), p.Shown(conclude.UserPerDollar), value,
		)
	}
	for i, p := range c.Places {
		value := humanize.Figure(p.Value)
		if p.Ratio == 0 && (i > 0 || c.Answer == conclude.Tied) {
			value += "  " + unapart(p, c.Measure)
		}
		g.Rows = append(g.Rows, row(p.Side, p.Point, value))
	}
	for _, l := range c.Left {
		fields, mark := draw.Fields(l.Side, "-", "-", l.Why, "-", "-", "-"), 3
		if l.Hole {
			fields[mark].Text = "not decided"
			if l.Best != nil {
				fields, mark = row(l.Side, l.Best, l.Best.Shown(c.Measure)), 6
			}
			fields[mark] = draw.Field{Text: conclude.Undecided.Mark() + " " + fields[mark].Text, Verdict: conclude.Undecided}
		}
		g.Rows = append(g.Rows, fields)
	}
	return g
}

func positive(v float64) string {
	if v > 0 {
		return humanize.Figure(v)
	}
	return "-"
}

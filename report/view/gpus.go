package view

import (
	"cmp"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result/col"
)

// shapeNote says what a table of GPUs has.
const shapeNote = "load: that of the highest mean of tokens for a dollar, of the cells that meet every objective; the other figures are of the same cell. tok/s: 1000 / p50 TPOT, what one user sees; per $/h: that for the price of an hour. Mtok/$: millions of tokens, of prompts and answers, for a dollar. The figures are of the cards that were measured, not of every card of their kind. ~: not distinguishable from the best."

// bestTable is the table of a comparison of GPUs at their bests.
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
	for i, p := range c.Places {
		value := humanize.Figure(p.Value)
		if p.Ratio == 0 && (i > 0 || c.Answer == conclude.Tied) {
			value += "  " + unapart(p, c.Measure)
		}
		usd, _ := p.Point.Figure(conclude.Measure{Column: col.USDPerHour})
		user := conclude.Measure{Column: col.P50UserTokS}
		g.Rows = append(g.Rows, draw.Fields(
			p.Side, humanize.Price(usd), positive(conclude.Load(p.Point.Cell)), p.Point.Shown(conclude.FirstToken)+p.Point.Mark(conclude.FirstToken.Column),
			p.Point.Shown(user)+p.Point.Mark(user.Column), p.Point.Shown(conclude.UserPerDollar), value,
		))
	}
	for _, l := range c.Left {
		row := draw.Fields(l.Side, "-", "-", l.Why, "-", "-", "-")
		if l.Hole {
			row[3] = draw.Field{Text: conclude.Undecided.Mark() + " not decided", Verdict: conclude.Undecided}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func positive(v float64) string {
	if v > 0 {
		return humanize.Figure(v)
	}
	return "-"
}

package report

import (
	"cmp"
	"slices"

	"sweep.dev/sweep/result/col"
)

// A shape is one kind of request on several sides, such as GPUs: the points of a
// side differ in the amount of load alone, and are in its order.
type shape struct {
	series // all of its points
	sides  []*series
}

// shapeNote says what a table of GPUs has.
const shapeNote = "load: that of the most tokens for a dollar, of the cells that meet every objective; the other figures are of the same cell. tok/s: 1000 / p50 TPOT, what one user sees; per $/h: that for the price of an hour. Mtok/$: millions of tokens, of prompts and answers, for a dollar. The figures are of the cards that were measured, not of every card of their kind."

// shapesOf are the shapes by the settings that their sides share and by the name
// of a point's side, those with two sides that have a price.
func (s *summary) shapesOf(share func(Setting) bool, side func(*Point) string) []*shape {
	var all []*shape
	for _, l := range group(s.points, func(p *Point) string { return label(p.Cell, share) }) {
		sh, priced := &shape{series: *l, sides: byLoad(l.points, side)}, 0
		for _, d := range sh.sides {
			if d.priced() {
				priced++
			}
		}
		if priced > 1 {
			all = append(all, sh)
		}
	}
	return all
}

// claims compare GPUs at each load that several of them were given, by what
// a user waits for and sees, and at their bests, by what they do for a dollar.
func (sh *shape) claims() []Claim {
	loads := slices.SortedStableFunc(slices.Values(sh.points), compareLoads)
	loads = slices.CompactFunc(loads, func(a, b *Point) bool { return compareLoads(a, b) == 0 })
	var claims []Claim
	for _, p := range loads {
		claims = append(claims, sh.at(p)...)
	}
	return append(claims, sh.bests(AskGPUBest, perDollar))
}

// at are the claims at one load, that of a point: one for each measure if two
// sides meet every objective there, one without a measure if one does. There is
// none for a load that was given to one side alone.
func (sh *shape) at(of *Point) []Claim {
	base := Claim{Question: AskGPU, About: sh.name, Loads: []float64{load(of.Cell)}, at: loadText(of.Cell)}
	tried := 0
	var sides []Place
	for _, d := range sh.sides {
		points := d.at(base.Loads)
		if len(points) == 0 {
			base.Left = append(base.Left, Left{Side: d.name, Why: "not tried"})
			continue
		}
		tried++
		p := points[0]
		if !p.passes() {
			base.Left = append(base.Left, Left{Side: d.name, Why: p.briefly(), Hole: p.open.kind != "", points: points})
			continue
		}
		sides = append(sides, p.place(d.name, measure{}))
	}
	if tried < 2 || len(sides) == 0 {
		return nil
	}
	if len(sides) < 2 {
		base.Places = sides
		base.answer()
		return []Claim{base}
	}
	var claims []Claim
	for _, m := range []measure{firstToken, userPerDollar} {
		c := base
		c.measure, c.Left = m, slices.Clone(base.Left)
		for _, side := range sides {
			if _, ok := side.point.figure(m); ok {
				c.Places = append(c.Places, side.point.place(side.Side, m))
			} else {
				c.Left = append(c.Left, Left{Side: side.Side, Why: "not measured"})
			}
		}
		c.unmix()
		c.answer()
		claims = append(claims, c)
	}
	return claims
}

// bestTable is the table of a comparison of GPUs at their bests.
func bestTable(c Claim) grid {
	g := grid{
		name: "GPUs for " + cmp.Or(c.About, "the plan's load"), down: col.GPU,
		values: []string{"$/h", "load", "p95 TTFT", "tok/s", "per $/h", "Mtok/$"},
	}
	if len(c.Loads) > 1 {
		g.name += ", each at its best of " + c.at
	} else if c.at != "" {
		g.name += ", at " + c.at
	}
	for _, p := range c.Places {
		usd, _ := p.point.figure(measure{column: col.USDPerHour})
		user := measure{column: col.P50UserTokS}
		g.rows = append(g.rows, fields(
			p.Side, Dollars(usd), positive(load(p.point.Cell)), p.point.shown(firstToken)+p.point.mark(firstToken.column),
			p.point.shown(user)+p.point.mark(user.column), p.point.shown(userPerDollar), Figure(p.Value),
		))
	}
	for _, l := range c.Left {
		row := fields(l.Side, "-", "-", l.Why, "-", "-", "-")
		if l.Hole {
			row[3] = field{text: Undecided.Mark() + " not decided", verdict: Undecided}
		}
		g.rows = append(g.rows, row)
	}
	return g
}

func positive(v float64) string {
	if v > 0 {
		return Figure(v)
	}
	return "-"
}

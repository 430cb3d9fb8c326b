package report

import (
	"cmp"
	"fmt"
	"slices"
)

// A shape is one kind of request on several GPUs: the points differ in the GPU
// and in the amount of load alone.
type shape struct {
	name string
	gpus []side
}

// shapeNotes say what a table of GPUs has.
var shapeNotes = []string{
	"load: that of the most tokens for a dollar, of the cells that meet every objective; the other figures are of the same cell. tok/s: 1000 / p50 TPOT, what one user sees; per $/h: that for the price of an hour. Mtok/$: millions of tokens, of prompts and answers, for a dollar. The figures are of the cards that were measured, not of every card of their kind.",
}

// shapes are the kinds of request that several GPUs with a price were tried
// with.
func (s *summary) shapes() []*shape {
	var all []*shape
	for _, g := range s.sides(
		func(set Setting) bool { return set.Column != "gpu" && !isLoad(set.Column) },
		func(p *Point) string { return fmt.Sprint(s.value(p, "gpu")) },
	) {
		all = append(all, &shape{g.about, g.sides})
	}
	return slices.DeleteFunc(all, func(sh *shape) bool { return priced(sh.gpus) < 2 })
}

func (sh *shape) points() []*Point {
	var points []*Point
	for _, d := range sh.gpus {
		points = append(points, d.points...)
	}
	return points
}

// A group of sides shares some settings.
type group struct {
	about string
	sides []side
}

// sides sorts points into groups by some of their settings, and within those
// into sides by their names.
func (s *summary) sides(share func(Setting) bool, name func(*Point) string) []group {
	var groups []group
	for _, p := range s.points {
		about := label(p.Cell, share)
		i := slices.IndexFunc(groups, func(g group) bool { return g.about == about })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{about: about})
		}
		g := &groups[i]
		j := slices.IndexFunc(g.sides, func(d side) bool { return d.name == name(p) })
		if j < 0 {
			j = len(g.sides)
			g.sides = append(g.sides, side{name: name(p)})
		}
		g.sides[j].points = append(g.sides[j].points, p)
	}
	for _, g := range groups {
		for _, d := range g.sides {
			slices.SortStableFunc(d.points, func(a, b *Point) int { return compareLoads(a.Cell, b.Cell) })
		}
	}
	return groups
}

func priced(sides []side) (n int) {
	for _, d := range sides {
		if d.priced() {
			n++
		}
	}
	return n
}

// costClaims compare servers that had the same kind of request, by the price of
// a token.
func (s *summary) costClaims() []Claim {
	var claims []Claim
	for _, g := range s.sides(
		func(set Setting) bool { return !set.Server && !isLoad(set.Column) },
		func(p *Point) string { return label(p.Cell, func(set Setting) bool { return set.Server }) },
	) {
		if priced(g.sides) > 1 {
			claims = append(claims, compareBests(AskCost, g.about, g.sides, tokenCost))
		}
	}
	return claims
}

// claims compare the GPUs at each load that several of them were given, by what
// a user waits for and sees, and at their bests, by what they do for a dollar.
func (sh *shape) claims() []Claim {
	points := sh.points()
	slices.SortStableFunc(points, func(a, b *Point) int { return compareLoads(a.Cell, b.Cell) })
	points = slices.CompactFunc(points, func(a, b *Point) bool { return load(a.Cell) == load(b.Cell) })
	var claims []Claim
	for _, p := range points {
		claims = append(claims, sh.at(p)...)
	}
	return append(claims, compareBests(AskGPUBest, sh.name, sh.gpus, perDollar))
}

// at are the claims at one load, that of a point: one for each measure if two GPUs
// meet every objective there, one without a measure if one does. There is none
// for a load that was given to one GPU alone.
func (sh *shape) at(of *Point) []Claim {
	base := Claim{Question: AskGPU, About: sh.name, Loads: []float64{load(of.Cell)}, at: loadText(of.Cell)}
	tried := 0
	var sides []Place
	for _, d := range sh.gpus {
		points := d.at(base.Loads)
		if len(points) == 0 {
			base.Left = append(base.Left, Left{Side: d.name, Why: "not tried"})
			continue
		}
		tried++
		p := points[0]
		if !p.passes() {
			base.Left = append(base.Left, Left{Side: d.name, Why: p.briefly(), Hole: p.open.kind != "", Cell: []string{p.Cell.ID}, at: points})
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
		c.Measure, c.measure, c.Left = m.id(), m, slices.Clone(base.Left)
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

// bests is the table of a comparison of GPUs at their bests.
func bests(c Claim) grid {
	g := grid{
		name: "GPUs for " + cmp.Or(c.About, "the plan's load"), down: "gpu",
		values: []string{"$/h", "load", "p95 TTFT", "tok/s", "per $/h", "Mtok/$"},
	}
	if len(c.Loads) > 1 {
		g.name += ", each at its best of " + c.at
	} else if c.at != "" {
		g.name += ", at " + c.at
	}
	for _, p := range c.Places {
		row := []field{{text: p.Side}}
		for _, text := range []string{
			fmt.Sprintf("%.2f", p.point.known("usd_per_hour")), positive(load(p.point.Cell)),
			p.point.shown(firstToken) + p.point.mark(firstToken.column),
			p.point.shown(measure{column: "p50_user_tok_s"}) + p.point.mark("p50_user_tok_s"),
			p.point.shown(userPerDollar), Figure(p.Value),
		} {
			row = append(row, field{text: text})
		}
		g.rows = append(g.rows, row)
	}
	for _, l := range c.Left {
		row := []field{{text: l.Side}, {text: "-"}, {text: "-"}, {text: l.Why}, {text: "-"}, {text: "-"}, {text: "-"}}
		if l.Hole {
			row[3] = field{text: Undecided.Mark() + " not decided", verdict: Undecided}
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// known is the mean of a column over the trials that count; 0 where there is
// none.
func (p *Point) known(column string) float64 {
	v, _ := p.average(column)
	return v
}

func (p *Point) shown(m measure) string {
	if v, ok := p.figure(m); ok {
		return Figure(v)
	}
	return "-"
}

func positive(v float64) string {
	if v > 0 {
		return Figure(v)
	}
	return "-"
}

package conclude

import (
	"slices"
)

// A Shape is one kind of request on several sides, such as GPUs: the points of a
// side differ in the amount of load alone, and are in its order.
type Shape struct {
	Series // all of its points
	sides  []*Series
}

// claims compare GPUs at each load that several of them were given, by what
// a user waits for and sees, and at their bests, by what they do for a dollar.
func (sh *Shape) claims() []Claim {
	loads := slices.SortedStableFunc(slices.Values(sh.Points), compareLoads)
	loads = slices.CompactFunc(loads, func(a, b *Point) bool { return compareLoads(a, b) == 0 })
	var claims []Claim
	for _, p := range loads {
		claims = append(claims, sh.at(p)...)
	}
	return append(claims, sh.bests(AskGPUBest, perDollar))
}

// at returns the claims at one load, that of a point: one for each measure if two
// sides meet every objective there, one without a measure if one does. There is
// none for a load that was given to one side alone.
func (sh *Shape) at(of *Point) []Claim {
	base := Claim{Question: AskGPU, About: sh.Name, Loads: []float64{Load(of.Cell)}, At: LoadText(of.Cell)}
	tried := 0
	var sides []Place
	for _, d := range sh.sides {
		points := d.at(base.Loads)
		if len(points) == 0 {
			base.Left = append(base.Left, Left{Side: d.Name, Why: "not tried"})
			continue
		}
		tried++
		p := points[0]
		if !p.passes() {
			base.Left = append(base.Left, Left{Side: d.Name, Why: p.briefly(), Hole: p.open.kind != "", Points: points})
			continue
		}
		sides = append(sides, p.place(d.Name, Measure{}))
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
	for _, m := range []Measure{FirstToken, UserPerDollar} {
		c := base
		c.Measure, c.Left = m, slices.Clone(base.Left)
		for i := range c.Left {
			c.Left[i].Best = known(c.Left[i].Points, m)
		}
		for _, side := range sides {
			if _, ok := side.Point.Figure(m); ok {
				c.Places = append(c.Places, side.Point.place(side.Side, m))
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

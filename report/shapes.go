package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A shape is one kind of request on several GPUs: the points differ in the GPU
// and in the amount of load alone.
type shape struct {
	name string
	gpus []*candidate
	grid grid
}

// A candidate is one GPU for a shape. Both points meet every objective.
type candidate struct {
	gpu    string
	points []*Point
	price  float64 // USD an hour; 0 is unknown
	// first is the point with the least p95 of TTFT, quick the one at which one
	// user gets most tokens a second for the price, full the one at which all of
	// them together do; all nil where no point meets every objective.
	first, quick, full *Point
}

// shapeNotes say how a GPU is chosen.
var shapeNotes = []string{
	"tok/s: 1000 / p50 TPOT, what one user sees; per $/h: that for the price of an hour. Mtok/$: millions of tokens, of prompts and answers, for a dollar. Of the cells that meet every objective each figure is that of the best one, the last two at the load beside them.",
}

// shapes are the kinds of request that several GPUs with a price were tried
// with.
func (s *summary) shapes() []*shape {
	byName := map[string]*shape{}
	var all []*shape
	for _, p := range s.points {
		var parts []string
		for _, set := range p.Cell.Settings {
			if set.Column != "gpu" && !isLoad(set.Column) {
				parts = append(parts, setting(set))
			}
		}
		name := strings.Join(parts, " ")
		sh := byName[name]
		if sh == nil {
			sh = &shape{name: name}
			byName[name], all = sh, append(all, sh)
		}
		gpu := fmt.Sprint(s.value(p, "gpu"))
		i := slices.IndexFunc(sh.gpus, func(c *candidate) bool { return c.gpu == gpu })
		if i < 0 {
			i = len(sh.gpus)
			sh.gpus = append(sh.gpus, &candidate{gpu: gpu})
		}
		sh.gpus[i].points = append(sh.gpus[i].points, p)
	}
	for _, sh := range all {
		for _, c := range sh.gpus {
			c.choose()
		}
	}
	all = slices.DeleteFunc(all, func(sh *shape) bool {
		priced := 0
		for _, c := range sh.gpus {
			if c.price > 0 {
				priced++
			}
		}
		return priced < 2
	})
	for _, sh := range all {
		s.draw(sh)
	}
	return all
}

func (c *candidate) choose() {
	for _, p := range c.points {
		if usd, ok := p.average("usd_per_hour"); ok {
			c.price = usd
		}
	}
	for _, p := range c.points {
		switch p.Verdict {
		case SweetSpot, Acceptable, Unstable:
		default:
			continue
		}
		if c.first == nil || c.wait(p) > 0 && (c.wait(c.first) == 0 || c.wait(p) < c.wait(c.first)) {
			c.first = p
		}
		if c.quick == nil || c.speed(p) > c.speed(c.quick) {
			c.quick = p
		}
		if c.full == nil || c.output(p) > c.output(c.full) {
			c.full = p
		}
	}
}

// wait is the p95 of the time to first token, ms; 0 where it is not known.
func (c *candidate) wait(p *Point) float64 {
	ms, _ := p.average("p95_ttft_ms")
	return ms
}

// speed is one user's tokens/s for a dollar an hour.
func (c *candidate) speed(p *Point) float64 { return c.perDollar(p, "p50_user_tok_s") }

// output is all tokens for a dollar.
func (c *candidate) output(p *Point) float64 {
	return 3600 * c.perDollar(p, "total_throughput_tok_s")
}

func (c *candidate) perDollar(p *Point, column string) float64 {
	if v, ok := p.average(column); ok && c.price > 0 {
		return v / c.price
	}
	return 0
}

// draw makes the table of a shape.
func (s *summary) draw(sh *shape) {
	sh.grid = grid{
		name: "GPUs for " + cmp.Or(sh.name, "the plan's load"), down: "gpu",
		values: []string{"$/h", "p95 TTFT", "tok/s", "per $/h", "load", "Mtok/$", "load"},
	}
	for _, c := range sh.gpus {
		texts := []string{c.gpu, "-", "-", "-", "-", "-", "-", "-"}
		verdict := Verdict("")
		if c.price > 0 {
			texts[1] = fmt.Sprintf("%.2f", c.price)
		}
		if c.quick != nil {
			texts[2] = positive(c.wait(c.first)) + c.first.mark("p95_ttft_ms")
			texts[3] = c.quick.shown("p50_user_tok_s") + c.quick.mark("p50_user_tok_s")
			texts[4], texts[5] = positive(c.speed(c.quick)), amount(c.quick)
			texts[6], texts[7] = positive(c.output(c.full)/1e6), amount(c.full)
		} else if len(c.points) > 0 {
			texts[2], verdict = c.points[0].Verdict.Mark()+" "+c.points[0].outcome(), c.points[0].Verdict
		}
		row := []field{}
		for i, text := range texts {
			f := field{text: text}
			if i == 2 {
				f.verdict = verdict
			}
			row = append(row, f)
		}
		sh.grid.rows = append(sh.grid.rows, row)
	}
}

func (p *Point) shown(column string) string {
	if v, ok := p.average(column); ok {
		return Figure(v)
	}
	return "-"
}

// amount is a point's load; "-" where the plan does not vary it.
func amount(p *Point) string { return positive(load(p.Cell)) }

func positive(v float64) string {
	if v > 0 {
		return Figure(v)
	}
	return "-"
}

// choices say for each shape which GPU answers first, and which gives most for a
// dollar, to one user and to all.
func (s *summary) choices(shapes []*shape) []item {
	var items []item
	for _, sh := range shapes {
		it := item{text: cmp.Or(sh.name, "the plan's load")}
		for _, by := range []struct {
			name, unit string
			best       direction
			value      func(*candidate) float64
		}{
			{"latency", "ms p95 TTFT", lessIsBest, func(c *candidate) float64 { return c.wait(c.first) }},
			{"latency per dollar", "tok/s a user per $/h", moreIsBest, func(c *candidate) float64 { return c.speed(c.quick) }},
			{"throughput per dollar", "Mtok/$", moreIsBest, func(c *candidate) float64 { return c.output(c.full) / 1e6 }},
		} {
			if text := sh.rank(by.unit, by.best, by.value); text != "" {
				it.below = append(it.below, by.name+": "+text)
			}
		}
		for _, c := range sh.gpus {
			if c.quick == nil {
				it.below = append(it.below, fmt.Sprintf("not ranked: %s, no cell of it meets every objective", c.gpu))
			}
		}
		items = append(items, it)
	}
	return items
}

// rank orders the candidates by a figure, the best first; "" where not one has
// it.
func (sh *shape) rank(unit string, best direction, value func(*candidate) float64) string {
	var some []*candidate
	for _, c := range sh.gpus {
		if c.quick != nil && value(c) > 0 {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return ""
	}
	slices.SortStableFunc(some, func(a, b *candidate) int {
		if best == moreIsBest {
			a, b = b, a
		}
		return cmp.Compare(value(a), value(b))
	})
	texts := make([]string, len(some))
	for i, c := range some {
		texts[i] = fmt.Sprintf("%s %s", c.gpu, Figure(value(c)))
		switch {
		case i == 0:
			texts[i] += " " + unit
		case best == moreIsBest:
			texts[i] += " (" + worse(value(some[0])/value(c), "less") + ")"
		default:
			texts[i] += " (" + worse(value(c)/value(some[0]), "slower") + ")"
		}
	}
	return strings.Join(texts, ", ")
}

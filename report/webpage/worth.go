package webpage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/chart"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
)

// perGPU returns the output tokens per second of one GPU of a cell. ok is false if the number
// of GPUs is not known.
func perGPU(p *conclude.Point) (v float64, ok bool) {
	rate, ok := p.Average(conclude.TokenRate)
	gpus, known := p.Average(conclude.Measure{Column: col.GPUCount})
	if !ok || !known || gpus <= 0 {
		return 0, false
	}
	return rate / gpus, true
}

// frontier draws output tokens per second of a GPU against those of a user, with the
// frontier: the cells of which no other gives more of both.
func (v *runView) frontier() {
	user := conclude.Measure{Column: col.P50UserTokS}
	shapes, more := v.shapes()
	for _, shape := range shapes {
		plot := chart.Plot{
			Title: "Pareto frontier: tokens/s of a GPU against tokens/s of a user",
			X:     chart.Axis{Name: "tokens/s of one user: p50_user_tok_s = 1000 / p50_tpot_ms"},
			Y:     chart.Axis{Name: "output tokens/s of one GPU"},
		}
		t := v.table("cell", col.P50UserTokS)
		t.Head = append(t.Head,
			head{Name: "throughput_tok_s / gpu_count", Title: doc(v.Run.Resolved.Columns, col.ThroughputTokS) + " It is divided by the GPUs of the deployment (gpu_count)."},
			head{Name: "frontier", Text: true})
		type candidate struct {
			pt chart.Point
			p  *conclude.Point
		}
		var all []candidate
		var lines []chart.Series
		measured := slices.ContainsFunc(shape.Points, func(p *conclude.Point) bool { return eligible(p) && !p.Simulated() })
		for i, s := range v.servers(shape) {
			series := chart.Series{Name: s.Name, Kind: i}
			for _, p := range byLoad(s.Points) {
				x, one := p.Average(user)
				y, two := perGPU(p)
				if !one || !two {
					continue
				}
				pt := chart.Point{X: x, Y: y}
				v.markVerdict(&pt, p)
				series.Points = append(series.Points, pt)
				all = append(all, candidate{pt, p})
			}
			lines = append(lines, series)
		}
		note := draws(&plot, lines)
		slices.SortStableFunc(all, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.pt.X, a.pt.X), cmp.Compare(b.pt.Y, a.pt.Y))
		})
		best, edge := math.Inf(-1), chart.Series{Name: "frontier", Kind: 6, Line: true, Dash: 1, Small: true}
		on := map[*conclude.Point]bool{}
		for _, c := range all {
			// Simulated cells are on no frontier of measured ones.
			if c.pt.Y > best && eligible(c.p) && (!measured || !c.p.Simulated()) {
				best, on[c.p] = c.pt.Y, true
				edge.Points = append(edge.Points, chart.Point{X: c.pt.X, Y: c.pt.Y})
			}
		}
		for _, c := range all {
			text := ""
			if on[c.p] {
				text = "yes"
			}
			row := []field{v.name(c.p), figureOf(c.p, col.P50UserTokS), {Text: humanize.Figure(c.pt.Y), Number: true}, {Text: text}}
			if c.p.Valid == 0 {
				row[2].Text, row[2].Verdict = conclude.Invalid.Mark()+" "+row[2].Text, conclude.Invalid
			}
			if len(t.Rows) < MaxRows {
				t.Rows = append(t.Rows, row)
			} else {
				t.Left++
			}
		}
		if len(edge.Points) > 1 {
			plot.Series = append(plot.Series, edge)
		}
		if f, ok := newFigure("frontier", cmp.Or(shape.Name, "Pareto frontier"), notes(note, more), plot, t); ok {
			v.Frontier = append(v.Frontier, f)
		}
	}
}

// eligible reports whether a cell may be on the frontier: it is valid and misses nothing.
func eligible(p *conclude.Point) bool {
	switch p.Verdict {
	case conclude.SweetSpot, conclude.Acceptable, conclude.Unstable:
		return p.Valid > 0
	}
	return false
}

// wanted are the loads for which GPUs are counted, in output tokens/s.
var wanted = []float64{1e3, 1e4, 1e5}

// cost draws the price of a token for each kind of request, of each server at the cell that a
// claim has: what a long answer costs and what a short one does is no ranking.
func (v *runView) cost() {
	points, open := v.priced()
	all := conclude.Group(points, func(p *conclude.Point) string { return v.names.request(p.Cell) })
	for _, shape := range all[:min(maxShapes, len(all))] {
		v.costOf(shape, open)
	}
}

func (v *runView) costOf(shape *conclude.Series, open map[*conclude.Point]bool) {
	bars := chart.Bars{Title: "Cost of a million output tokens", Unit: "usd_per_1m_output_tokens: lower is better"}
	t := v.table("cell", col.USDPer1MOutputTokens, col.USDPerHour, col.JoulesPerOutputToken, col.ThroughputTokS, col.GPUCount)
	for _, w := range wanted {
		t.Head = append(t.Head, head{
			Name:  "GPUs for " + humanize.Figure(w) + " tok/s",
			Title: "gpu_count x the least whole number of such deployments that together give this many output tokens/s: ceil(wanted / throughput_tok_s). Each deployment carries the load of the cell.",
		})
	}
	for _, p := range shape.Points {
		usd, ok := p.Figure(conclude.TokenCost)
		if !ok {
			continue
		}
		name := cmp.Or(v.names.of(p.Cell, func(conclude.Setting) bool { return true }), p.Cell.Label)
		cell := v.name(p)
		if open[p] { // it may be less at a load that is not decided
			name, cell.Text = name+" (not decided)", cell.Text+" (not decided)"
		}
		bars.Bars = append(bars.Bars, chart.Bar{Name: name, Value: usd, Text: conclude.TokenCost.Show(usd), Title: v.title(p), Cell: v.ID + p.Cell.ID})
		row := []field{cell}
		for _, c := range []string{col.USDPer1MOutputTokens, col.USDPerHour, col.JoulesPerOutputToken, col.ThroughputTokS, col.GPUCount} {
			row = append(row, figureOf(p, c))
		}
		for _, w := range wanted {
			row = append(row, field{Text: gpusFor(p, w), Number: true})
		}
		t.Rows = append(t.Rows, row)
	}
	title := strings.TrimSuffix("Cost of a million output tokens: "+shape.Name, ": ")
	if f, ok := newFigure("cost", title, "", bars, t); ok {
		v.Cost = append(v.Cost, f)
	}
}

// gpusFor returns how many GPUs carry a load in output tokens/s.
func gpusFor(p *conclude.Point, load float64) string {
	rate, ok := p.Figure(conclude.TokenRate)
	gpus, known := p.Average(conclude.Measure{Column: col.GPUCount})
	if !ok || !known || rate <= 0 {
		return "-"
	}
	return fmt.Sprint(int64(math.Ceil(load/rate) * gpus))
}

// priced returns the cells of which the cost is said: those of the claims about it, or if there
// are none, the sweet spots and best loads. A side that is not decided has the best that is
// known of it, and is in open.
func (v *runView) priced() (points []*conclude.Point, open map[*conclude.Point]bool) {
	open = map[*conclude.Point]bool{}
	for _, questions := range [][]conclude.Question{{conclude.AskCost}, {conclude.AskSweetSpot, conclude.AskBest}} {
		for _, c := range v.Set.Answers(questions...) {
			add := func(p *conclude.Point, left bool) {
				if !slices.Contains(points, p) {
					points = append(points, p)
				}
				open[p] = left
			}
			for _, place := range c.Places {
				add(place.Point, false)
			}
			for _, l := range c.Left {
				if l.Hole && l.Best != nil {
					add(l.Best, true)
				}
			}
		}
		if len(points) > 0 {
			break
		}
	}
	return points, open
}

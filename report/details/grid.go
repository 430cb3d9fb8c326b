package details

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// grids makes the grids of each load.
func (s *summary) grids() []draw.Grid {
	var grids []draw.Grid
	for _, l := range compare.ByLoadName(s.points) {
		grids = append(grids, s.gridsOf(l.Points)...)
	}
	return grids
}

// gridsOf makes one grid for each server, and for each value of any further
// axis: load down, max_tokens across. Where the plan varies neither, or one of
// them alone, the free sides go to the axes that it does vary.
func (s *summary) gridsOf(points []*compare.Point) []draw.Grid {
	down, across := s.axes(points)
	var grids []draw.Grid
	for _, l := range compare.Group(points, func(p *compare.Point) string {
		var parts []string
		for _, set := range p.Cell.Settings {
			if set.Column != down && set.Column != across {
				parts = append(parts, fmt.Sprintf("%s %v", set.Column, set.Value))
			}
		}
		return strings.Join(parts, ", ")
	}) {
		g := s.grid(l.Points, down, across)
		g.Name = cmp.Or(l.Name, "all cells")
		grids = append(grids, g)
	}
	return grids
}

// axes chooses the axis of some points that goes down and the one that goes across.
func (s *summary) axes(points []*compare.Point) (down, across string) {
	down, across = col.Concurrency, col.MaxTokens
	if s.fixed.Of(points[0].Cell)[col.RequestRate] != nil {
		down = col.RequestRate
	}
	down = cmp.Or(compare.AmountAxis(points), down)
	axes := compare.Varied(points)
	downFree, acrossFree := axes.At(down) == nil, axes.At(across) == nil
	for _, server := range []bool{false, true} { // load first: it is what one server is compared by
		for _, a := range axes {
			if a.Column == down || a.Column == across || a.Server != server {
				continue
			}
			switch {
			case acrossFree:
				across, acrossFree = a.Column, false
			case downFree:
				down, downFree = a.Column, false
			}
		}
	}
	return down, across
}

func (s *summary) grid(points []*compare.Point, down, across string) draw.Grid {
	var ys, xs []any
	at := map[[2]any]draw.Field{}
	for _, p := range points {
		y, x := s.set.Value(p, down), s.set.Value(p, across)
		if !slices.Contains(ys, y) {
			ys = append(ys, y)
		}
		if !slices.Contains(xs, x) {
			xs = append(xs, x)
		}
		at[[2]any{y, x}] = s.field(p)
	}
	ascending(ys)
	ascending(xs)
	g := draw.Grid{Down: down, Across: across}
	for _, x := range xs {
		g.Values = append(g.Values, fmt.Sprint(x))
	}
	for _, y := range ys {
		line := []draw.Field{{Text: fmt.Sprint(y)}}
		for _, x := range xs {
			line = append(line, at[[2]any{y, x}])
		}
		g.Rows = append(g.Rows, line)
	}
	return g
}

// ascending sorts values that are all numbers; others keep the plan's order.
func ascending(values []any) {
	for _, v := range values {
		if _, ok := v.(float64); !ok {
			return
		}
	}
	slices.SortFunc(values, func(a, b any) int {
		if a.(float64) < b.(float64) {
			return -1
		}
		return 1
	})
}

func (s *summary) field(p *compare.Point) draw.Field {
	return draw.Field{Text: p.Verdict.Mark() + " " + s.fieldText(p), Verdict: p.Verdict}
}

func (s *summary) fieldText(p *compare.Point) string {
	switch p.Verdict {
	case compare.Pending, compare.Skipped:
		return string(p.Verdict)
	case compare.Invalid, compare.NoStart, compare.FailedRun:
		return p.Reason()
	}
	text := p.Shown(s.rate)
	if p.Valid > 1 {
		text += fmt.Sprintf(" ±%.0f%%", 100*p.Spread(s.rate))
	}
	latencies := s.inGrid()
	figures := make([]string, len(latencies))
	for i, l := range latencies {
		figures[i] = p.Shown(compare.Measure{Column: col.Latency("p95", l)})
	}
	text += "  " + strings.Join(figures, "/")
	if p.Few > 0 {
		text += fmt.Sprintf(" (%d)", p.Few)
	}
	if p.Valid < len(p.Trials) {
		text += fmt.Sprintf(" %d/%d", p.Valid, len(p.Trials))
	}
	return text
}

// legend explains the fields of all grids.
func (s *summary) legend() []string {
	var lat []string
	for _, l := range s.inGrid() {
		lat = append(lat, "p95 "+strings.ToUpper(l))
	}
	text := fmt.Sprintf("Each cell: %s, %s in ms.", s.rate.Name, strings.Join(lat, " / "))
	if s.repeats > 1 {
		text = fmt.Sprintf("Each cell: %s ± standard deviation, %s in ms; means over its valid trials.", s.rate.Name, strings.Join(lat, " / "))
	}
	var lines []string
	if slices.ContainsFunc(s.points, func(p *compare.Point) bool { return p.Valid > 0 }) {
		lines = append(lines, text)
	}
	few, part := false, false
	for _, p := range s.points {
		few = few || p.Few > 0
		part = part || p.Valid > 0 && p.Valid < len(p.Trials)
	}
	if few {
		lines = append(lines, fmt.Sprintf("(n): a percentile that rests on n requests, too few to trust it: a p50 needs %d, a p95 %d.", compare.P50Samples, compare.P95Samples))
	}
	if part {
		lines = append(lines, "n/m: n of the cell's m trials are valid.")
	}
	var used []string
	for _, v := range compare.Verdicts() {
		if slices.ContainsFunc(s.points, func(p *compare.Point) bool { return p.Verdict == v }) {
			used = append(used, v.Mark()+" "+string(v))
		}
	}
	return append(lines, "Marks: "+strings.Join(used, ", ")+".")
}

// inGrid are the latencies of a field: those of sentences, and that of the whole answer.
func (s *summary) inGrid() []string {
	if s.e2e && !slices.Contains(s.latencies, "e2e") {
		return append(slices.Clone(s.latencies), "e2e")
	}
	return s.latencies
}

// figures finds what there is to show: tokens or requests, a stream's
// latencies or the whole answer's.
func (s *summary) figures() {
	s.rate, s.latencies = compare.RequestRate, []string{"e2e"}
	for _, p := range s.points {
		for _, t := range p.Trials {
			if t.Outcome == nil || t.Outcome.Row[col.Status] != result.StatusOK {
				continue
			}
			if row := t.Outcome.Row; row[row.Figure(compare.TokenRate.Column)] != nil {
				s.rate = compare.TokenRate
			}
			if row := t.Outcome.Row; row[row.Figure(col.P95E2EMs)] != nil || row.Infinite(col.P95E2EMs) {
				s.e2e = true
			}
			if l := compare.Latencies(t.Outcome.Row); len(l) > len(s.latencies) {
				s.latencies = l
			}
		}
	}
}

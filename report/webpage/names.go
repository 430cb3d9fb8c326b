package webpage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
)

// names are what the cells of a run differ in: only that is worth saying of each.
type names struct{ varied map[string]bool }

func namesOf(points []*compare.Point) names {
	first, n := map[string]any{}, names{map[string]bool{}}
	for _, p := range points {
		for _, s := range p.Cell.Settings {
			if v, ok := first[s.Column]; !ok {
				first[s.Column] = s.Value
			} else if v != s.Value {
				n.varied[s.Column] = true
			}
		}
	}
	return n
}

// of are those settings of a cell that some want, in the words of its label: the ones
// that vary, or if none does, none.
func (n names) of(c compare.Cell, want func(compare.Setting) bool) string {
	return c.Text(func(s compare.Setting) bool { return n.varied[s.Column] && want(s) })
}

func server(s compare.Setting) bool  { return s.Server }
func request(s compare.Setting) bool { return !s.Server && !s.Amount }

// server is the name of the server of a cell.
func (n names) server(c compare.Cell) string { return n.of(c, server) }

// panel is the name of the grid that has a cell: its server, and of several loads its own.
func (n names) panel(c compare.Cell) string {
	return n.of(c, func(s compare.Setting) bool { return s.Server || s.Column == result.LoadAxis })
}

// request is the kind of request of a cell.
func (n names) request(c compare.Cell) string { return n.of(c, request) }

// load is the value of the amount of load of a cell: "16".
func load(c compare.Cell) string {
	for _, s := range c.Settings {
		if s.Amount {
			return fmt.Sprint(s.Value)
		}
	}
	return ""
}

// loadName is the axis of the amount of load; "" where the plan does not vary it.
func loadName(points []*compare.Point) string {
	for _, p := range points {
		for _, s := range p.Cell.Settings {
			if s.Amount {
				return s.Column
			}
		}
	}
	return ""
}

// distinct are the different texts of points in their order.
func distinct(points []*compare.Point, text func(*compare.Point) string) []string {
	var all []string
	known := map[string]bool{}
	for _, p := range points {
		if t := text(p); !known[t] {
			known[t] = true
			all = append(all, t)
		}
	}
	return all
}

// byLoad puts points in the order of their load.
func byLoad(points []*compare.Point) []*compare.Point {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b *compare.Point) int { return cmp.Compare(compare.Load(a.Cell), compare.Load(b.Cell)) })
	return points
}

// requestAxes are the axes in which kinds of requests of points differ; "" for one kind.
func (v *runView) requestAxes(points []*compare.Point) string {
	var axes []string
	for _, s := range points[0].Cell.Settings {
		if v.names.varied[s.Column] && request(s) && s.Column != result.LoadAxis {
			axes = append(axes, s.Column)
		}
	}
	return strings.Join(axes, ", ")
}

package webpage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
)

// names say of each cell what cells of the run differ in: only that is worth saying.
type names struct{ axes compare.Axes }

// of are those settings of a cell that some want, in the words of its label: the ones
// that vary, or if none does, none.
func (n names) of(c compare.Cell, want func(compare.Setting) bool) string {
	return c.Text(func(s compare.Setting) bool { return n.axes.Has(s) && want(s) })
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
		if v.names.axes.Has(s) && request(s) && s.Column != result.LoadAxis {
			axes = append(axes, s.Column)
		}
	}
	return strings.Join(axes, ", ")
}

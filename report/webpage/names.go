package webpage

import (
	"cmp"
	"fmt"
	"slices"

	"sweep.dev/sweep/report/conclude"
)

// names say of each cell what cells of the run differ in: only that is worth saying.
type names struct{ axes conclude.Axes }

// of returns those settings of a cell that some want, in the words of its label: the ones
// that vary, or if none does, none.
func (n names) of(c conclude.Cell, want func(conclude.Setting) bool) string {
	return c.Text(func(s conclude.Setting) bool { return n.axes.Has(s) && want(s) })
}

func server(s conclude.Setting) bool  { return s.Server }
func request(s conclude.Setting) bool { return !s.Server && !s.Amount }

// server returns the name of the server of a cell.
func (n names) server(c conclude.Cell) string { return n.of(c, server) }

// request returns the kind of request of a cell.
func (n names) request(c conclude.Cell) string { return n.of(c, request) }

// load returns the value of the amount of load of a cell: "16".
func load(c conclude.Cell) string {
	for _, s := range c.Settings {
		if s.Amount {
			return fmt.Sprint(s.Value)
		}
	}
	return ""
}

// byLoad puts points in the order of their load.
func byLoad(points []*conclude.Point) []*conclude.Point {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b *conclude.Point) int { return cmp.Compare(conclude.Load(a.Cell), conclude.Load(b.Cell)) })
	return points
}

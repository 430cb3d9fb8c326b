package conclude

import "sweep.dev/sweep/result"

// Fixed is what a plan says of its loads outside of the axes, by their names; "" is the
// name of the only one.
type Fixed map[string]map[string]any

// Of returns what the plan says of the load of a cell.
func (f Fixed) Of(c Cell) map[string]any { return f[LoadName(c)] }

// LoadName returns the name of the cell's load; "" in a plan with one.
func LoadName(c Cell) string {
	name, _ := c.Value(result.LoadAxis).(string)
	return name
}

// ByLoadName returns the points of each named load, in the plan's order; of a plan with one
// load all of them. Nothing is compared between them: each has its own grid.
func ByLoadName(points []*Point) []*Series {
	return Group(points, func(p *Point) string { return LoadName(p.Cell) })
}

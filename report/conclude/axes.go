package conclude

import (
	"cmp"
	"slices"
)

// An Axis is one of which some cells have several values.
type Axis struct {
	Column string
	Server bool  // it changes the server
	Amount bool  // it is an amount of load
	Values []any // numbers in their order, others in the plan's

	ranks map[any]int // of the values
}

// Axes are those that some cells vary.
type Axes []Axis

// Varied returns the axes that points vary: those of the server first, in the plan's order.
func Varied(points []*Point) Axes {
	cells := make([]Cell, len(points))
	for i, p := range points {
		cells[i] = p.Cell
	}
	return varied(cells)
}

func varied(cells []Cell) Axes {
	var all Axes
	at := map[string]int{}
	for _, c := range cells {
		for _, s := range c.Settings {
			i, ok := at[s.Column]
			if !ok {
				i = len(all)
				at[s.Column] = i
				all = append(all, Axis{Column: s.Column, Server: s.Server, Amount: s.Amount, ranks: map[any]int{}})
			}
			if a := &all[i]; !a.has(s.Value) {
				a.ranks[s.Value] = len(a.Values)
				a.Values = append(a.Values, s.Value)
			}
		}
	}
	all = slices.DeleteFunc(all, func(a Axis) bool { return len(a.Values) < 2 })
	slices.SortStableFunc(all, func(a, b Axis) int {
		switch {
		case a.Server == b.Server:
			return 0
		case a.Server:
			return -1
		}
		return 1
	})
	for i := range all {
		all[i].sort()
	}
	return all
}

func (a *Axis) has(value any) bool {
	_, ok := a.ranks[value]
	return ok
}

// sort sorts values that are all numbers.
func (a *Axis) sort() {
	for _, v := range a.Values {
		if _, ok := v.(float64); !ok {
			return
		}
	}
	slices.SortFunc(a.Values, func(x, y any) int { return cmp.Compare(x.(float64), y.(float64)) })
	for i, v := range a.Values {
		a.ranks[v] = i
	}
}

// Rank returns the place of a cell's value in the order of the axis; -1 if the cell has none.
func (a *Axis) Rank(c Cell) int {
	if rank, ok := a.ranks[c.Value(a.Column)]; ok {
		return rank
	}
	return -1
}

// Of returns a cell's value as its label has it; "" if the cell has none.
func (a *Axis) Of(c Cell) string {
	return c.Text(func(s Setting) bool { return s.Column == a.Column })
}

// Has reports whether a setting is of one of the axes.
func (a Axes) Has(s Setting) bool { return a.At(s.Column) != nil }

// At returns the axis of a column; nil if it is none of them.
func (a Axes) At(column string) *Axis {
	for i := range a {
		if a[i].Column == column {
			return &a[i]
		}
	}
	return nil
}

// Columns returns the columns of the axes.
func (a Axes) Columns() []string {
	names := make([]string, len(a))
	for i := range a {
		names[i] = a[i].Column
	}
	return names
}

// Compare orders two cells by the axes, the first first. A cell without a value is before
// those with one.
func (a Axes) Compare(x, y Cell) int {
	for i := range a {
		if d := a[i].Rank(x) - a[i].Rank(y); d != 0 {
			return d
		}
	}
	return 0
}

// Text returns what a cell has of the axes, in the words of its label.
func (a Axes) Text(c Cell) string { return c.Text(a.Has) }

// Short returns a cell in the words in which it differs from the others; its label if there
// is no other.
func (a Axes) Short(c Cell) string { return cmp.Or(a.Text(c), c.Label) }

// AmountAxis returns the column of the amount of load of points; "" if the plan does not vary it.
func AmountAxis(points []*Point) string {
	for _, p := range points {
		for _, s := range p.Cell.Settings {
			if s.Amount {
				return s.Column
			}
		}
	}
	return ""
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
)

// A Value is one value of an axis: string, int64, float64 or bool.
type Value = any

// An Axis is one dimension of the matrix.
type Axis struct {
	Name   string // as in the file: "concurrency", "args.max-num-seqs"
	Column string // as in columns and expressions: "arg_max_num_seqs"
	Unit   string // of its values
	Server bool   // changes the server, not only the load
	Amount bool   // its value is an amount of load
	Bare   bool   // its values are words that need no name beside them
	Family bool   // its name says what it is of: args.max-num-seqs
	Values []Value
}

// Matrix is the axes and what is added to and taken from their product.
type Matrix struct {
	Axes    []Axis // in the file's order; engine is always one of them
	Zip     [][]string
	Include []map[string]Value
	Exclude []string
}

// A Setting is the value of one axis in one cell.
type Setting struct {
	Axis  *Axis
	Value Value
}

// Axis returns the axis by its name in the file; nil for none.
func (m *Matrix) Axis(name string) *Axis {
	for i := range m.Axes {
		if m.Axes[i].Name == name {
			return &m.Axes[i]
		}
	}
	return nil
}

// Names returns those of the axes, in the file's order.
func (m *Matrix) Names() []string {
	names := make([]string, 0, len(m.Axes))
	for _, a := range m.Axes {
		names = append(names, a.Name)
	}
	return names
}

// Describe describes the axis for the registry. Its values are of one type.
func (a Axis) Describe() result.Column {
	c := result.Column{Name: a.Column, Type: result.String, Unit: a.Unit, Doc: "Value of the axis " + a.Name + "."}
	if len(a.Values) == 0 {
		return c
	}
	switch a.Values[0].(type) {
	case bool:
		c.Type = result.Bool
	case int64:
		c.Type = result.Int
	case float64:
		c.Type = result.Float
	}
	return c
}

// String returns the value in a person's words: L4, concurrency=8.
func (s Setting) String() string {
	if s.Axis.Bare {
		return fmt.Sprint(s.Value)
	}
	return fmt.Sprintf("%s=%v", s.Axis.Column, s.Value)
}

// Number returns a value as a number; ok is false for another value.
func Number(v Value) (n float64, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// along returns groups of cells that differ in nothing but an axis of numbers, from the least
// up, in the order of their first cells.
func along(axis string, cells []Cell) [][]Cell {
	at := make(map[string]int)
	var out [][]Cell
	for _, c := range cells {
		var key strings.Builder
		for _, s := range c.Settings {
			if s.Axis.Name != axis {
				fmt.Fprintf(&key, "%T:%v\x00", s.Value, s.Value)
			}
		}
		i, ok := at[key.String()]
		if !ok {
			i = len(out)
			at[key.String()] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	for _, cells := range out {
		slices.SortStableFunc(cells, func(a, b Cell) int { return cmp.Compare(a.Level(axis), b.Level(axis)) })
	}
	return out
}

package plan

import (
	"slices"

	"sweep.dev/sweep/result"
)

// LoadAxis is the axis of named loads: its values are their names, and its column has
// them. A matrix does not name it.
const LoadAxis = result.LoadAxis

// MaxLoads bounds the named loads of a plan.
const MaxLoads = 100

// The loops that a load can be.
const (
	LoopClosed = "closed"
	LoopOpen   = "open"
)

// A NamedLoad is one of several loads of a plan.
type NamedLoad struct {
	Name string `yaml:"name" doc:"Name of the load: its value in the column load and in expressions." pattern:"^[a-z][a-z0-9_-]{0,31}$" example:"chat"`
	// Loop is "" where the load itself or the matrix leaves no choice.
	Loop string     `yaml:"loop,omitempty" doc:"Which axis the load takes where the matrix has both: a closed loop takes concurrency, an open loop request_rate." default:"what the load's own keys or the only such axis say" enum:"closed,open" example:"open"`
	Load `yaml:"-"` // its keys stand beside these
}

// EachLoad returns the loads of the plan with their names: those of loads, or the one of
// load, whose name is "".
func (p *Plan) EachLoad() []NamedLoad {
	if len(p.Loads) == 0 {
		return []NamedLoad{{Load: p.Load}}
	}
	return p.Loads
}

// LoadNames returns the names of the loads of the plan; nil with one load.
func (p *Plan) LoadNames() []string {
	var names []string
	for _, l := range p.Loads {
		names = append(names, l.Name)
	}
	return names
}

// LoadName returns the name of the cell's load; "" in a plan with one load.
func (c Cell) LoadName() string {
	name, _ := c.Setting(LoadAxis).(string)
	return name
}

// loadOf returns the load of a cell outside of its axes.
func (p *Plan) loadOf(c Cell) Load {
	for _, l := range p.Loads {
		if l.Name == c.LoadName() {
			return l.Load
		}
	}
	return p.Load
}

// For reports whether the objective is for a load of some name.
func (s SLO) For(load string) bool { return s.Loads == nil || slices.Contains(s.Loads, load) }

// loadAxis returns the axis of the names of loads.
func loadAxis(names []string) Axis {
	a := Axis{Name: LoadAxis, Column: LoadAxis, Bare: true}
	for _, n := range names {
		a.Values = append(a.Values, n)
	}
	return a
}

// WithLoads returns the matrix with the axis of named loads, before its first axis of a load.
func (m Matrix) WithLoads(names ...string) Matrix {
	at := slices.IndexFunc(m.Axes, func(a Axis) bool { return !a.Server })
	if at < 0 {
		at = len(m.Axes)
	}
	m.Axes = slices.Insert(slices.Clone(m.Axes), at, loadAxis(names))
	return m
}

// LoopOf returns the loop of the loads that take an axis, an amount of load; "" for another
// axis.
func LoopOf(axis string) string {
	for _, p := range Patterns() {
		switch {
		case p.Key != axis:
		case p.Open:
			return LoopOpen
		default:
			return LoopClosed
		}
	}
	return ""
}

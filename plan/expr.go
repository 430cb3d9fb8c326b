package plan

import (
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/expression"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/meant"
)

// An exprEnv is what an expression may read, and how it is filled from a cell.
type exprEnv struct {
	expression.Env
	also map[string]string // a second name of a column
}

// columnEnv returns the environment of objectives.
func columnEnv(cols []result.Column) exprEnv {
	e := exprEnv{Env: expression.Env{Noun: "column", Zero: make(map[string]any, len(cols)), Units: make(map[string]string)}}
	for _, c := range cols {
		// Objectives are held against the row before their own columns are in
		// it, and an instant is no quantity.
		if c.Type == result.Timestamp || strings.HasPrefix(c.Name, "slo_") {
			continue
		}
		e.add(c.Name, c)
	}
	e.Meant = func(name string) string { return meant.Column(name, e.Names) }
	return e
}

// axisEnv returns the environment of exclude and --only.
func axisEnv(axes []Axis) exprEnv {
	e := exprEnv{Env: expression.Env{Noun: "axis", Zero: make(map[string]any, len(axes)), Units: make(map[string]string)}, also: make(map[string]string)}
	for _, a := range axes {
		c := a.Describe()
		e.add(a.Column, c)
		if !a.Family && a.Name != a.Column {
			e.add(a.Name, c)
			e.also[a.Column] = a.Name
		}
	}
	e.Meant = func(name string) string {
		if path := strings.Split(meant.Setting(name), "."); slices.Contains(e.Names, path[len(path)-1]) {
			return path[len(path)-1]
		}
		return meant.Column(name, e.Names)
	}
	return e
}

func (e *exprEnv) add(name string, c result.Column) {
	switch c.Type {
	case result.Int, result.Float:
		e.Zero[name] = float64(0)
	case result.Bool:
		e.Zero[name] = false
	default:
		e.Zero[name] = ""
	}
	e.Names = append(e.Names, name)
	if c.Unit != "" {
		e.Units[name] = c.Unit
	}
}

// values returns the environment of one cell. An axis that its load does not take is no
// number: it equals nothing, and is neither above nor below anything.
func (e exprEnv) values(settings []Setting) map[string]any {
	out := make(map[string]any, len(e.Zero))
	for name, zero := range e.Zero {
		if _, ok := zero.(float64); ok {
			out[name] = math.NaN()
		}
	}
	for _, s := range settings {
		v := s.Value
		if n, ok := v.(int64); ok {
			v = float64(n)
		}
		out[s.Axis.Column] = v
		if name, ok := e.also[s.Axis.Column]; ok {
			out[name] = v
		}
	}
	return out
}

// CompileFilter compiles an expression over axes: a cell to leave out, or --only.
// It is nil for one that is wrong.
func CompileFilter(r *syntax.Report, n *syntax.Node, axes []Axis) func([]Setting) (bool, error) {
	env := axisEnv(axes)
	e := expression.Compile(r, n, env.Env)
	if e == nil {
		return nil
	}
	return func(settings []Setting) (bool, error) { return e.Run(env.values(settings)) }
}

// Filter compiles an expression over the axes (--only). The error is a
// *Diagnostics about the expression.
func (p *Plan) Filter(only string) (func(Cell) (bool, error), error) {
	r := &syntax.Report{}
	holds := CompileFilter(r, syntax.Literal("--only", only), p.Matrix.Axes)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return func(c Cell) (bool, error) { return holds(c.Settings) }, nil
}

// ExpressionForms returns what an expression may be made of, for people.
func ExpressionForms() []expression.Form { return expression.Forms() }

// ExpressionUnits returns the units that numbers in an expression may carry, by kind.
func ExpressionUnits() [][]string { return expression.Units() }

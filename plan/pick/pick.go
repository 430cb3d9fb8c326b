// Package pick finds cells by a typed text: an id, a label, the values of a few axes
// ("l4 c=8"), or an expression as --only takes.
package pick

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/result/meant"
)

// A Cell is what can be said of a cell to find it.
type Cell struct {
	ID       string
	Label    string
	Settings []Setting // in the plan's order
}

// A Setting is the value of one axis in a cell: a string, a bool or a number.
type Setting struct {
	Column string
	Value  any
}

// Cells returns the indices of the cells that text stands for, in their order. It is
// read as the first of these that fits:
//
//   - a whole label, or the beginning of an id
//   - terms that all hold: NAME=VALUE, or a VALUE of the engine, model or GPU alone,
//     of which its beginning is enough
//   - an expression over the axes, as --only takes
//
// There is at least one cell beside a nil error. The error says which part of the
// text no cell has, and what the cells have instead.
func Cells(text string, cells []Cell) ([]int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, fmt.Errorf("the cell is empty: want an id, a label, or values of axes like %s", example(cells))
	}
	if found := where(cells, func(c Cell) bool { return c.Label == text }); len(found) > 0 {
		return found, nil
	}
	terms, ok := termsOf(text)
	if !ok {
		return byExpression(text, cells)
	}
	ids := where(cells, func(c Cell) bool { return strings.HasPrefix(c.ID, text) })
	if len(ids) > 0 && !exact(text, cells) {
		return ids, nil
	}
	return byTerms(terms, cells)
}

func where(cells []Cell, holds func(Cell) bool) []int {
	var found []int
	for i, c := range cells {
		if holds(c) {
			found = append(found, i)
		}
	}
	return found
}

// A term is NAME=VALUE, or a VALUE alone.
type term struct{ name, value string }

func (t term) String() string {
	if t.name == "" {
		return t.value
	}
	return t.name + "=" + t.value
}

// termsOf splits a text into terms; ok is false for an expression.
func termsOf(text string) (terms []term, ok bool) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		name, value, named := strings.Cut(word, "=")
		if !named {
			name, value = "", word
		}
		value = strings.TrimPrefix(value, "=") // NAME==VALUE
		plain := value != "" && !strings.ContainsAny(word, `<>!"'()[]`) && !strings.Contains(value, "=") && (name != "" || !named)
		if !plain || slices.Contains([]string{"and", "or", "not", "in"}, word) {
			return nil, false
		}
		terms = append(terms, term{name, value})
	}
	return terms, len(terms) > 0
}

// exact reports whether a text is a whole value of an axis whose values need no name.
func exact(text string, cells []Cell) bool {
	return slices.ContainsFunc(cells, func(c Cell) bool {
		return slices.ContainsFunc(c.Settings, func(s Setting) bool { return axes.Bare(s.Column) && same(s.Value, text) })
	})
}

func byTerms(terms []term, cells []Cell) ([]int, error) {
	holds := make([]func(Cell) bool, len(terms))
	for i, t := range terms {
		var err error
		if holds[i], err = t.compile(cells); err != nil {
			return nil, err
		}
	}
	found := where(cells, func(c Cell) bool {
		return !slices.ContainsFunc(holds, func(h func(Cell) bool) bool { return !h(c) })
	})
	if len(found) == 0 {
		texts := make([]string, len(terms))
		for i, t := range terms {
			texts[i] = t.String()
		}
		return nil, fmt.Errorf("no cell has all of %s: each has cells of its own", strings.Join(texts, ", "))
	}
	return found, nil
}

// compile returns what a cell must be for the term to hold.
func (t term) compile(cells []Cell) (func(Cell) bool, error) {
	if t.name == "" {
		return t.bare(cells)
	}
	column, err := columnOf(t.name, cells)
	if err != nil {
		return nil, err
	}
	of := func(s Setting) bool { return s.Column == column }
	if match := t.matching(cells, of); match != nil {
		return match, nil
	}
	return nil, fmt.Errorf("no cell has %s: the run has %s", t, humanize.List(values(cells, of), mostListed))
}

// bare is compile for a value without a name.
func (t term) bare(cells []Cell) (func(Cell) bool, error) {
	of := func(s Setting) bool { return axes.Bare(s.Column) }
	if match := t.matching(cells, of); match != nil {
		return match, nil
	}
	known := values(cells, of)
	err := fmt.Errorf("no cell is %q: it is no id, and no engine, model or GPU of the run, which has %s", t.value, humanize.List(known, mostListed))
	if near := syntax.Nearest(t.value, known); near != "" {
		err = fmt.Errorf("no cell is %q; did you mean %q?", t.value, near)
	} else if _, numeric := strconv.ParseFloat(t.value, 64); numeric == nil {
		err = fmt.Errorf("no cell is %q: say of which axis it is a value, like %s", t.value, example(cells))
	}
	return nil, err
}

// matching returns the settings that have the value, or if none has, those that begin with
// it; nil if there are none of either.
func (t term) matching(cells []Cell, of func(Setting) bool) func(Cell) bool {
	for _, fits := range []func(any, string) bool{same, begins} {
		match := func(c Cell) bool {
			return slices.ContainsFunc(c.Settings, func(s Setting) bool { return of(s) && fits(s.Value, t.value) })
		}
		if slices.ContainsFunc(cells, match) {
			return match
		}
	}
	return nil
}

func same(value any, text string) bool {
	if n, ok := plan.Number(value); ok {
		want, err := strconv.ParseFloat(text, 64)
		return err == nil && n == want
	}
	return strings.EqualFold(fmt.Sprint(value), text)
}

func begins(value any, text string) bool {
	v, ok := value.(string)
	return ok && len(v) >= len(text) && strings.EqualFold(v[:len(text)], text)
}

// columnOf returns the column of the run's axis that a name stands for: its own name, its
// column, its short form, an argument of the engine without args., or a word of habit.
func columnOf(name string, cells []Cell) (string, error) {
	known := columns(cells)
	var tries []string
	if k, ok := axes.Lookup(name); ok {
		tries = append(tries, k.Column())
	}
	if short, ok := axes.Short(name); ok {
		tries = append(tries, short)
	}
	if k, ok := axes.Lookup("args." + name); ok {
		tries = append(tries, k.Column())
	}
	path := strings.Split(meant.Setting(name), ".")
	if k, ok := axes.Lookup(path[len(path)-1]); ok {
		tries = append(tries, k.Column())
	}
	for _, column := range append([]string{name}, tries...) {
		if slices.Contains(known, column) {
			return column, nil
		}
	}
	if len(tries) > 0 && !strings.HasPrefix(tries[0], "arg_") {
		return "", fmt.Errorf("%s is no axis of this run: its cells differ in %s", tries[0], humanize.List(known, mostListed))
	}
	if near := meant.Column(name, known); near != "" {
		return "", fmt.Errorf("no axis %q; did you mean %q?", name, near)
	}
	return "", fmt.Errorf("no axis %q: the cells of this run have %s", name, humanize.List(known, mostListed))
}

// columns returns those of the axes that any cell has, in their order.
func columns(cells []Cell) []string {
	var all []string
	for _, c := range cells {
		for _, s := range c.Settings {
			if !slices.Contains(all, s.Column) {
				all = append(all, s.Column)
			}
		}
	}
	return all
}

// values returns the different values of some settings, in the order of the cells.
func values(cells []Cell, of func(Setting) bool) []string {
	var all []string
	for _, c := range cells {
		for _, s := range c.Settings {
			if text := fmt.Sprint(s.Value); of(s) && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// mostListed bounds the values that an error lists.
const mostListed = 12

// example returns a term that finds the first cell.
func example(cells []Cell) string {
	for _, c := range cells {
		for _, s := range c.Settings {
			if !axes.Bare(s.Column) {
				return fmt.Sprintf("%s=%v", s.Column, s.Value)
			}
		}
	}
	return "concurrency=8"
}

// byExpression returns the cells for which an expression over the axes is true.
func byExpression(text string, cells []Cell) ([]int, error) {
	var all []plan.Axis
	for _, column := range columns(cells) {
		a := plan.Axis{Name: column, Column: column}
		for _, c := range cells {
			for _, s := range c.Settings {
				if s.Column == column {
					a.Values = append(a.Values, s.Value)
				}
			}
		}
		all = append(all, a)
	}
	r := &syntax.Report{}
	holds := plan.CompileFilter(r, syntax.Literal("CELL", text), all)
	if err := r.Err(); err != nil {
		return nil, err
	}
	var found []int
	for i, c := range cells {
		settings := make([]plan.Setting, 0, len(c.Settings))
		for _, s := range c.Settings {
			at := slices.IndexFunc(all, func(a plan.Axis) bool { return a.Column == s.Column })
			settings = append(settings, plan.Setting{Axis: &all[at], Value: s.Value})
		}
		ok, err := holds(settings)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s is true for no cell of the run", text)
	}
	return found, nil
}

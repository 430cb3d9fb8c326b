package ending

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
)

// percentile matches the columns of percentiles of latencies.
var percentile = regexp.MustCompile(`^p[0-9]+_[a-z0-9]+_ms$`)

// columnsOf are the columns that an objective reads, in its order.
func columnsOf(o result.SLOResult) []string {
	var names []string
	for _, p := range o.Parts {
		if p.Column != "" {
			names = append(names, p.Column)
		}
	}
	for _, word := range strings.FieldsFunc(o.Expr, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) {
		if _, ok := o.Values[word]; ok {
			names = append(names, word)
		}
	}
	return names
}

// measureName is a latency's column in words: "p95 TTFT".
func measureName(column string) string {
	p, rest, _ := strings.Cut(strings.TrimSuffix(column, "_ms"), "_")
	return p + " " + strings.ToUpper(rest)
}

// An axis is one that a run varies, with its values in their order.
type axis struct {
	column string
	server bool
	amount bool
	values []any
	texts  []string // as labels have them
}

// varied are the axes of which points have several values: those of the server first,
// in the plan's order. Values that are numbers are in theirs.
func varied(points []*compare.Point) []axis {
	var all []axis
	for _, p := range points {
		for _, s := range p.Cell.Settings {
			i := slices.IndexFunc(all, func(a axis) bool { return a.column == s.Column })
			if i < 0 {
				i = len(all)
				all = append(all, axis{column: s.Column, server: s.Server, amount: s.Amount})
			}
			if a := &all[i]; !slices.Contains(a.values, s.Value) {
				a.values, a.texts = append(a.values, s.Value), append(a.texts, s.Text)
			}
		}
	}
	all = slices.DeleteFunc(all, func(a axis) bool { return len(a.values) < 2 })
	slices.SortStableFunc(all, func(a, b axis) int {
		switch {
		case a.server == b.server:
			return 0
		case a.server:
			return -1
		}
		return 1
	})
	for i := range all {
		all[i].sort()
	}
	return all
}

func (a *axis) sort() {
	type value struct {
		v    any
		text string
	}
	both := make([]value, len(a.values))
	for i := range both {
		if _, ok := a.values[i].(float64); !ok {
			return
		}
		both[i] = value{a.values[i], a.texts[i]}
	}
	slices.SortFunc(both, func(x, y value) int {
		if x.v.(float64) < y.v.(float64) {
			return -1
		}
		return 1
	})
	for i := range both {
		a.values[i], a.texts[i] = both[i].v, both[i].text
	}
}

// down is the axis that goes down a grid: the amount of load where the run varies it,
// else the last. rest are the others. Nil for a run of one cell.
func (e *ending) down() (down *axis, rest []axis) {
	if len(e.axes) == 0 {
		return nil, nil
	}
	at := slices.IndexFunc(e.axes, func(a axis) bool { return a.amount })
	if at < 0 {
		at = len(e.axes) - 1
	}
	return &e.axes[at], slices.Delete(slices.Clone(e.axes), at, at+1)
}

// of is a cell's value of an axis as a label has it; "" where it has none.
func (a axis) of(c compare.Cell) string {
	for _, s := range c.Settings {
		if s.Column == a.column {
			return s.Text
		}
	}
	return ""
}

// name is what a cell has of some axes, in the words of its label.
func name(c compare.Cell, axes []axis) string {
	var parts []string
	for _, a := range axes {
		if text := a.of(c); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}

// short is a cell in the words in which it differs from others of the run; its label
// if there is no other.
func (e *ending) short(c compare.Cell) string {
	if text := name(c, e.axes); text != "" {
		return text
	}
	return c.Label
}

// common is what all cells share, in the words of their labels.
func (e *ending) common() string {
	return e.points[0].Cell.Text(func(s compare.Setting) bool {
		return !slices.ContainsFunc(e.axes, func(a axis) bool { return a.column == s.Column })
	})
}

// rank is the place of a cell's value in the order of an axis.
func (a axis) rank(c compare.Cell) int { return slices.Index(a.values, c.Value(a.column)) }

// value is a cell's value of an axis alone: "16".
func (a axis) value(c compare.Cell) string { return fmt.Sprint(c.Value(a.column)) }

// series are the points that differ in one axis alone, by the order of all others.
func (e *ending) series(down *axis, rest []axis) []*compare.Series {
	all := compare.Group(e.points, func(p *compare.Point) string { return name(p.Cell, rest) })
	slices.SortStableFunc(all, func(x, y *compare.Series) int {
		for _, a := range rest {
			if d := a.rank(x.Points[0].Cell) - a.rank(y.Points[0].Cell); d != 0 {
				return d
			}
		}
		return 0
	})
	for _, s := range all {
		slices.SortStableFunc(s.Points, func(x, y *compare.Point) int { return down.rank(x.Cell) - down.rank(y.Cell) })
	}
	return all
}

package ending

import (
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

// down is the axis that goes down a grid: the amount of load where the run varies it,
// else the last. rest are the others. Nil for a run of one cell.
func (e *ending) down() (down *compare.Axis, rest compare.Axes) {
	if len(e.axes) == 0 {
		return nil, nil
	}
	at := slices.IndexFunc(e.axes, func(a compare.Axis) bool { return a.Amount })
	if at < 0 {
		at = len(e.axes) - 1
	}
	return &e.axes[at], slices.Delete(slices.Clone(e.axes), at, at+1)
}

// common is what all cells share, in the words of their labels.
func (e *ending) common() string {
	return e.points[0].Cell.Text(func(s compare.Setting) bool { return !e.axes.Has(s) })
}

// series are the points that differ in one axis alone, by the order of all others.
func (e *ending) series(down *compare.Axis, rest compare.Axes) []*compare.Series {
	all := compare.Group(e.points, func(p *compare.Point) string { return rest.Text(p.Cell) })
	slices.SortStableFunc(all, func(x, y *compare.Series) int { return rest.Compare(x.Points[0].Cell, y.Points[0].Cell) })
	for _, s := range all {
		slices.SortStableFunc(s.Points, func(x, y *compare.Point) int { return down.Rank(x.Cell) - down.Rank(y.Cell) })
	}
	return all
}

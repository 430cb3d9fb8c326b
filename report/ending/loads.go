package ending

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/compare"
)

// maxLoads is how many named loads have a grid.
const maxLoads = 4

// split is the ending of each load by itself: its points, the figures that its
// objectives are about, and the axes that it varies.
func (e *ending) split() []*ending {
	all := compare.ByLoadName(e.points)
	if len(all) < 2 {
		return []*ending{e}
	}
	var loads []*ending
	for _, l := range all[:min(len(all), maxLoads)] {
		one := *e
		one.points = l.Points
		one.rate, one.latencies = one.shown()
		one.form = form{latencies: one.latencies}
		one.axes = compare.Varied(one.points)
		one.share = min(len(all), maxLoads)
		loads = append(loads, &one)
	}
	return loads
}

// unsaid says of how many loads there is no grid.
func (e *ending) unsaid() []string {
	n := len(compare.ByLoadName(e.points)) - len(e.loads)
	if n <= 0 || len(e.points) == 0 {
		return nil
	}
	return []string{humanize.Plural(n, "more load") + ": " + e.more}
}

// claims are those that answer some question about the points.
func (e *ending) claims(questions ...compare.Question) []compare.Claim {
	mine := map[string]bool{}
	for _, p := range e.points {
		mine[about(p.Cell)] = true
	}
	return slices.DeleteFunc(e.set.Answers(questions...), func(c compare.Claim) bool { return !mine[c.About] })
}

// only are the loads that points are of, in brackets, if they are not all that have
// valid cells; else "".
func (e *ending) only(points []*compare.Point) string {
	names := func(points []*compare.Point) (all []string) {
		for _, l := range compare.ByLoadName(points) {
			all = append(all, l.Name)
		}
		return all
	}
	valid := slices.DeleteFunc(slices.Clone(e.points), func(p *compare.Point) bool { return p.Valid == 0 })
	some := names(points)
	if len(some) == len(names(valid)) {
		return ""
	}
	return " (" + strings.Join(some, ", ") + ")"
}

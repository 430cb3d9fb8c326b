package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/groups"
)

// A Point is one cell with all its trials: one place of a grid. Its figures
// are the means over its valid trials, as in the groups table.
type Point struct {
	Cell    Cell
	Trials  []Trial
	Verdict Verdict
	Valid   int // trials whose numbers count
	// Why says what makes an unstable cell so.
	Why string
	// Few is the smallest number of requests behind a p95 that is shown, where
	// they are too few for one; else 0.
	Few int

	group result.Row
}

// mean is the mean of a column over the valid trials; nil where there is none.
func (p *Point) mean(column string) any { return p.group[column+"_mean"] }

// spread is how far a column varies between the valid trials, sd / mean; 0 for
// a single one.
func (p *Point) spread(column string) float64 { return number(p.group, column+"_cv") }

// mark is what stands behind a percentile of a point that rests on too few
// requests in any of the trials that count: how few they are. Else it is "".
func (p *Point) mark(column string) string {
	few := 0
	for _, row := range p.counting() {
		if n := restsOn(row, column); n > 0 && (few == 0 || n < few) {
			few = n
		}
	}
	if few == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", few)
}

// points makes the points of a run, in the plan's order, and judges them.
func (r *Run) points() []*Point {
	byCell := map[any]result.Row{}
	_, rows := groups.Of(r.Resolved.Columns, r.Rows())
	for _, row := range rows {
		byCell[row["cell_id"]] = row
	}
	var points []*Point
	for _, t := range r.Trials { // all trials of a cell are neighbours
		if n := len(points); n == 0 || points[n-1].Cell.ID != t.Cell.ID {
			points = append(points, &Point{Cell: t.Cell, group: byCell[t.Cell.ID]})
		}
		p := points[len(points)-1]
		p.Trials = append(p.Trials, t)
	}
	for _, p := range points {
		p.judge()
	}
	for _, l := range ladders(points) {
		l.settle()
	}
	return points
}

// judge is the worst verdict on a valid trial, or where no trial is valid, on
// the one that came furthest.
func (p *Point) judge() {
	order := map[Verdict]int{Acceptable: 1, Unstable: 2, Missed: 3}
	without := Pending
	rank := map[Verdict]int{Pending: 0, Skipped: 1, FailedRun: 2, NoStart: 3, Invalid: 4}
	for _, t := range p.Trials {
		v, why := judge(t.Outcome)
		if order[v] == 0 {
			if rank[v] > rank[without] {
				without = v
			}
			continue
		}
		p.Valid++
		if n := few(t.Outcome.Row); n > 0 && (p.Few == 0 || n < p.Few) {
			p.Few = n
		}
		if order[v] > order[p.Verdict] {
			p.Verdict, p.Why = v, why
		}
	}
	if p.Valid == 0 {
		p.Verdict = without
		return
	}
	if spread := p.spread("throughput_tok_s"); p.Verdict == Acceptable && spread > spreadBound {
		p.Verdict = Unstable
		p.Why = fmt.Sprintf("tokens/s differ between its %d trials by %.0f %% (sd / mean)", p.Valid, 100*spread)
	}
}

// A ladder is the cells that differ in the amount of load alone.
type ladder struct {
	name   string
	points []*Point
}

// isLoad names the axes whose value is an amount of load.
func isLoad(column string) bool { return column == "concurrency" || column == "request_rate" }

// ladders sorts points into ladders of two cells and more; with less there is
// nothing to choose.
func ladders(points []*Point) []*ladder {
	byName := map[string]*ladder{}
	var all []*ladder
	for _, p := range points {
		var parts []string
		for _, s := range p.Cell.Settings {
			if !isLoad(s.Column) {
				parts = append(parts, setting(s))
			}
		}
		name := strings.Join(parts, " ")
		l := byName[name]
		if l == nil {
			l = &ladder{name: name}
			byName[name], all = l, append(all, l)
		}
		l.points = append(l.points, p)
	}
	var some []*ladder
	for _, l := range all {
		if len(l.points) < 2 {
			continue
		}
		sort.SliceStable(l.points, func(i, j int) bool { return load(l.points[i].Cell) < load(l.points[j].Cell) })
		some = append(some, l)
	}
	return some
}

// setting is a value of an axis in the words of a cell's label.
func setting(s Setting) string {
	switch s.Column {
	case "engine", "gpu", "model":
		return fmt.Sprint(s.Value)
	}
	return fmt.Sprintf("%s=%v", s.Column, s.Value)
}

func load(c Cell) float64 {
	for _, s := range c.Settings {
		if v, ok := s.Value.(float64); ok && isLoad(s.Column) {
			return v
		}
	}
	return 0
}

// settle finds the sweet spot, once every cell has an outcome: before that, the
// best may be still to come.
func (l *ladder) settle() {
	if l.count(Pending) > 0 {
		return
	}
	column := "throughput_tok_s"
	if best(l.points, column) == 0 { // nobody counted tokens
		column = "request_throughput"
	}
	most := best(l.points, column)
	for _, p := range l.points {
		if p.Verdict == Acceptable && most > 0 && number(p.group, column+"_mean") >= kneeShare*most {
			p.Verdict = SweetSpot
			return
		}
	}
}

// count is how many cells have one of these verdicts.
func (l *ladder) count(verdicts ...Verdict) (n int) {
	for _, p := range l.points {
		if slices.Contains(verdicts, p.Verdict) {
			n++
		}
	}
	return n
}

func best(points []*Point, column string) (most float64) {
	for _, p := range points {
		if p.Verdict == Acceptable {
			most = max(most, number(p.group, column+"_mean"))
		}
	}
	return most
}

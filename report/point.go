package report

import (
	"fmt"

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

	open  hole
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
		p.open = p.hole(r.Resolved.RecordStarts)
	}
	return points
}

// judge is the worst verdict on a valid trial, or where no trial is valid, on
// the one that came furthest.
func (p *Point) judge() {
	order := map[Verdict]int{Acceptable: 1, Unstable: 2, Undecided: 3, Missed: 4}
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

// A hole is why nothing can be concluded from a cell.
type hole struct {
	kind   Verdict // of the trials that are why; "" for no hole
	why    string  // the reason of the first, in codes
	n, all int     // so many trials of all are of this kind and reason
}

// hole is that of a point: one of its trials is INVALID, failed, pending or
// undecided. An outcome has none: the point passes, misses an objective whatever
// its other trials show, was skipped, or did not start in a plan that records
// that. Of several kinds a pending trial is told last.
func (p *Point) hole(recordStarts bool) hole {
	var first hole
	if p.Verdict == Missed {
		return first
	}
	for _, t := range p.Trials {
		v, why := judge(t.Outcome)
		switch {
		case v == Pending || v == Undecided:
		case v == Invalid:
			why, _ = t.Outcome.Row["invalid_reasons"].(string)
		case v == FailedRun || v == NoStart && !recordStarts:
			why, _ = t.Outcome.Row["error_class"].(string)
		default:
			continue
		}
		switch {
		case first.kind == "" || first.kind == Pending && v != Pending:
			first = hole{kind: v, why: why, n: 1, all: len(p.Trials)}
		case v == first.kind && why == first.why:
			first.n++
		}
	}
	return first
}

// short is the kind of the hole, and in how many trials it is.
func (h hole) short() string { return h.words("") }

// String is short, with the reason.
func (h hole) String() string {
	if h.why == "" {
		return h.words("")
	}
	return h.words(" (" + h.why + ")")
}

func (h hole) words(why string) string {
	text := string(h.kind) + why
	if h.n < h.all {
		text += fmt.Sprintf(" in %d of %d trials", h.n, h.all)
	}
	return text
}

// passes says whether every trial is valid and meets every objective.
func (p *Point) passes() bool {
	switch p.Verdict {
	case SweetSpot, Acceptable, Unstable:
		return p.Valid == len(p.Trials)
	}
	return false
}

// setting is a value of an axis in the words of a cell's label.
func setting(s Setting) string {
	switch s.Column {
	case "engine", "gpu", "model":
		return fmt.Sprint(s.Value)
	}
	return fmt.Sprintf("%s=%v", s.Column, s.Value)
}

package conclude

import (
	"fmt"
	"math"
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
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
	// Few is the smallest number of requests behind a p95 that is shown, if they are
	// too few for one; else 0.
	Few int

	// Jitter says how far a p95 is from its p50, if it is far: for information.
	Jitter string

	// Objectives are those of the cell over its valid trials together.
	Objectives []result.SLOResult
	// Group is what the row of the cell in the groups table says of how its trials differ:
	// deviations, intervals and outliers, and the medians if there are outliers.
	Group result.Row

	open hole
}

// Spread returns how far a measure varies between the valid trials, sd / mean; 0 for
// a single one.
func (p *Point) Spread(m Measure) float64 {
	if len(p.Counting()) == 0 {
		return 0
	}
	return p.Group.Float(m.Column + groups.CV)
}

// Counting returns the trials that count: the valid ones, or if there are none, those that are
// INVALID in part, or if there are none of these either, all with an outcome.
func (p *Point) Counting() []Trial {
	if n := len(p.Trials); p.Valid == n || n == 1 && p.Trials[0].Outcome != nil {
		return slices.Clip(p.Trials) // the most usual, and asked for a hundred times
	}
	part := p.Valid == 0 && p.Stands()
	return slices.DeleteFunc(slices.Clone(p.Trials), func(t Trial) bool {
		return t.Outcome == nil || p.Valid > 0 && t.Outcome.Row[col.Status] != result.StatusOK || part && !t.inPart()
	})
}

// Stands reports whether figures of the point may be used: those of its valid trials, or what
// is not null of trials that are INVALID in other figures alone.
func (p *Point) Stands() bool { return p.Valid > 0 || slices.ContainsFunc(p.Trials, Trial.inPart) }

// Simulated reports whether a point's numbers are the simulator's.
func (p *Point) Simulated() bool {
	return slices.ContainsFunc(p.Counting(), func(t Trial) bool { return t.Outcome.Row[col.Simulated] == true })
}

// unrepresentative reports whether a point's content cannot answer how fast its
// server is.
func (p *Point) unrepresentative() bool {
	return slices.ContainsFunc(p.Counting(), func(t Trial) bool {
		return slices.ContainsFunc(t.Outcome.Findings, func(f result.Finding) bool { return f.Code == finding.ContentUnrepresentative })
	})
}

// RestsOn returns the number of requests that a percentile of a point rests on, if they are
// too few for it in any of the trials that count; else 0.
func (p *Point) RestsOn(column string) int {
	few := 0
	for _, t := range p.Counting() {
		if n := restsOn(t.Outcome.Row, column); n > 0 && (few == 0 || n < few) {
			few = n
		}
	}
	return few
}

// Mark returns what stands behind such a percentile: how few they are. Else it is "".
func (p *Point) Mark(column string) string {
	if few := p.RestsOn(column); few > 0 {
		return fmt.Sprintf(" (%d)", few)
	}
	return ""
}

// Fewest returns the least number of completed requests of a trial that counts.
func (p *Point) Fewest() int {
	fewest := math.MaxInt
	for _, t := range p.Counting() {
		fewest = min(fewest, int(t.Outcome.Row.Float(col.Completed)))
	}
	return fewest
}

// judge notes what the objectives come to over all valid trials together, or where no
// trial is valid, the verdict on the one that came furthest.
func (p *Point) judge() {
	without := Pending
	var valid []result.Row
	rank := map[Verdict]int{Pending: 0, Skipped: 1, FailedRun: 2, NoStart: 3, Invalid: 4}
	for _, t := range p.Trials {
		if v := standing(t.Outcome); v != "" {
			if rank[v] > rank[without] {
				without = v
			}
			continue
		}
		p.Valid++
		if n := few(t.Outcome.Row); n > 0 && (p.Few == 0 || n < p.Few) {
			p.Few = n
		}
		valid = append(valid, t.Outcome.Row)
		if p.Jitter == "" {
			p.Jitter = jitter(t.Outcome.Row)
		}
	}
	if p.Valid == 0 {
		p.Verdict = without
		return
	}
	if p.Verdict, p.Why = met(p.Objectives); p.Verdict != Acceptable {
		return
	}
	if why := swamped(valid); why != "" {
		p.Verdict, p.Why = Unstable, why
		return
	}
	n := 0 // trials whose tokens were counted
	for _, row := range valid {
		if _, ok := TokenRate.of(row); ok {
			n++
		}
	}
	if spread := p.Spread(TokenRate); n > 1 && spread*leastSpread(n) > spreadBound {
		p.Verdict = Unstable
		p.Why = fmt.Sprintf("tokens/s differ between its %d trials by %.0f %% (sd / mean), certainly by more than %.0f %%", n, 100*spread, 100*spreadBound)
	}
}

// A hole is why nothing can be concluded from a cell.
type hole struct {
	kind   Verdict // of the trials that are why; "" for no hole
	why    string  // the reason of the first, in codes
	n, all int     // so many trials of all are of this kind and reason
}

// hole returns that of a point: one of its trials is INVALID, failed or pending, or its
// objectives are undecided. A point has none if it passes, misses an objective, was
// skipped, or did not start in a plan that records that. It is of the kind of the
// first such trial, and pending only if all of them are.
func (p *Point) hole(recordStarts bool) hole {
	var first hole
	if p.Verdict == Missed {
		return first
	}
	for _, t := range p.Trials {
		v, why := standing(t.Outcome), ""
		switch {
		case v == Pending:
		case v == Invalid:
			why, _ = t.Outcome.Row[col.InvalidReasons].(string)
		case v == FailedRun || v == NoStart && !recordStarts:
			why, _ = t.Outcome.Row[col.ErrorClass].(string)
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
	if p.Verdict == Undecided && (first.kind == "" || first.kind == Pending) {
		return hole{kind: Undecided, why: p.Why, n: len(p.Trials), all: len(p.Trials)}
	}
	return first
}

// String returns the kind of the hole, its reason, and in how many trials it is.
func (h hole) String() string {
	text := string(h.kind)
	if h.why != "" {
		text += " (" + h.why + ")"
	}
	if h.n < h.all {
		text += fmt.Sprintf(" in %d of %d trials", h.n, h.all)
	}
	return text
}

// passes reports whether every trial is valid and meets every objective.
func (p *Point) passes() bool {
	switch p.Verdict {
	case SweetSpot, Acceptable, Unstable:
		return p.Valid == len(p.Trials)
	}
	return false
}

// Package view says what a run comes to: figures, verdicts, claims, reasons and advice,
// each with its words, once for every renderer. Packages that draw choose from it, and
// conclude nothing by themselves. Its grids and items are values, not drawings.
package view

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/compare/turns"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/paired"
)

// A View is what there is to say about a run. What takes time is worked out when it is
// asked for.
type View struct {
	*report.Run
	Set   *conclude.Set
	Shown // the figures of its cells
	fixed conclude.Fixed
}

// Of judges a run and says what it comes to.
func Of(r *report.Run) *View {
	set := r.Conclude()
	return &View{Run: r, Set: set, Shown: ShownOf(set.Points), fixed: r.Fixed()}
}

// Searching reports whether the plan searches. Then there are no claims about its cells, and
// no objectives of single cells: greatest loads rest on fresh trials alone.
func (v *View) Searching() bool { return len(v.Resolved.Searches) > 0 }

// Capacity returns the answers of the searches of the plan; nil without find.
func (v *View) Capacity() []capacity.Answer {
	if !v.Searching() {
		return nil
	}
	return capacity.Of(v.Run)
}

// Turns returns the comparison by turns that the plan asks for; nil for none.
func (v *View) Turns() *turns.Turns {
	return turns.Of(compare.Side{Name: v.Dir, RunID: v.State.Manifest.RunID, Plan: v.Resolved.Plan, Points: v.Set.Points})
}

// Quality reads the scores of the answers to the plan's prompts; nil if it has none. unread is
// the sentence about answers that cannot be read; else it is "".
func (v *View) Quality() (p *paired.Paired, unread string) {
	p, err := paired.Read(v.Dir)
	if err != nil {
		return nil, "the answers cannot be read: " + err.Error()
	}
	return p, ""
}

// Count counts the cells by verdict, in words.
func (v *View) Count() string {
	counts := map[conclude.Verdict]int{}
	for _, p := range v.Set.Points {
		counts[p.Verdict]++
	}
	var parts []string
	for _, verdict := range conclude.Verdicts() {
		if n := counts[verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	cells := humanize.Plural(len(v.Set.Points), "cell")
	if v.Resolved.Repeats > 1 && !v.Searching() {
		cells += " of "
		if v.Resolved.RepeatsUpTo {
			cells += "up to "
		}
		cells += humanize.Plural(v.Resolved.Repeats, "trial")
	}
	if n := len(v.State.Added); n > 0 {
		cells += fmt.Sprintf(" and %s", humanize.Plural(n, "further trial"))
	}
	return cells + ": " + strings.Join(parts, ", ")
}

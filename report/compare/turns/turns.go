// Package turns says what a run found whose plan compares the values of a server axis with
// one of them, which take turns (compare:). How two sides are held against each other is
// package compare's.
package turns

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/ratio"
)

// Turns is what a run says whose plan compares the values of a server axis by turns.
type Turns struct {
	Axis     string
	Baseline string
	Sides    []SideComparison // each other value against the baseline, in the plan's order
	// Drift is how the baseline moved between the first turn and the last, which were its
	// own; "" if it did not certainly by more than [compare.Alike]. Then sides differ by what the
	// host did too.
	Drift string
}

// A SideComparison is one value of the axis against the baseline.
type SideComparison struct {
	Value string
	*compare.Comparison
}

// A plan is what a resolved plan says of its comparison.
type plan struct {
	Compare *struct{ Axis, Baseline string } `json:"compare"`
	Matrix  struct {
		Axes []struct{ Name, Column string } `json:"axes"`
	} `json:"matrix"`
}

// planOf reads a plan; one that is not known here compares nothing.
func planOf(resolved json.RawMessage) (p plan) {
	if json.Unmarshal(resolved, &p) != nil {
		return plan{}
	}
	return p
}

// Compared reports whether a resolved plan compares by turns.
func Compared(resolved json.RawMessage) bool { return planOf(resolved).Compare != nil }

// Of returns what a run says of the axis that its plan compares; nil if it compares none.
func Of(run compare.Side) *Turns {
	plan := planOf(run.Plan)
	if plan.Compare == nil {
		return nil
	}
	t := &Turns{Axis: plan.Compare.Axis, Baseline: plan.Compare.Baseline}
	column := t.Axis
	for _, a := range plan.Matrix.Axes {
		if a.Name == t.Axis {
			column = a.Column
		}
	}
	var order []string
	sides := map[string]compare.Side{}
	for _, p := range run.Points {
		value := fmt.Sprint(p.Cell.Value(column))
		side, ok := sides[value]
		if !ok {
			order = append(order, value)
			side = compare.Side{Name: value, RunID: run.RunID}
		}
		side.Points = append(side.Points, p)
		sides[value] = side
	}
	same := func(c conclude.Cell) string {
		return c.Text(func(s conclude.Setting) bool { return s.Column != column })
	}
	for _, value := range order {
		if value != t.Baseline {
			t.Sides = append(t.Sides, SideComparison{value, compare.By(same, sides[t.Baseline], sides[value], compare.Options{})})
		}
	}
	t.Drift = drift(sides[t.Baseline].Points)
	return t
}

// drift says how the trials of the first turn and those of the last differ.
func drift(points []*conclude.Point) string {
	level := compare.Level / float64(2*max(1, len(points)))
	for _, p := range points {
		trials := p.Estimates(conclude.TokenRate)
		if len(trials) < 2 || p.Valid < len(p.Trials) {
			continue
		}
		first, last := trials[0], trials[len(trials)-1]
		r := ratio.Of([]ratio.Trial{last}, []ratio.Trial{first}, level)
		if r.More(1+compare.Alike) || r.Less(1/(1+compare.Alike)) {
			return fmt.Sprintf("%s: %s gave %+.1f %% tok/s in the last turn against the first, with nothing changed", finding.HostDrift, p.Cell.Label, 100*(r.Value-1))
		}
	}
	return ""
}

// Title says what is held against what.
func (t *Turns) Title(s SideComparison) string {
	return fmt.Sprintf("%s %s against %s, by turns", t.Axis, s.Value, t.Baseline)
}

// Write says it for people: for each side a table of ratios.
func (t *Turns) Write(w io.Writer, verbose bool) error {
	for _, s := range t.Sides {
		if _, err := fmt.Fprintln(w, plaintext.Line(t.Title(s))); err != nil {
			return err
		}
		if err := s.Table(w, verbose); err != nil {
			return err
		}
	}
	if t.Drift != "" {
		_, err := fmt.Fprintln(w, plaintext.Line(t.Drift))
		return err
	}
	return nil
}

// The columns that stand before those of a comparison of runs.
const (
	axis     = "axis"
	baseline = "baseline"
	value    = "value"
)

// Columns returns those of [Turns.Rows].
func Columns() []result.Column {
	return append([]result.Column{
		{Name: axis, Type: result.String, Tier: result.Core, Doc: "The axis of the plan whose values are compared."},
		{Name: baseline, Type: result.String, Tier: result.Core, Doc: "Its value that the others are held against."},
		{Name: value, Type: result.String, Tier: result.Core, Doc: "The value that is held against it."},
	}, compare.Columns()...)
}

// Rows returns the rows of all sides.
func (t *Turns) Rows() iter.Seq[result.Row] {
	return func(yield func(result.Row) bool) {
		for _, s := range t.Sides {
			for row := range s.Rows() {
				row[axis], row[baseline], row[value] = plaintext.Line(t.Axis), plaintext.Line(t.Baseline), plaintext.Line(s.Value)
				if !yield(row) {
					return
				}
			}
		}
	}
}

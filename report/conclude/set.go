// Package conclude draws the conclusions from the trials of a run: the verdict on each
// cell, sweet spots, and which of several engines, GPUs or servers is better. It is
// pure: no clock, no files, no text except labels and reasons.
package conclude

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/groups"
	"sweep.dev/sweep/result/objective"
)

// A Set is the cells of a run, judged, and what can be concluded from them. It is a
// pure function of what it is made of.
type Set struct {
	Points  []*Point
	Claims  []Claim       // all conclusions
	Engines []*Comparison // at the loads that several engines had
	Shapes  []*Shape      // of requests that several GPUs had

	in Input
}

// An Input is what a Set is made of.
type Input struct {
	Trials  []Trial // all trials of a cell are neighbours
	Skipped []Cell  // cells that are not run
	Columns []result.Column
	// RecordStarts: servers that do not start are results of the plan.
	RecordStarts bool
	Fixed        Fixed
}

// Conclude judges every cell and makes all claims.
func Conclude(in Input) *Set {
	s := &Set{in: in}
	s.judge()
	s.conclude()
	return s
}

// Value returns a point's value of an axis, or what the plan fixes it to.
func (s *Set) Value(p *Point, column string) any {
	return cmp.Or[any](p.Cell.Value(column), s.in.Fixed.Of(p.Cell)[column], "-")
}

// conclude makes all claims, and marks the sweet spots.
func (s *Set) conclude() {
	for _, l := range byLoad(s.Points, func(p *Point) string {
		return p.Cell.Text(func(set Setting) bool { return !set.Amount })
	}) {
		s.Claims = append(s.Claims, l.loadClaims()...)
	}
	s.Engines = s.compareEngines()
	for _, c := range s.Engines {
		s.Claims = append(s.Claims, c.Claims...)
	}
	s.Shapes = s.shapesOf(
		func(set Setting) bool { return set.Column != col.GPU && !set.Amount },
		func(p *Point) string { return fmt.Sprint(s.Value(p, col.GPU)) },
	)
	for _, sh := range s.Shapes {
		s.Claims = append(s.Claims, sh.claims()...)
	}
	for _, sh := range s.shapesOf(
		func(set Setting) bool { return !set.Server && !set.Amount },
		func(p *Point) string { return p.Cell.Text(func(set Setting) bool { return set.Server }) },
	) {
		s.Claims = append(s.Claims, sh.bests(AskCost, TokenCost))
	}
	for _, p := range s.Points {
		s.Claims = append(s.Claims, Claim{
			Question: AskVerdict, About: p.Cell.Label, Answer: Decided, Places: []Place{p.place("", Measure{})},
		})
	}
}

// Answers returns the claims that answer some question.
func (s *Set) Answers(questions ...Question) []Claim {
	var some []Claim
	for _, c := range s.Claims {
		if slices.Contains(questions, c.Question) {
			some = append(some, c)
		}
	}
	return some
}

// judge makes the points, in the plan's order.
func (s *Set) judge() {
	var outcomes []*result.Outcome
	trials := map[string]int{} // with an outcome, by cell
	for _, t := range s.in.Trials {
		if t.Outcome != nil {
			outcomes = append(outcomes, t.Outcome)
			trials[t.Cell.ID]++
		}
	}
	var rows []result.Row // of cells that have several: one trial differs from no other
	for _, t := range s.in.Trials {
		if t.Outcome != nil && trials[t.Cell.ID] > 1 {
			rows = append(rows, t.Outcome.Row.Trusted())
		}
	}
	objectives := objective.OfCells(outcomes)
	byCell := map[any]result.Row{}
	_, grouped := groups.Each(s.in.Columns, slices.Values(rows), objectives)
	for row := range grouped {
		byCell[row[col.CellID]] = scattered(row)
	}
	for _, t := range s.in.Trials {
		if t.unneeded() {
			continue
		}
		if n := len(s.Points); n == 0 || s.Points[n-1].Cell.ID != t.Cell.ID {
			s.Points = append(s.Points, &Point{Cell: t.Cell, Group: byCell[t.Cell.ID], Objectives: objectives[t.Cell.ID]})
		}
		p := s.Points[len(s.Points)-1]
		p.Trials = append(p.Trials, t.Trusted())
	}
	for _, p := range s.Points {
		p.judge()
		p.open = p.hole(s.in.RecordStarts)
	}
}

// scattered returns what a row of the groups table says of how the trials of its cell differ. A
// run has thousands of cells, and a row hundreds of columns.
func scattered(row result.Row) result.Row {
	some := result.Row{}
	for name, v := range row {
		switch {
		case name == groups.OutlierTrials, strings.HasSuffix(name, groups.CV), strings.HasSuffix(name, groups.CILow), strings.HasSuffix(name, groups.CIHigh):
			some[name] = v
		case strings.HasSuffix(name, groups.Median) && row[groups.OutlierTrials] != nil:
			some[name] = v
		}
	}
	return some
}

// Servers returns the axes that the servers of the plan vary, those that are not run included.
func (s *Set) Servers() Axes {
	var cells []Cell
	for _, p := range s.Points {
		cells = append(cells, p.Cell)
	}
	return slices.DeleteFunc(varied(append(cells, s.in.Skipped...)), func(a Axis) bool { return !a.Server })
}

// shapesOf returns the shapes by the settings that their sides share and by the name
// of a point's side, those with two sides that have a price.
func (s *Set) shapesOf(share func(Setting) bool, side func(*Point) string) []*Shape {
	var all []*Shape
	for _, l := range Group(s.Points, func(p *Point) string { return p.Cell.Text(share) }) {
		sh, priced := &Shape{Series: *l, sides: byLoad(l.Points, side)}, 0
		for _, d := range sh.sides {
			if d.priced() {
				priced++
			}
		}
		if priced > 1 {
			all = append(all, sh)
		}
	}
	return all
}

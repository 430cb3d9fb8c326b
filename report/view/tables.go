package view

import (
	"slices"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result/col"
)

// A Table is a grid of values with what is to be known of it.
type Table struct {
	draw.Grid
	Notes []string
}

// Engines returns engines side by side, at the load at which most of them have numbers; nil
// for one engine.
func (v *View) Engines() *Table {
	if v.Searching() || len(v.Set.Engines) == 0 {
		return nil
	}
	c := v.Set.Engines[0]
	return &Table{v.enginesTable(c), v.caveats(c)}
}

// Surface returns the servers of a plan that varies an argument of memory: which start, and
// which were to. Nil for every other plan, and where all start.
func (v *View) Surface() *Table {
	if v.Searching() {
		return nil
	}
	return v.surface()
}

// GPUs are GPUs at their bests, a table for each kind of request; the last has the notes of
// all.
func (v *View) GPUs() []*Table {
	if v.Searching() {
		return nil
	}
	var all []*Table
	for _, c := range v.Set.Answers(conclude.AskGPUBest) {
		if len(c.Places) > 0 {
			all = append(all, &Table{Grid: bestTable(c)})
		}
	}
	if len(all) == 0 {
		return nil
	}
	notes := []string{shapeNote}
	for _, sh := range v.Set.Shapes {
		notes = append(notes, v.counts(col.GPU, sh.Points)...)
		notes = append(notes, drifted(sh.Points)...)
	}
	slices.Sort(notes[1:])
	all[len(all)-1].Notes = slices.Compact(notes)
	return all
}

package turns

import (
	"sweep.dev/sweep/report/draw"
)

// Grids returns a table of ratios for each side: a line for each figure of each cell.
func (t *Turns) Grids() []draw.Grid {
	var all []draw.Grid
	for _, s := range t.Sides {
		g := draw.Grid{Name: t.Title(s), Down: "cell", Values: []string{"figure", t.Baseline, s.Value, "change", "verdict"}}
		for i := range s.Cells {
			for k := range s.Cells[i].Figures {
				if f := &s.Cells[i].Figures[k]; f.Said() {
					base, head := f.Sides()
					g.Rows = append(g.Rows, draw.Fields(s.Cells[i].Short(), f.Metric, base, head, f.Apart(), f.Words()))
				}
			}
		}
		if len(g.Rows) > 0 {
			all = append(all, g)
		}
	}
	return all
}

// Notes returns what else is said of the sides: cells that are not compared, and a drift.
func (t *Turns) Notes() []string {
	var all []string
	for _, s := range t.Sides {
		for _, line := range s.LeftOut(false) {
			all = append(all, s.Value+": "+line)
		}
	}
	if t.Drift != "" {
		all = append(all, t.Drift)
	}
	return all
}

package main

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report/draw"
)

// loads prints a line for each named load: which axes of the matrix it takes.
func (p planned) loads(page *draw.Document) {
	if len(p.plan.Loads) == 0 {
		return
	}
	rows, left := [][]string{{"load", "loop", "cells", "time", "takes"}}, 0
	for i, l := range p.plan.Loads {
		if i == maxDeployments && len(p.plan.Loads) > maxDeployments+1 {
			left = len(p.plan.Loads) - i
			break
		}
		cells := p.cellsOf(l.Name)
		if len(cells) == 0 { // left out by --only
			continue
		}
		var axes []string
		for _, s := range cells[0].Settings {
			if !s.Axis.Server && s.Axis.Name != plan.LoadAxis {
				axes = append(axes, s.Axis.Name)
			}
		}
		var took time.Duration
		for _, c := range cells {
			took += cellEstimate(p.plan, c, p.plugins.traits().scale)
		}
		loop, about := plan.LoopClosed, humanize.Duration(took)
		if cells[0].Load.Open() {
			loop = plan.LoopOpen
		}
		if _, known := l.Sends(); !known {
			about = "-" // as long as its trace
		}
		rows = append(rows, []string{l.Name, loop, strconv.Itoa(len(cells)), about, cmp.Or(strings.Join(axes, ", "), "no axis")})
	}
	page.Rows(rows...)
	if left > 0 {
		page.Text("  " + humanize.Plural(left, "more load"))
	}
}

// cellsOf returns the cells of a load that are asked for.
func (p planned) cellsOf(load string) []plan.Cell {
	var cells []plan.Cell
	for _, d := range p.deployments {
		for _, c := range d.Cells {
			if c.LoadName() == load {
				cells = append(cells, c)
			}
		}
	}
	return cells
}

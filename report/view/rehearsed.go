package view

import (
	"fmt"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
)

// RehearsedTitle returns that of Rehearsed.
func (v *View) RehearsedTitle() string {
	return "What the simulator predicted before the run, and what was measured"
}

// Rehearsed returns the figures of VALID cells beside those that were predicted, and what was not
// rehearsed. The capacities of a search have their predictions with them.
func (v *View) Rehearsed() []draw.Item {
	if v.Rehearsal == nil {
		return nil
	}
	var items []draw.Item
	for _, p := range v.Set.Points {
		expected := v.Rehearsal.Cell(p.Cell.ID)
		if expected == nil || p.Valid == 0 {
			continue
		}
		item := draw.Item{Text: p.Cell.Label}
		for _, f := range []struct {
			what      conclude.Measure
			predicted *float64
		}{{conclude.TokenRate, expected.Throughput}, {conclude.FirstToken, expected.TTFT}, {conclude.TailE2E, expected.E2E}} {
			v, ok := p.Figure(f.what)
			if !ok || f.predicted == nil || *f.predicted <= 0 {
				continue
			}
			item.Below = append(item.Below, fmt.Sprintf("%s: %s predicted, %s measured, %.0f %% of that", f.what.Name, humanize.Figure(*f.predicted), humanize.Figure(v), 100*v / *f.predicted))
		}
		if item.Below != nil {
			items = append(items, item)
		}
	}
	for _, m := range v.Rehearsal.Missing {
		items = append(items, draw.Item{Text: m.Deployment + ": not rehearsed: " + m.Why})
	}
	return items
}

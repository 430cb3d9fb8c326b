package details

import (
	"fmt"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
)

// rehearsedTitle is that of the section.
const rehearsedTitle = "What the simulator predicted before the run, and what was measured"

// rehearsed are the figures of VALID cells beside those that were predicted, and what was not
// rehearsed. The capacities of a search have their predictions with them.
func (s *summary) rehearsed() []draw.Item {
	if s.Rehearsal == nil {
		return nil
	}
	var items []draw.Item
	for _, p := range s.points {
		expected := s.Rehearsal.Cell(p.Cell.ID)
		if expected == nil || p.Valid == 0 {
			continue
		}
		item := draw.Item{Text: p.Cell.Label}
		for _, f := range []struct {
			what      compare.Measure
			predicted *float64
		}{{compare.TokenRate, expected.Throughput}, {compare.FirstToken, expected.TTFT}, {compare.TailE2E, expected.E2E}} {
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
	for _, m := range s.Rehearsal.Missing {
		items = append(items, draw.Item{Text: m.Deployment + ": not rehearsed: " + m.Why})
	}
	return items
}

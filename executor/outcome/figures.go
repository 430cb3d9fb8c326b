package outcome

import (
	"maps"
	"strings"

	"sweep.dev/sweep/judge/validity"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
)

// figures fills in the intervals of the row's figures, and returns how to make the figures
// and the objectives again as if the truth lay at the end of a shift. measured are the columns
// of the row that the requests alone make.
func figures(t *Trial, m *Measured, options summary.Options, row, measured result.Row) func(*summary.Shift) (result.Row, []result.SLOResult) {
	decide := func(row result.Row, o summary.Options) []result.SLOResult {
		requests := objective.Of(m.Requests, o)
		requests.Intervals(row)
		if t.ByPoint {
			requests = nil
		}
		return t.Plan.Objectives(row, requests)
	}
	slos := decide(row, options)
	return func(s *summary.Shift) (result.Row, []result.SLOResult) {
		if s == nil {
			return row, slos
		}
		o := options
		o.Shift = s
		moved := maps.Clone(row)
		for column := range measured {
			delete(moved, column)
			delete(moved, column+col.LowSuffix)
			delete(moved, column+col.HighSuffix)
		}
		again, _ := summary.Of(m.Requests, o)
		maps.Copy(moved, again)
		moved.Derive()
		return moved, decide(moved, o)
	}
}

// widen has the intervals of a row cover all that the truth may be.
func widen(row result.Row, v validity.Verdict) {
	for column := range row {
		switch {
		case v.Low == nil:
			return
		case strings.HasSuffix(column, col.LowSuffix):
			wider(row, column, v.Low, v.High, func(a, b float64) float64 { return min(a, b) })
		case strings.HasSuffix(column, col.HighSuffix):
			wider(row, column, v.High, v.Low, func(a, b float64) float64 { return max(a, b) })
		}
	}
}

// wider moves one end of an interval to where the truth may lie. Of goodput that is not the end
// of its own side: the longer the latencies, the fewer requests are good.
func wider(row result.Row, column string, own, other result.Row, of func(a, b float64) float64) {
	end, ok := row.Number(column)
	if !ok {
		return
	}
	moved, ok := own.Number(column)
	if !ok {
		row[column] = nil // not bounded
		return
	}
	end = of(end, moved)
	if moved, ok := other.Number(column); ok {
		end = of(end, moved)
	}
	row[column] = end
}

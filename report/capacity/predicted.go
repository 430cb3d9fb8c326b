package capacity

import (
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result/col"
)

// Predicted are the answers of a rehearsal as it is kept.
func Predicted(run *report.Run) []report.Predicted {
	all := []report.Predicted{}
	for _, a := range Of(run) {
		p := report.Predicted{
			About: a.Of.Label, Axis: a.Of.Axis, Objective: a.Objective, Expr: a.Expr,
			Capacity: a.Capacity, Point: a.Point, FailsAt: a.FailsAt,
			Probes: len(a.Of.Outcomes), Requests: a.Requests, Hours: took(a.Of.Trials).Hours(), USD: a.CostUSD,
		}
		if a.Reason != "" {
			p.Reason = &a.Reason
		}
		if v, ok := a.Figures.Number(col.ThroughputTokS); ok {
			p.Throughput = &v
		}
		if v, ok := a.Figures.Number(col.USDPer1MOutputTokens); ok {
			p.Price = &v
		}
		all = append(all, p)
	}
	return all
}

package capacity

import (
	"fmt"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result/col"
)

// Predicted returns the answers of a rehearsal as it is kept.
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

// foretold returns what was predicted before the run, beside the answer; "" if nothing was.
func (a *Answer) foretold() string {
	p := a.Predicted
	switch {
	case p == nil:
		return ""
	case p.Capacity == nil && p.Reason == nil:
		return "the simulator did not get to the end of this search"
	case p.Capacity == nil:
		return "the simulator predicted no capacity (" + *p.Reason + ")"
	}
	text := "the simulator predicted " + a.Load(*p.Capacity)
	switch {
	case p.Reason == nil || *p.Reason != search.Certified: // it may be more
		text += " or more"
	case a.Capacity != nil && (a.Reason == search.Certified || a.Reason == search.NotMonotone):
		text += fmt.Sprintf("; the server carries %.0f %% of that", 100**a.Capacity / *p.Capacity)
	}
	return text
}

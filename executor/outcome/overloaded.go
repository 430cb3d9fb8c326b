package outcome

import (
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

// overloaded decides the objectives of a search for a trial of an open loop without a
// plateau: requests took longer than the load, as they do far above what a server carries.
// The figures of all its requests are lower than those of a steady load, since the first
// ones met no queue and nothing came after the last. So an objective that these miss is
// missed. One that they keep stays undecided.
func overloaded(t *Trial, m *Measured, options summary.Options, o *result.Outcome, row result.Row) {
	if t.Plan.Find == nil || !options.Open || m.Span.Steady || m.Span.Last <= m.Span.First {
		return
	}
	requests := slices.Clone(m.Requests)
	options.Span = timeline.Span{First: m.Span.First, From: m.Span.First, To: m.Span.Last, Last: m.Span.Last, Steady: true}
	for i := range requests {
		if requests[i].Measured() {
			requests[i].Phase = result.Plateau
		}
	}
	whole, _ := summary.Of(requests, options)
	for i, r := range t.Plan.Objectives(whole, objective.Of(requests, options)) {
		if kept, ok := objective.Kept(r); !ok || kept {
			continue
		}
		o.SLOs[i] = r
		if r.Verdict != "" {
			row[col.OfSLO(r.Name)] = r.Verdict
		}
		if r.Verdict == result.SLOFail && whole[col.SLOPass] == false {
			row[col.SLOPass] = false
		}
	}
}

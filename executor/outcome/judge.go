package outcome

import (
	"slices"
	"strings"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/judge/validity"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
)

// nothingMeasured is the error_class of a trial of which no request came to an
// end.
const nothingMeasured = "nothing_measured"

// evidence returns what the verdict on this trial rests on.
func evidence(row result.Row, t *Trial, m *Measured, drifts timeline.Drifts) validity.Evidence {
	l := t.Cell.Load
	e := validity.Evidence{
		Row: row, Requests: m.Requests, Health: m.Health, Reported: m.Notes,
		Open: l.Open(), MaxInFlight: l.MaxInFlight, Exact: l.Output == plan.OutputExact, Warmup: warmup(l),
		Shared: m.Shared, MayKnow: m.MayKnow, Moves: moves(t, row), Compiled: m.Compiled, Unrepresentative: t.Plan.Unrepresentative(t.Cell),
	}
	e.Server, e.Thefts = looks(m.Samples)
	for name, d := range map[string]timeline.Drift{"TTFT": drifts.TTFT, "TPOT": drifts.TPOT, "throughput": drifts.Throughput} {
		e.Drifts = append(e.Drifts, validity.Drift{Name: name, Change: d.Change, P: d.P})
	}
	slices.SortFunc(e.Drifts, func(a, b validity.Drift) int { return strings.Compare(a.Name, b.Name) })
	if c := t.Calibration; c != nil {
		// Of the clients together, as far as this machine has CPUs for them. Pods have their own.
		clients := max(1, len(m.Health.Shards))
		if l.Clients.Kind != plan.ClientsKubernetes {
			clients = min(clients, c.MostClients())
		}
		e.Ceiling, e.Disturbed = float64(clients)*c.Limit(), c.Disturbance()
	}
	// If a condition of the plan ended the load, that is a result.
	switch m.Ended.By {
	case stopping.Failing:
		e.Expected = []finding.Code{finding.ErrorRate}
	case stopping.Saturated:
		e.Expected = []finding.Code{finding.Drift}
	}
	return e
}

// tails returns the percentiles that the objectives of a trial and the end of its load rest on.
func tails(l plan.Load, objectives []result.SLOResult) []validity.Tail {
	all := validity.Tails(objectives)
	if l.Until != nil && l.Until.Metric != "" {
		all = append(all, validity.Tail{Column: l.Until.Metric})
	}
	return all
}

// warmup returns how many requests are sent before a trial, at the least.
func warmup(l plan.Load) int {
	if n := l.WarmupRequests(); n > 0 || l.Warmup.Duration == 0 {
		return n
	}
	return 1
}

func codes(findings []result.Finding) any {
	if len(findings) == 0 {
		return nil
	}
	list := make([]string, len(findings))
	for i, f := range findings {
		list[i] = f.Code.String()
	}
	return strings.Join(list, ",")
}

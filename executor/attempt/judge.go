package attempt

import (
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/stopping"
	"sweep.dev/sweep/verdict"
)

// nothingMeasured is the error_class of a trial of which no request came to an
// end.
const nothingMeasured = "nothing_measured"

// evidence is what the verdict on this trial rests on.
func (a *Attempt) evidence(row result.Row, plateau timeline.Span, samples []result.Sample) verdict.Evidence {
	l := a.trial.Cell.Load
	e := verdict.Evidence{
		Row: row, Requests: a.requests, Health: a.health, Told: a.sink.Notes(),
		Open: l.Open(), MaxInFlight: l.MaxInFlight, Exact: a.exact(), Warmup: warmup(l.Warmup),
		Shared: a.shared(), MayKnow: a.mayKnow(), Unrepresentative: a.config.Plan.Unrepresentative(a.trial.Cell),
	}
	e.Server, e.Thefts = looks(samples)
	drifts := timeline.DriftOf(a.requests, plateau, e.Open)
	for name, d := range map[string]timeline.Drift{"TTFT": drifts.TTFT, "TPOT": drifts.TPOT, "throughput": drifts.Throughput} {
		e.Drifts = append(e.Drifts, verdict.Drift{Name: name, Change: d.Change, P: d.P})
	}
	slices.SortFunc(e.Drifts, func(a, b verdict.Drift) int { return strings.Compare(a.Name, b.Name) })
	if c := a.config.Calibration; c != nil {
		e.Ceiling, e.Disturbed = c.Limit(), c.Disturbance()
	}
	// What the plan asks to end a load by is a result.
	switch a.ended.By {
	case stopping.Failing:
		e.Expected = []finding.Code{finding.ErrorRate}
	case stopping.Saturated:
		e.Expected = []finding.Code{finding.Drift}
	}
	return e
}

// warmup is how many requests are sent before a trial, at the least.
func warmup(w plan.Warmup) int {
	if w.Requests == 0 && w.Duration > 0 {
		return 1
	}
	return w.Requests
}

// exact says whether every request of this trial must yield max_tokens tokens.
func (a *Attempt) exact() bool { return a.trial.Cell.Load.Output == plan.OutputExact }

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

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package search

import (
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// atLimit are the findings beside a row that is INVALID that say that the client cannot carry
// the load.
var atLimit = []finding.Code{finding.ClientCPU, finding.ClientLoop, finding.ClientCeiling}

// Of returns the outcome of a probe by what was committed of its trial.
func Of(o *result.Outcome) Outcome {
	n, _ := o.Row.Number(col.Requests)
	out := Outcome{State: Failed, Requests: int(n), SLOs: o.SLOs, Seconds: o.Row.Float(col.DurationS), USDPerHour: o.Row.Float(col.USDPerHour)}
	completed, _ := o.Row.Number(col.Completed)
	out.Silent = completed == 0
	if o.StartFailure || o.Row[col.Requests] == nil { // nothing was sent, which says nothing of the load
		out.State = Invalid
	}
	out.Unsettled = slices.ContainsFunc(o.Findings, func(f result.Finding) bool { return f.Code == finding.SteadinessUnknown })
	out.On, _ = o.Row[col.GPUUUID].(string)
	switch o.Row[col.Status] {
	case result.StatusSkipped:
		out.State = Seen
	case result.StatusOK:
		out.State = Measured
	case result.StatusInvalid:
		out.State = Invalid
		only := func(codes ...finding.Code) bool {
			return len(o.Invalid) > 0 && !slices.ContainsFunc(o.Invalid, func(f result.Finding) bool { return !slices.Contains(codes, f.Code) })
		}
		switch {
		case only(finding.Drift):
			out.State = Drifting
		case only(finding.Drift, finding.ErrorRate) && out.Silent:
			out.State = Failed
		case only(finding.Drift, finding.ErrorRate):
			out.State, out.SLOs = Refusing, refused(o.SLOs)
		}
		if slices.ContainsFunc(o.Findings, func(f result.Finding) bool { return slices.Contains(atLimit, f.Code) }) {
			out.State = ClientBound
		}
	}
	return out
}

// refused returns the objectives of a trial in which too many requests failed: all of them are missed,
// also those whose percentile leaves room for the failures.
func refused(all []result.SLOResult) []result.SLOResult {
	out := slices.Clone(all)
	for i := range out {
		out[i].Verdict, out[i].Error = result.SLOFail, ""
		out[i].Parts = nil
	}
	return out
}

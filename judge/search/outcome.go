package search

import (
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// atLimit are the reasons for INVALID that say that the client cannot carry the load.
var atLimit = []finding.Code{finding.ClientCPU, finding.ClientLoop, finding.ClientCeiling}

// Of is the outcome of a probe by what was committed of its trial.
func Of(o *result.Outcome) Outcome {
	n, _ := o.Row.Number(col.Requests)
	out := Outcome{State: Failed, Requests: int(n), SLOs: o.SLOs}
	if o.StartFailure || o.Row[col.Requests] == nil { // nothing was sent, which says nothing of the load
		out.State = Invalid
	}
	out.On, _ = o.Row[col.GPUUUID].(string)
	switch o.Row[col.Status] {
	case result.StatusSkipped:
		out.State = Seen
	case result.StatusOK:
		out.State = Measured
	case result.StatusInvalid:
		out.State = Invalid
		if len(o.Invalid) > 0 && !slices.ContainsFunc(o.Invalid, func(f result.Finding) bool { return f.Code != finding.Drift }) {
			out.State = Drifting
		}
		if slices.ContainsFunc(o.Invalid, func(f result.Finding) bool { return slices.Contains(atLimit, f.Code) }) {
			out.State = ClientBound
		}
	}
	return out
}

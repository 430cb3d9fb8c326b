package adapt

import (
	"math"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// interval is the width of a 95 % interval of a normal distribution, in standard
// deviations.
const interval = 2 * 1.96

// Of is the outcome of a trial by what was committed of it: its level and its number are
// the caller's. A trial that is not VALID, and a metric that was not measured, decide
// nothing.
func Of(o *result.Outcome, metric string) Outcome {
	if o.Row[col.Status] == result.StatusSkipped {
		return Outcome{Skipped: true}
	}
	v, ok := o.Row.Number(metric)
	if o.Row[col.Valid] != true || !ok || v <= 0 {
		return Outcome{}
	}
	out := Outcome{Value: v}
	if low, high := o.Row.Float(metric+col.LowSuffix), o.Row.Float(metric+col.HighSuffix); low > 0 && high > low {
		out.SD = math.Log(high/low) / interval
	}
	return out
}

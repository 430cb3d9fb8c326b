package objective

import (
	"math"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/summary"
)

// intervalTail is the chance that a figure lies above its interval, and below it.
const intervalTail = 0.025

// Intervals fills in the columns of the 95 % intervals of those figures of the plateau
// that the row has. Those of percentiles are as [Interval] has them. Those of rates and
// means are from batch means of two requests at least; there is none of what had no
// spread at all, and a lower end that is not above 0 is 0.
func (t *Trial) Intervals(row result.Row) {
	t.percentiles(row)
	if n, ok := row.Number(col.PlateauRequests); !ok || n < 2*meanBatches {
		return
	}
	set := func(column string, p *result.SLOPart, ok bool) {
		if row[column] == nil || !ok || p.StdErr <= 0 {
			return
		}
		half := quantile.Student(1-intervalTail, p.DF) * p.StdErr
		row[column+col.LowSuffix], row[column+col.HighSuffix] = max(0, p.Mean-half), p.Mean+half
	}
	for _, column := range result.IntervalRates() {
		var p result.SLOPart
		set(column, &p, t.rate(&p, column))
	}
	for _, latency := range result.IntervalMeans() {
		var p result.SLOPart
		set(col.Latency("mean", latency), &p, t.mean(&p, way{latency: latency}))
	}
}

func (t *Trial) percentiles(row result.Row) {
	for _, latency := range result.IntervalPercentiles() {
		values, _ := t.values(latency, "")
		all := newOrdered(values)
		for _, q := range summary.Percentiles() {
			column := col.Latency(q.Name, latency)
			if row[column] == nil && !row.Infinite(column) {
				continue
			}
			at := t.opts.Shift.At(latency, q.P)
			if at >= 1 {
				continue
			}
			low, high := all.interval(at, 1-2*intervalTail)
			if !math.IsInf(low, 0) {
				row[column+col.LowSuffix] = low
			}
			if !math.IsInf(high, 0) {
				row[column+col.HighSuffix] = high
			}
		}
	}
}

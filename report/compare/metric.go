package compare

import (
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/metric"
)

// A Metric is a figure that two sides are compared by.
type Metric struct {
	conclude.Measure
	metric.Words
	// Shown: it has a column of its own in the table for people.
	Shown bool
	// Judged: it counts for the verdict on a cell, for the false discovery rate and for
	// a regression. A cost follows from a rate and a price and would count one change
	// twice.
	Judged bool
	// Share: it is a share of requests, of which the difference is judged and not the
	// ratio, as the better one is 0.
	Share bool
}

// Metrics returns all of them, the most important first.
func Metrics() []Metric {
	all := []Metric{
		{Measure: conclude.TokenRate, Shown: true, Judged: true},
		{Measure: conclude.FirstToken, Shown: true, Judged: true},
		{Measure: conclude.MiddleTPOT, Judged: true},
		{Measure: conclude.TailTPOT, Judged: true},
		{Measure: conclude.TailE2E, Judged: true},
		{Measure: conclude.Measure{Name: "error rate", Column: col.ErrorRate}, Judged: true, Share: true},
		{Measure: conclude.TokenCost},
	}
	for i := range all {
		known, _ := metric.Of(all[i].Column)
		all[i].Words = known.Words
	}
	return all
}

// word returns a verdict in the words of a metric.
func (m Metric) word(v Verdict) string {
	switch v {
	case Faster:
		return m.Better
	case Slower:
		return m.Worse
	}
	return string(v)
}

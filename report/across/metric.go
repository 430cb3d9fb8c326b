package across

import (
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result/col"
)

// A Metric is a figure that two sides are compared by.
type Metric struct {
	compare.Measure
	Title  string // in the head of a table
	Better string // the word for a change to the better; a change to the worse is Worse
	Worse  string
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

// Metrics are all of them, the most important first. This is the one table of which
// way is better, with the direction of the measure.
func Metrics() []Metric {
	const faster, slower = "faster", "slower"
	return []Metric{
		{Measure: compare.TokenRate, Title: "tok/s", Better: faster, Worse: slower, Shown: true, Judged: true},
		{Measure: compare.FirstToken, Title: "p95 TTFT", Better: faster, Worse: slower, Shown: true, Judged: true},
		{Measure: compare.MiddleTPOT, Title: "p50 TPOT", Better: faster, Worse: slower, Judged: true},
		{Measure: compare.TailTPOT, Title: "p95 TPOT", Better: faster, Worse: slower, Judged: true},
		{Measure: compare.TailE2E, Title: "p95 E2E", Better: faster, Worse: slower, Judged: true},
		{Measure: compare.Measure{Name: "error rate", Column: col.ErrorRate}, Title: "errors", Better: "fewer errors", Worse: "more errors", Judged: true, Share: true},
		{Measure: compare.TokenCost, Title: "$/1M", Better: "cheaper", Worse: "dearer"},
	}
}

// word is a verdict in the words of a metric.
func (m Metric) word(v Verdict) string {
	switch v {
	case Faster:
		return m.Better
	case Slower:
		return m.Worse
	}
	return string(v)
}

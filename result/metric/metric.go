// Package metric is the one table of the columns by which cells, runs and nights are
// compared: which way is better, in which words, and what is kept of a night.
package metric

import "sweep.dev/sweep/result/col"

// A Metric is a column of which one value is better than another.
type Metric struct {
	Column string
	Less   bool // a lesser value is better
	Words

	Kept bool // of every night
	// Floor is the least change between nights that counts, in the column's unit: what a
	// clock, a scheduler and a network do to any figure.
	Floor float64
	Gated bool // by the gate, unless others are asked for
}

// Words are for a change between two runs; none if no two runs are compared by the metric.
type Words struct {
	Title  string // in the head of a table
	Better string // the word for a change to the better
	Worse  string
}

const (
	faster = "faster"
	slower = "slower"
)

var table = []Metric{
	{Column: col.ThroughputTokS, Kept: true, Gated: true, Words: Words{"tok/s", faster, slower}},
	{Column: col.P95TTFTMs, Less: true, Kept: true, Floor: 1, Gated: true, Words: Words{"p95 TTFT", faster, slower}},
	{Column: col.P95TPOTMs, Less: true, Kept: true, Floor: 0.1, Gated: true, Words: Words{"p95 TPOT", faster, slower}},
	{Column: col.P50TTFTMs, Less: true, Kept: true, Floor: 1},
	{Column: col.P50TPOTMs, Less: true, Kept: true, Floor: 0.1, Words: Words{"p50 TPOT", faster, slower}},
	{Column: col.P50E2EMs, Less: true, Kept: true, Floor: 1},
	{Column: col.P95E2EMs, Less: true, Kept: true, Floor: 1, Words: Words{"p95 E2E", faster, slower}},
	{Column: col.TotalThroughputTokS, Kept: true},
	{Column: col.RequestThroughput, Kept: true},
	{Column: col.GoodputReqS, Kept: true},
	{Column: col.ErrorRate, Less: true, Kept: true, Floor: 0.005, Words: Words{"errors", "fewer errors", "more errors"}},
	{Column: col.USDPer1MOutputTokens, Less: true, Kept: true, Words: Words{"$/1M", "cheaper", "dearer"}},
	{Column: col.JoulesPerOutputToken, Less: true, Kept: true},
	{Column: col.StartUpS, Less: true, Kept: true, Floor: 1},

	{Column: col.MeanTTFTMs, Less: true},
	{Column: col.MeanTPOTMs, Less: true},
	{Column: col.MeanE2EMs, Less: true},
	{Column: col.P50UserTokS},
}

// Kept returns those that are kept of every night.
func Kept() []Metric {
	var all []Metric
	for _, m := range table {
		if m.Kept {
			all = append(all, m)
		}
	}
	return all
}

// Of finds the metric of a column. ok is false for a column of which no value is better
// than another, or none that anything is compared by.
func Of(column string) (m Metric, ok bool) {
	for _, m := range table {
		if m.Column == column {
			return m, true
		}
	}
	return Metric{}, false
}

package history

import "sweep.dev/sweep/result/col"

// A Metric is a column that is kept of every night.
type Metric struct {
	Column string
	Less   bool // a lesser value is better
	// Floor is the least change that counts, in the column's unit: what a clock, a
	// scheduler and a network do to any figure.
	Floor float64
	Gated bool // by the gate, unless others are asked for
}

// Metrics are all of them.
func Metrics() []Metric {
	return []Metric{
		{Column: col.ThroughputTokS, Gated: true},
		{Column: col.P95TTFTMs, Less: true, Floor: 1, Gated: true},
		{Column: col.P95TPOTMs, Less: true, Floor: 0.1, Gated: true},
		{Column: col.P50TTFTMs, Less: true, Floor: 1},
		{Column: col.P50TPOTMs, Less: true, Floor: 0.1},
		{Column: col.P50E2EMs, Less: true, Floor: 1},
		{Column: col.P95E2EMs, Less: true, Floor: 1},
		{Column: col.TotalThroughputTokS},
		{Column: col.RequestThroughput},
		{Column: col.GoodputReqS},
		{Column: col.ErrorRate, Less: true, Floor: 0.005},
		{Column: col.USDPer1MOutputTokens, Less: true},
		{Column: col.JoulesPerOutputToken, Less: true},
		{Column: col.StartUpS, Less: true, Floor: 1},
	}
}

// MetricByName finds a metric by its column.
func MetricByName(column string) (Metric, bool) {
	for _, m := range Metrics() {
		if m.Column == column {
			return m, true
		}
	}
	return Metric{}, false
}

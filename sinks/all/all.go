// Package all lists the sinks there are.
package all

import (
	"sweep.dev/sweep/sinks"
	"sweep.dev/sweep/sinks/csv"
	"sweep.dev/sweep/sinks/metricslog"
	"sweep.dev/sweep/sinks/parquet"
)

// Factories returns every sink, by its kind's name.
func Factories() []sinks.Factory {
	return []sinks.Factory{
		csv.Factory(),
		metricslog.Factory(),
		parquet.Factory(),
	}
}

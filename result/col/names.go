package col

import "strings"

// The suffixes of figures beside those without one, which are of the plateau and
// count a failed request as infinite.
const (
	WholeSuffix     = "_whole"     // of the whole trial; latencies of its completed requests alone
	CompletedSuffix = "_completed" // of the plateau's completed requests alone
	LowSuffix       = "_low"       // ends of the interval of a percentile
	HighSuffix      = "_high"
)

// Latency returns the column of a statistic (mean, p95, ...) of a latency (ttft, ...).
func Latency(statistic, latency string) string { return statistic + "_" + latency + "_ms" }

// ServerLatency returns the same by the engine's own histogram.
func ServerLatency(statistic, latency string) string {
	return Latency(statistic, "server_"+latency)
}

// ProbeLatency returns the same of the requests of the probe beside the load.
func ProbeLatency(statistic, latency string) string { return Latency(statistic, "probe_"+latency) }

// OfFamily returns the column of MetricLines or MetricNames for the engines' metrics
// of one family alone.
func OfFamily(column, family string) string { return column + "_" + family }

// OfRole returns a server's column for one role alone.
func OfRole(role, column string) string { return strings.ReplaceAll(role, "-", "_") + "_" + column }

// OfSLO returns the column that says whether an objective was met.
func OfSLO(name string) string { return "slo_" + name }

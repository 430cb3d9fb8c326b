package conclude

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// P50Samples and P95Samples are how many requests such a percentile needs; rows
// with fewer name it in low_confidence.
const (
	P50Samples = 11
	P95Samples = 130
)

// Headline returns a measured trial in one line: its rate, its latency, and how few
// requests that rests on where they are too few.
func Headline(row result.Row) string {
	var parts []string
	rate := col.ThroughputTokS
	if row[rate] == nil {
		rate = col.RequestThroughput
	}
	parts = append(parts, shown(row, rate)+" "+Rates[rate])
	for _, l := range Latencies(row) {
		parts = append(parts, fmt.Sprintf("p95 %s %s ms", strings.ToUpper(l), shown(row, col.Latency("p95", l))))
	}
	text := strings.Join(parts, ", ")
	if n := few(row); n > 0 {
		text += fmt.Sprintf(" (%s)", humanize.Plural(n, "request"))
	}
	return text
}

// Infinite is what stands for a figure that failed requests make infinite.
const Infinite = "inf"

// shown returns a figure of a row for people.
func shown(row result.Row, column string) string {
	if row.Infinite(column) {
		return Infinite
	}
	return humanize.Figure(row[column])
}

// Rates are the columns that can stand for how much a cell carries.
var Rates = map[string]string{col.ThroughputTokS: "tok/s", col.RequestThroughput: "requests/s"}

// Latencies returns the latencies that people are shown: those of a stream, or the
// whole answer's if there was none.
func Latencies(row result.Row) []string {
	none := func(column string) bool { return row[column] == nil && !row.Infinite(column) }
	if none(col.P95TTFTMs) && none(col.P95TPOTMs) {
		return []string{"e2e"}
	}
	return []string{"ttft", "tpot"}
}

// few returns the number of requests behind a p95 that is shown, where they are too
// few for one; else 0.
func few(row result.Row) int {
	for _, l := range Latencies(row) {
		if n := restsOn(row, col.Latency("p95", l)); n > 0 {
			return n
		}
	}
	return 0
}

// restsOn returns the number of requests behind a percentile, where they are too few
// for it; else 0.
func restsOn(row result.Row, column string) int {
	if len(row.LowConfidence([]string{column})) == 0 {
		return 0
	}
	return max(1, int(row.Float(col.PlateauRequests)))
}

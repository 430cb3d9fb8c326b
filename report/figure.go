package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Figure is a value for people: a number with three or more significant
// digits and no noise, "-" for what was not measured.
func Figure(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case float64:
		switch size := math.Abs(v); {
		case size >= 100 || v == math.Trunc(v):
			return strconv.FormatFloat(v, 'f', 0, 64)
		case size >= 10:
			return strconv.FormatFloat(v, 'f', 1, 64)
		case size >= 1:
			return strconv.FormatFloat(v, 'f', 2, 64)
		default:
			return strconv.FormatFloat(v, 'g', 3, 64)
		}
	default:
		return fmt.Sprint(v)
	}
}

// P50Samples and P95Samples are how many requests such a percentile needs; rows
// with fewer name it in low_confidence.
const (
	P50Samples = 11
	P95Samples = 130
)

// Headline is a measured trial in one line: its rate, its latency, and how few
// requests that rests on where they are too few.
func Headline(row result.Row) string {
	var parts []string
	rate := col.ThroughputTokS
	if row[rate] == nil {
		rate = col.RequestThroughput
	}
	parts = append(parts, Figure(row[rate])+" "+rates[rate])
	for _, l := range shown(row) {
		parts = append(parts, fmt.Sprintf("p95 %s %s ms", strings.ToUpper(l), Figure(row[col.Latency("p95", l)])))
	}
	text := strings.Join(parts, ", ")
	if n := few(row); n > 0 {
		text += fmt.Sprintf(" (%s)", humanize.Plural(n, "request"))
	}
	return text
}

// rates are the columns that can stand for how much a cell carries.
var rates = map[string]string{col.ThroughputTokS: "tok/s", col.RequestThroughput: "requests/s"}

// shown are the latencies that people are shown: those of a stream, or the
// whole answer's where there was none.
func shown(row result.Row) []string {
	if row[col.P95TTFTMs] == nil && row[col.P95TPOTMs] == nil {
		return []string{"e2e"}
	}
	return []string{"ttft", "tpot"}
}

// few is the number of requests behind a p95 that is shown, where they are too
// few for one; else 0.
func few(row result.Row) int {
	for _, l := range shown(row) {
		if n := restsOn(row, col.Latency("p95", l)); n > 0 {
			return n
		}
	}
	return 0
}

// restsOn is the number of requests behind a percentile, where they are too few
// for it; else 0.
func restsOn(row result.Row, column string) int {
	if len(row.LowConfidence([]string{column})) == 0 {
		return 0
	}
	return max(1, int(number(row, col.Completed)))
}

// number is a column's value as a float64; 0 where it is null.
func number(row result.Row, name string) float64 {
	v, _ := row.Number(name)
	return v
}

package result

import (
	"fmt"
	"slices"
	"strings"
)

// LowConfidence are those of the columns that the row's low_confidence names:
// percentiles that rest on too few requests. A name without a suffix there
// stands for the column's _plateau and _censored too; p50_user_tok_s is as good
// as the median that it is made from.
func (r Row) LowConfidence(columns []string) []string {
	text, _ := r["low_confidence"].(string)
	if text == "" {
		return nil
	}
	named := strings.Split(text, ",")
	var low []string
	for _, c := range columns {
		name := c
		if c == "p50_user_tok_s" {
			name = "p50_tpot_ms"
		}
		whole := strings.TrimSuffix(strings.TrimSuffix(name, PlateauSuffix), CensoredSuffix)
		if slices.Contains(named, name) || slices.Contains(named, whole) {
			low = append(low, c)
		}
	}
	slices.Sort(low)
	return low
}

// WhyNull says why a column that could have been measured is null, or "": a
// censored percentile that so many requests failed that it is infinite.
func (r Row) WhyNull(column string) string {
	whole, censored := strings.CutSuffix(column, CensoredSuffix)
	if !censored || r[column] != nil || r[whole] == nil {
		return ""
	}
	failed, _ := r.Number("failed")
	requests, _ := r.Number("requests")
	return fmt.Sprintf("infinite, with %.0f of %.0f requests failed", failed, requests)
}

package result

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/result/col"
)

// LowConfidence are those of the columns that the row's low_confidence names:
// percentiles that rest on too few requests. A name without a suffix there
// stands for the column's _plateau and _censored too; p50_user_tok_s is as good
// as the median that it is made from.
func (r Row) LowConfidence(columns []string) []string {
	text, _ := r[col.LowConfidence].(string)
	if text == "" {
		return nil
	}
	named := strings.Split(text, ",")
	var low []string
	for _, c := range columns {
		name := c
		if c == col.P50UserTokS {
			name = col.P50TPOTMs
		}
		whole := strings.TrimSuffix(strings.TrimSuffix(name, col.PlateauSuffix), col.CensoredSuffix)
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
	whole, censored := strings.CutSuffix(column, col.CensoredSuffix)
	if !censored || r[column] != nil || r[whole] == nil {
		return ""
	}
	failed, _ := r.Number(col.Failed)
	requests, _ := r.Number(col.Requests)
	return fmt.Sprintf("infinite, with %.0f of %.0f requests failed", failed, requests)
}

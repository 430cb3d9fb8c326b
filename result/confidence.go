package result

import (
	"slices"
	"strings"

	"sweep.dev/sweep/result/col"
)

// LowConfidence returns those of the columns that the row's low_confidence names:
// percentiles that rest on too few requests. A name without a suffix there
// stands for the column's _completed and _whole too, and what the whole trial has
// too few for, a part of it has too; p50_user_tok_s is as good as the median that
// it is made from.
func (r Row) LowConfidence(columns []string) []string {
	named := r.listed(col.LowConfidence)
	if len(named) == 0 {
		return nil
	}
	var low []string
	for _, c := range columns {
		name := strings.TrimSuffix(strings.TrimSuffix(c, col.WholeSuffix), col.CompletedSuffix)
		if name == col.P50UserTokS {
			name = col.P50TPOTMs
		}
		if slices.Contains(named, c) || slices.Contains(named, name) || slices.Contains(named, name+col.WholeSuffix) {
			low = append(low, c)
		}
	}
	slices.Sort(low)
	return low
}

// Infinite reports whether a column is null because it is infinite: so many requests
// failed that no value bounds it.
func (r Row) Infinite(column string) bool { return slices.Contains(r.listed(col.Infinite), column) }

// listed returns the names in a column of them.
func (r Row) listed(column string) []string {
	text, _ := r[column].(string)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// WhyNull says why a figure is null that was measured in another way, or "": the
// trial had no plateau.
func (r Row) WhyNull(column string) string {
	whole := column + col.WholeSuffix
	if r[column] != nil || r[whole] == nil || r[col.PlateauS] != nil {
		return ""
	}
	return "the trial had no plateau; " + whole + " is of all of it"
}

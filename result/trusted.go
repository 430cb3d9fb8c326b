package result

import (
	"maps"

	"sweep.dev/sweep/result/col"
)

// madeOf returns the columns that are made of others alone, by those.
func madeOf(column string) []string {
	switch column {
	case col.P50TPOTMs:
		return []string{col.P50UserTokS}
	case col.ThroughputTokS:
		return []string{col.USDPer1MOutputTokens}
	}
	return nil
}

// InPart reports whether the row is INVALID in some figures alone: the others may be used.
func (r Row) InPart() bool { return r[col.Status] == StatusInvalid && r[col.InvalidFigures] != nil }

// Trusted returns the row with its INVALID figures null, and with all that is made of them:
// what uses a figure looks at this one. A row that is judged as a whole comes back as it is.
func (r Row) Trusted() Row {
	invalid := r.listed(col.InvalidFigures)
	if len(invalid) == 0 {
		return r
	}
	out := maps.Clone(r)
	for _, figure := range invalid {
		for _, column := range append(madeOf(figure), figure) {
			for _, suffix := range []string{"", col.LowSuffix, col.HighSuffix, col.CompletedSuffix, col.WholeSuffix} {
				if _, ok := out[column+suffix]; ok {
					out[column+suffix] = nil
				}
			}
		}
	}
	return out
}

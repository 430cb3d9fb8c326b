package result

import (
	"strings"

	"sweep.dev/sweep/result/col"
)

// boundSeparator is between the entries of a column of bounds.
const boundSeparator = ", "

// AddBound adds the bounds of a percentile, by the name of its column, to the
// column of bounds of that name.
func (r Row) AddBound(to, percentile, bounds string) {
	entry := percentile + " " + bounds
	if before, ok := r[to].(string); ok {
		entry = before + boundSeparator + entry
	}
	r[to] = entry
}

// Bounds returns the entries of the row's columns of bounds, those of roles too, by the
// names of their percentiles' columns.
func (r Row) Bounds() map[string]string {
	out := make(map[string]string)
	for name, v := range r {
		text, ok := v.(string)
		if !ok || !strings.HasSuffix(name, col.ServerPercentileBounds) {
			continue
		}
		for entry := range strings.SplitSeq(text, boundSeparator) {
			if column, bounds, ok := strings.Cut(entry, " "); ok {
				out[column] = bounds
			}
		}
	}
	return out
}

package view

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Disaggregated returns in how many trials it is proven that servers for prefill computed the
// prompts and their KV caches were moved; "" if no engine of the run has such servers.
func (v *View) Disaggregated() string {
	each, all := map[string]int{}, 0
	low, high := 1.0, 0.0
	for _, row := range v.Rows() {
		verdict, ok := row[col.PD].(string)
		if !ok {
			continue
		}
		each[verdict]++
		all++
		if share, ok := row.Number(col.PDShare); ok {
			low, high = min(low, share), max(high, share)
		}
	}
	if all == 0 {
		return ""
	}
	var parts []string
	for _, verdict := range []string{result.PDProven, result.PDPartial, result.PDAbsent, result.PDUnknown} {
		if n := each[verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d", verdict, n))
		}
	}
	text := fmt.Sprintf("P/D: %s of %s", strings.Join(parts, ", "), humanize.Plural(all, "trial"))
	switch {
	case high < low: // no share is known
	case high-low < 0.005:
		text += fmt.Sprintf("; servers for prefill did %.0f %% of the work on prompts", 100*low)
	default:
		text += fmt.Sprintf("; servers for prefill did %.0f to %.0f %% of the work on prompts", 100*low, 100*high)
	}
	return text + "."
}

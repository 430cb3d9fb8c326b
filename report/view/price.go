package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result/col"
)

// Prices returns the prices that the figures per dollar rest on, one line for each
// GPU, number of them, price and source.
func (v *View) Prices() []draw.Item {
	type priced struct {
		gpu    string
		count  int64
		usd    float64
		source string
	}
	seen := map[priced]bool{}
	for _, t := range v.Trials {
		if t.Outcome == nil {
			continue
		}
		row := t.Outcome.Row
		usd, ok := row[col.USDPerHour].(float64)
		if !ok {
			continue
		}
		p := priced{gpu: fmt.Sprint(cmp.Or[any](t.Cell.Value(col.GPU), "GPU")), usd: usd}
		p.count, _ = row[col.GPUCount].(int64)
		p.source, _ = row[col.PriceSource].(string) // "" in a run of an older version
		seen[p] = true
	}
	order := func(a, b priced) int {
		return cmp.Or(cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.count, b.count), cmp.Compare(a.usd, b.usd), cmp.Compare(a.source, b.source))
	}
	var items []draw.Item
	for _, p := range slices.SortedFunc(maps.Keys(seen), order) {
		text := fmt.Sprintf("%s: $%.2f/h", p.gpu, p.usd)
		if p.count > 0 {
			text = fmt.Sprintf("%d x %s", p.count, text)
		}
		if p.source != "" {
			text += ", " + report.PriceSource(p.source)
		}
		items = append(items, draw.Item{Text: text})
	}
	return items
}

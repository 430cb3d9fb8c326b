package view

import (
	"slices"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
)

func TestPrices(t *testing.T) {
	trial := func(gpu string, row result.Row) conclude.Trial {
		return conclude.Trial{Cell: conclude.Cell{Settings: []conclude.Setting{{Column: "gpu", Value: gpu}}}, Outcome: &result.Outcome{Row: row}}
	}
	s := &View{Run: &report.Run{Trials: []conclude.Trial{
		trial("h100", result.Row{"gpu_count": int64(2), "usd_per_hour": 4.2, "price_source": result.PricePlan}),
		trial("h100", result.Row{"gpu_count": int64(2), "usd_per_hour": 4.2, "price_source": result.PricePlan}),
		trial("h100", result.Row{"gpu_count": int64(1), "usd_per_hour": 2.99, "price_source": result.PriceCatalogue}),
		trial("a100-80gb", result.Row{"gpu_count": int64(1), "usd_per_hour": 1.1, "price_source": result.PriceProvider}),
		trial("l4", result.Row{"gpu_count": int64(1), "usd_per_hour": 0.5, "price_source": result.PriceConfig}),
		trial("t4", result.Row{"usd_per_hour": 0.35}),
		trial("my-card", result.Row{"gpu_count": int64(1)}),
		{},
	}}}
	var got []string
	for _, i := range s.Prices() {
		got = append(got, i.Text)
	}
	want := []string{
		"1 x a100-80gb: $1.10/h, the provider's price",
		"1 x h100: $2.99/h, list price",
		"2 x h100: $4.20/h, price of the plan",
		"1 x l4: $0.50/h, price of the user's configuration",
		"t4: $0.35/h",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

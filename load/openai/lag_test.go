package openai

import (
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// BenchmarkScheduleLag reports how late the requests of an open loop are sent:
// 500 a second, in Poisson gaps, for two seconds.
func BenchmarkScheduleLag(b *testing.B) {
	e := loadtest.New(nil)
	defer e.Close()
	d, err := New(chat(e.URL))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		src, err := source.New(source.Config{
			Pace: arrivals.Steady(500, arrivals.Process{}), Requests: 1000, MaxTokens: 1, Prompts: source.Prompts{InputTokens: 20},
		})
		if err != nil {
			b.Fatal(err)
		}
		var rec recorder
		if _, err := d.Run(b.Context(), src, &rec, load.Options{Anchor: result.NewAnchor()}); err != nil {
			b.Fatal(err)
		}
		var lag []time.Duration
		for _, r := range rec {
			lag = append(lag, r.Sent-r.Scheduled)
		}
		slices.Sort(lag)
		b.ReportMetric(float64(lag[len(lag)/2].Microseconds()), "p50-lag-us")
		b.ReportMetric(float64(lag[len(lag)*99/100].Microseconds()), "p99-lag-us")
	}
}

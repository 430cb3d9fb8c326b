package statistics

import (
	"math"
	"time"

	"sweep.dev/sweep/test/statistics/tables"
)

// A Rule is one rule of the program that is held against truth.
type Rule struct {
	Name string // of its table
	Make func(*Lab) tables.Table
}

// Rules returns all of them, in the order of the documentation.
func Rules() []Rule {
	return []Rule{
		{"steady-state", steadyState},
		{"cycles", cycles},
		{"open-plateau", openPlateau},
		{"drift", drift},
		{"until", until},
		{"repeats-until", repeatsUntil},
		{"error-rate", errorRate},
		{"saturation", saturation},
		{"percentiles", percentiles},
		{"percentile-interval", percentileInterval},
		{"objectives", objectives},
		{"margins", margins},
		{"margins-foreign", foreignMargins},
		{"quiet", quiet},
		{"launches", launches},
		{"outliers", outliers},
		{"unstable", unstable},
		{"sweet-spot", sweetSpot},
		{"ratios", ratios},
		{"versions", versions},
		{"common-numbers", common},
		{"gate", gates},
		{"gate-rerun", reruns},
		{"search", searches},
		{"search-tiers", tiers},
		{"limits", limits},
	}
}

// Run makes the table of a rule.
func (r Rule) Run(l *Lab) tables.Table {
	began := time.Now()
	t := r.Make(l)
	t.Name, t.Seconds = r.Name, math.Round(10*time.Since(began).Seconds())/10
	for i := range t.Cases {
		for j, f := range t.Cases[i].Figures {
			t.Cases[i].Figures[j] = f.Rounded()
		}
	}
	return t
}

package view

import (
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
)

func TestDisaggregated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows []result.Row
		want string
	}{
		"one role":      {[]result.Row{{"status": "ok"}}, ""},
		"all":           {[]result.Row{{"pd": "proven", "pd_share": 1.0}, {"pd": "proven", "pd_share": 1.0}}, "P/D: proven in 2 of 2 trials; servers for prefill did 100 % of the work on prompts."},
		"some":          {[]result.Row{{"pd": "partial", "pd_share": 0.05}, {"pd": "proven", "pd_share": 0.97}, {"status": "failed"}}, "P/D: proven in 1, partial in 1 of 2 trials; servers for prefill did 5 to 97 % of the work on prompts."},
		"nothing known": {[]result.Row{{"pd": "unknown"}}, "P/D: unknown in 1 of 1 trial."},
	} {
		v := &View{Run: &report.Run{}}
		for _, row := range c.rows {
			v.Trials = append(v.Trials, conclude.Trial{Outcome: &result.Outcome{Row: row}})
		}
		if got := v.Disaggregated(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

package search

import (
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

func TestOf(t *testing.T) {
	t.Parallel()
	row := func(status string) result.Row { return result.Row{"status": status, "requests": int64(200)} }
	for _, c := range []struct {
		name string
		o    result.Outcome
		want string
	}{
		{"measured", result.Outcome{Row: row(result.StatusOK)}, Measured},
		{"disturbed", result.Outcome{Row: row(result.StatusInvalid), Invalid: []result.Finding{{Code: finding.CPUSteal}}}, Invalid},
		{"its latencies rose", result.Outcome{Row: row(result.StatusInvalid), Invalid: []result.Finding{{Code: finding.Drift}}}, Drifting},
		{"its latencies rose, and not by the load alone", result.Outcome{Row: row(result.StatusInvalid), Invalid: []result.Finding{{Code: finding.Drift}, {Code: finding.CPUSteal}}}, Invalid},
		{"too many requests failed", result.Outcome{Row: result.Row{"status": result.StatusInvalid, "requests": int64(200), "completed": int64(120)}, Invalid: []result.Finding{{Code: finding.ErrorRate}}}, Refusing},
		{"none was answered", result.Outcome{Row: result.Row{"status": result.StatusInvalid, "requests": int64(200), "completed": int64(0)}, Invalid: []result.Finding{{Code: finding.ErrorRate}}}, Failed},
		{"the client is at its limit", result.Outcome{Row: row(result.StatusInvalid), Invalid: []result.Finding{{Code: finding.ScheduleLag}}, Findings: []result.Finding{{Code: finding.ClientCPU}}}, ClientBound},
		{"the server died", result.Outcome{Row: row(result.StatusFailed)}, Failed},
		{"the server did not start", result.Outcome{Row: row(result.StatusFailed), StartFailure: true}, Invalid},
		{"nothing was sent", result.Outcome{Row: result.Row{"status": result.StatusFailed}}, Invalid},
	} {
		if got := Of(&c.o); got.State != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.State, c.want)
		}
	}
}

package report

import (
	"testing"

	"sweep.dev/sweep/result"
)

// A point whose wait nobody knows is not the quickest to answer.
func TestCandidate_choose(t *testing.T) {
	point := func(ttft any) *Point {
		row := result.Row{"status": result.StatusOK, "p95_ttft_ms": ttft, "usd_per_hour": 2.0}
		return &Point{Verdict: Acceptable, Valid: 1, Trials: []Trial{{Outcome: &result.Outcome{Row: row}}}}
	}
	unknown, slow, quick := point(nil), point(20.0), point(10.0)
	for _, points := range [][]*Point{{unknown, slow, quick}, {quick, unknown, slow}, {slow, quick, unknown}} {
		c := &candidate{points: points}
		c.choose()
		if c.first != quick {
			t.Errorf("it chose %v ms", c.wait(c.first))
		}
	}
}

package outcome

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/timeline"
)

// A client that sent late makes the figures INVALID that it may have moved too far, and the
// intervals of the others wider.
func TestOf_figures(t *testing.T) {
	t.Parallel()
	of := func(lag time.Duration) result.Row {
		trial, m, _ := judged(t, `matrix: {engine: sim, concurrency: [2]}`, `slo: {quick: p95_ttft_ms < 600}`)
		m.Health.MaxGap = 0
		for i := range m.Requests {
			q := &m.Requests[i]
			q.Status, q.ErrorClass, q.Error, q.Slot = result.Completed, "", "", i%2
			q.PromptTokens, q.TokenSource, q.ChunkUS = 24, "usage", []int32{50_000, 20_000, 20_000, 20_000}
			q.Sent = q.Scheduled + lag
			q.FirstToken, q.LastToken, q.End = q.Sent+50*time.Millisecond, q.Sent+110*time.Millisecond, q.Sent+1900*time.Millisecond
		}
		m.Requests = append([]result.Request{{Phase: result.Warmup, Status: result.Completed}}, m.Requests...)
		m.Span = timeline.Assign(m.Requests, 2)
		o, err := Of(*trial, nil, *m, End{})
		if err != nil {
			t.Fatal(err)
		}
		return o.Row
	}
	clean, late, later := of(0), of(time.Millisecond), of(20*time.Millisecond)
	if clean["valid"] != true || late["valid"] != true || late["invalid_figures"] != nil || clean["invalid_figures"] != nil {
		t.Errorf("clean %v, late %v", clean["invalid_figures"], late["invalid_figures"])
	}
	if got, want := late.Float("p50_ttft_ms_high")-late.Float("p50_ttft_ms"), clean.Float("p50_ttft_ms_high")-clean.Float("p50_ttft_ms"); got <= want {
		t.Errorf("the interval of a late client reaches %v above its figure, that of a clean one %v", got, want)
	}
	bad := strings.Split(later["invalid_figures"].(string), ",")
	if later["valid"] != false || !slices.Contains(bad, "p95_ttft_ms") || !slices.Contains(bad, "throughput_tok_s") || later["invalid_reasons"] != "schedule_lag" {
		t.Errorf("%v, by %v", bad, later["invalid_reasons"])
	}
}

package main

import (
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

// TestPlans_load runs the plans whose load is more than one rate or concurrency,
// in less time than they ask for, and looks at what is special in their rows.
func TestPlans_load(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		plan  string
		set   []string
		codes []int
		check func(t *testing.T, rows []result.Row)
	}{
		{plan: "replay-trace", codes: ranThrough, check: func(t *testing.T, rows []result.Row) {
			for _, row := range rows {
				// The trace has 24 requests of these lengths, most of which begin as others do.
				if row["status"] != result.StatusOK || row["completed"] != int64(24) || row["output_tokens"] != int64(500) {
					t.Errorf("%v: %v requests, %v output tokens", row["status"], row["completed"], row["output_tokens"])
				}
				if hit, _ := row["prefix_cache_hit_rate"].(float64); hit < 0.4 {
					t.Errorf("the shared blocks were found at a rate of %v", row["prefix_cache_hit_rate"])
				}
			}
			if len(rows) != 2 {
				t.Errorf("%d rows", len(rows))
			}
		}},
		{plan: "conversations", set: []string{"matrix.gpu=a100-40gb", "matrix.concurrency=[4, 6]", "load.requests_per_worker=12", "load.think_time=5ms", "load.cancel.after=20ms", "load.cancel.share=10%", "load.max_tokens=16"}, codes: ranThrough, check: func(t *testing.T, rows []result.Row) {
			for _, row := range rows {
				// A later turn carries the earlier ones.
				longest, _ := row["max_prompt_tokens"].(float64)
				shortest, _ := row["min_prompt_tokens"].(float64)
				if row["status"] != result.StatusOK || longest < 3*shortest || row["failed"] != int64(0) {
					t.Errorf("%v: prompts of %v to %v tokens, %v failed", row["status"], shortest, longest, row["failed"])
				}
				if row["cancelled_planned"] == int64(0) || row["cancelled_planned"] != row["cancelled"] {
					t.Errorf("%v cancelled, %v of them planned", row["cancelled"], row["cancelled_planned"])
				}
			}
			if len(rows) != 4 {
				t.Errorf("%d rows", len(rows))
			}
		}},
		// At rates that the card carries; what ends a trial before its cap is tested with the executor.
		{plan: "steady-state", set: []string{"matrix.gpu=a100-80gb", "matrix.request_rate=[8,12]", "load.duration=2s", "load.max_tokens=16"}, codes: ranThrough, check: func(t *testing.T, rows []result.Row) {
			for _, row := range rows {
				probes, _ := row["probe_requests"].(int64)
				if row["status"] != result.StatusOK || row["ended_by"] != "duration" || probes == 0 || row["slo_responsive"] == nil {
					t.Errorf("%v requests/s: %v, ended by %v, %v probes, objective %v", row["request_rate"], row["status"], row["ended_by"], probes, row["slo_responsive"])
				}
			}
			if len(rows) != 2 {
				t.Errorf("%d rows", len(rows))
			}
		}},
	} {
		t.Run(p.plan, func(t *testing.T) {
			t.Parallel()
			out := rehearsePlan(t, p.plan, p.set, p.codes)
			run, err := report.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			p.check(t, run.Rows())
		})
	}
}

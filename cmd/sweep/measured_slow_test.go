//go:build slow

package main

import (
	"fmt"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
)

// overloaded has a rate that its server carries, two that it cannot, and one
// above.
const overloaded = `
matrix: {engine: vllm, gpu: l4, request_rate: [12, 90, 120, 180]}
backend: {kind: sim}
load:
  duration: 60s
  max_tokens: 16
  until: {metric: p50_e2e_ms, within: 90%, confidence: 0.8, min_requests: 20}
  stop: {saturated: true, skip_higher: true}
  prompts: {input_tokens: 50}
`

// TestRun_saturated: a rate that the server cannot follow ends by that, however
// loose the precision that would end it too, and higher ones are not tried; also
// by who resumes a run that was killed in between.
func TestRun_saturated(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, rows []result.Row) {
		t.Helper()
		var got []string
		for _, row := range rows {
			got = append(got, fmt.Sprint(row["request_rate"], " ", row["status"], " ", row["ended_by"]))
		}
		want := []string{"12 ok precision", "90 ok saturated", "120 ok saturated", "180 skipped <nil>"}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	said := func(t *testing.T, got ran) {
		t.Helper()
		for _, text := range []string{"load_stopped 2x", "1 skipped"} {
			if !strings.Contains(got.stdout, text) {
				t.Errorf("the summary does not say %q\n%s", text, got.stdout)
			}
		}
	}
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		rows, got := measured(t, overloaded, exitOK)
		check(t, rows)
		said(t, got)
	})
	t.Run("resumed", func(t *testing.T) {
		t.Parallel()
		args, out := prepared(t, overloaded)
		if got := sweep(t, t.TempDir(), []string{"SWEEP_FAULT=commit.journal:after:kill@2"}, args...); got.code != -1 {
			t.Fatalf("it was not killed: %d\n%s", got.code, got.stderr)
		}
		got := sweep(t, t.TempDir(), nil, "resume", "--calibrate", "never", out)
		if got.code != exitOK {
			t.Fatalf("resume ended with %d\n%s", got.code, got.stderr)
		}
		check(t, rowsOf(t, out))
		said(t, got)
	})
}

package rundir

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A row comes back from result.json with the same values of the same types,
// also those that JSON has no notion of.
func TestOutcome_roundTrip(t *testing.T) {
	o := &result.Outcome{
		CellID: "c", Trial: 2, Attempt: 3,
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		Row: result.Row{
			"method": int64(result.Method),
			"status": "ok", "valid": true, "error": nil,
			"requests": int64(1 << 60), "concurrency": int64(8),
			"p50_ttft_ms": 12.0, "p95_ttft_ms": 0.1 + 0.2, "p99_ttft_ms": 1e300,
			"p99_e2e_ms": math.Inf(1), "p95_e2e_ms": math.Inf(-1), "p50_e2e_ms": math.NaN(),
			"started_at":   time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
			"arg_text":     "2026-01-02T03:04:05Z", // an axis: looks like an instant, is a string
			"arg_infinity": "Infinity",
			"arg_float":    1.0, "arg_int": int64(1), "arg_bool": false,
			"arg_unicode": "é\u2028<&>\x00",
		},
		SLOs: []result.SLOResult{{
			Name: "fast", Expr: "p95_ttft_ms < 200", Severity: "fail",
			Values: result.Row{"p95_ttft_ms": math.Inf(1), "requests": int64(3)},
		}},
		Findings: []result.Finding{{Code: finding.Drift, Text: "y"}},
		LogTail:  []string{"a", "b"},
		Files:    []result.File{{Name: "f", Bytes: 1, SHA256: "00"}},
	}
	b, err := encodeOutcome(o, "dig")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Errorf("not JSON: %s", b)
	}
	s, err := decodeOutcome(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o, &s.Outcome, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("written (-) and read (+):\n%s", diff)
	}
	if s.SpecDigest != "dig" {
		t.Errorf("digest %q", s.SpecDigest)
	}
	again, err := encodeOutcome(&s.Outcome, "dig")
	if err != nil || string(again) != string(b) {
		t.Errorf("written again it differs (%v)", err)
	}
}

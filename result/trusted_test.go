package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is made of an INVALID figure goes with it, and a row that names none stays as it is.
func TestRow_trusted(t *testing.T) {
	row := Row{
		"valid": true, "invalid_figures": "p95_ttft_ms,throughput_tok_s", "p50_ttft_ms": 1.0,
		"p95_ttft_ms": 2.0, "p95_ttft_ms_low": 1.5, "p95_ttft_ms_high": 3.0, "p95_ttft_ms_completed": 2.0, "p95_ttft_ms_whole": 2.0,
		"throughput_tok_s": 10.0, "usd_per_1m_output_tokens": 0.1, "total_throughput_tok_s": 12.0,
	}
	want := Row{
		"valid": true, "invalid_figures": "p95_ttft_ms,throughput_tok_s", "p50_ttft_ms": 1.0,
		"p95_ttft_ms": nil, "p95_ttft_ms_low": nil, "p95_ttft_ms_high": nil, "p95_ttft_ms_completed": nil, "p95_ttft_ms_whole": nil,
		"throughput_tok_s": nil, "usd_per_1m_output_tokens": nil, "total_throughput_tok_s": 12.0,
	}
	if diff := cmp.Diff(want, row.Trusted()); diff != "" {
		t.Errorf("- want, + got:\n%s", diff)
	}
	if row["p95_ttft_ms"] != 2.0 {
		t.Error("the row itself has changed")
	}
	row = Row{"valid": false, "p95_ttft_ms": 2.0}
	if diff := cmp.Diff(row, row.Trusted()); diff != "" {
		t.Errorf("judged as a whole:\n%s", diff)
	}
}

package objective

import (
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

// TestComparison_Odd holds which limits are odd before anything is measured.
func TestComparison_Odd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   Comparison
		want string // "" for a usual limit
	}{
		{Comparison{"p95_ttft_ms", "<", 0.5}, "so 0.5 s is 500"},
		{Comparison{"p95_tpot_ms", "<=", 0.05}, "so 0.05 s is 50"},
		{Comparison{"mean_e2e_ms_whole", "<", 0.9}, "so 0.9 s is 900"},
		{Comparison{"p95_ttft_ms", "<", 2}, ""},
		{Comparison{"p95_tpot_ms", "<", 0.5}, ""},
		{Comparison{"p95_ttft_ms", ">", 0.5}, ""},
		{Comparison{"p95_e2e_ms", "<", 400_000}, "given up after 5m0s"},
		{Comparison{"p95_e2e_ms", "<", 60_000}, ""},
		{Comparison{"error_rate", "<", 5}, "5 % is 0.05"},
		{Comparison{"error_rate", "<=", 1}, "5 % is 0.05"},
		{Comparison{"error_rate", "<", 0.05}, ""},
		{Comparison{"throughput_tok_s", "<", 0.5}, ""},
		{Comparison{"p99_client_lag_ms", "<", 0.5}, ""},
	} {
		if got := c.of.Odd(5 * time.Minute); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

// TestOdd holds which limits are odd against a measured figure, also within an or.
func TestOdd(t *testing.T) {
	t.Parallel()
	part := func(figure, limit float64) result.SLOPart {
		return result.SLOPart{Column: "p95_ttft_ms", Op: "<", Limit: limit, Figure: &figure}
	}
	for _, c := range []struct {
		of   result.SLOPart
		want string
	}{
		{part(480, 2), "240 times its limit of 2: it is in milliseconds, so 2 s is 2000"},
		{part(20, 0.5), "40 times its limit of 0.5"},
		{part(9e6, 2), "which no load is likely to meet"},
		{part(300, 200), ""},
		{part(20, 300), ""},
		{part(20, 200_000), "a 10000-th of its limit of 200000, which no load is likely to miss"},
		{result.SLOPart{Column: "p95_ttft_ms", Op: "<", Limit: 2}, ""}, // infinite
		{result.SLOPart{Any: []result.SLOPart{part(20, 300), part(480, 2)}}, "so 2 s is 2000"},
	} {
		if got := Odd(result.SLOResult{Parts: []result.SLOPart{c.of}}); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

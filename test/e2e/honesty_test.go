//go:build e2e || e2e_vllm

package e2e

import (
	"testing"

	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
)

// honest: nothing is wrong with any cell of a small grid on a real engine, whose run
// ended with code, and no verdict says so. A cell that others on the machine have
// disturbed is measured again; what the hypervisor took is a true reason, however often.
func honest(t *testing.T, dir string, code int) {
	t.Helper()
	for range 3 {
		if code != 3 {
			break
		}
		for _, r := range readRows(t, dir) {
			if r["valid"] != "true" {
				t.Logf("measured again: %s, steal %s, client's CPU %s", r, r["cpu_steal"], r["client_cpu"])
			}
		}
		s := start(t, "resume", "--retry", "invalid", dir)
		code = s.wait()
		s.nothingLeft(0)
	}
	rows := readRows(t, dir)
	if len(rows) != 4 {
		t.Fatalf("got %d rows, want 4", len(rows))
	}
	stolen := 0
	for _, r := range rows {
		switch {
		case r["valid"] == "true":
		case r["invalid_reasons"] == finding.CPUSteal.String() && r.number(t, "cpu_steal") > bounds.Defaults().Steal:
			// The kernel has counted it: a true verdict.
			t.Logf("%s: this machine is shared, steal %s", r, r["cpu_steal"])
			stolen++
		default:
			t.Errorf("a false verdict: %s", r)
		}
		t.Logf("%s: client %s, stamps %s, lag p50 %s, p99 %s, max %s ms, chunks that shared a read %s, stamp error %s ms, round trip p50 %s, max %s ms; gaps p50 %s ms",
			r, r["client"], r["stamp_kind"], r["p50_client_lag_ms"], r["p99_client_lag_ms"], r["max_client_lag_ms"], r["coalesced_ratio"], r["stamp_error_ms"], r["p50_rtt_ms"], r["max_rtt_ms"], r["p50_icl_ms"])
		if r["stamp_kind"] == "kernel" && r.number(t, "p50_client_lag_ms") <= 0 {
			t.Errorf("%s: a read is never as early as the kernel's stamp", r)
		}
	}
	if want := min(stolen, 1) * 3; code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
}

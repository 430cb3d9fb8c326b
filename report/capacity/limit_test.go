package capacity

import (
	"maps"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

// TestLimitOf holds for each limit the counters that name it, and those that do not.
func TestLimitOf(t *testing.T) {
	t.Parallel()
	ttft, tpot := "p95_ttft_ms < 200", "p95_tpot_ms < 25"
	decoding := result.Row{"mean_server_decode_ms": 900.0, "mean_server_e2e_ms": 1000.0}
	for _, c := range []struct {
		name   string
		row    result.Row
		missed string
		want   string
	}{
		{"no counters", result.Row{}, ttft, "unknown"},
		{"preemptions", result.Row{"preemptions": int64(3), "max_kv_cache_usage": 0.95, "mean_requests_waiting": 9.0, "mean_requests_running": 9.0}, ttft, "kv_cache"},
		{"a queue", result.Row{"mean_requests_waiting": 5.0, "mean_requests_running": 4.0}, ttft, "queue"},
		{"a queue before a busy thread", result.Row{"mean_requests_waiting": 5.0, "mean_requests_running": 4.0, "server_busiest_thread_cpu": 0.97}, ttft, "host_cpu"},
		{"a thread that waits for the GPU", result.Row{"mean_requests_waiting": 5.0, "mean_requests_running": 4.0, "server_busiest_thread_cpu": 1.0, "mean_gpu_util": 97.0}, ttft, "queue"},
		{"a GPU that waits for a thread", result.Row{"server_busiest_thread_cpu": 1.0, "mean_gpu_util": 40.0}, tpot, "host_cpu"},
		{"a thread of the simulator", result.Row{"server_busiest_thread_cpu": 1.0, "simulated": true}, tpot, "unknown"},
		{"a long way", result.Row{"p50_rtt_ms": 90.0, "mean_server_ttft_ms": 60.0}, ttft, "link"},
		{"a short way", result.Row{"p50_rtt_ms": 9.0, "mean_server_ttft_ms": 60.0}, ttft, "unknown"},
		{"packets lost", result.Row{"tcp_retransmits": int64(50), "requests": int64(400)}, ttft, "link"},
		{"prefill", result.Row{"mean_server_prefill_ms": 150.0, "mean_server_ttft_ms": 200.0}, ttft, "prefill"},
		{"prefill, and tokens too slow", result.Row{"mean_server_prefill_ms": 150.0, "mean_server_ttft_ms": 200.0, "mean_server_decode_ms": 900.0, "mean_server_e2e_ms": 1000.0}, tpot, "decode"},
		{"memory bandwidth", result.Row{"mean_gpu_memory_bandwidth_util": 91.0, "mean_server_decode_ms": 900.0, "mean_server_e2e_ms": 1000.0}, tpot, "decode_bandwidth"},
		{"decoding, and the first token too slow", decoding, ttft, "unknown"},
		{"decoding", decoding, tpot, "decode"},
		{"one of two parts", decoding, ttft + "; " + tpot, "decode"},
	} {
		row := result.Row{"valid": true}
		maps.Copy(row, c.row)
		got := limitOf([]report.Trial{{Outcome: &result.Outcome{Row: row}}}, strings.Split(c.missed, "; "))
		if got.By != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got.By, got.Says, c.want)
		}
		if (got.By == unknownLimit) != (len(got.Says) == 0) {
			t.Errorf("%s: %s by %v", c.name, got.By, got.Says)
		}
	}
}

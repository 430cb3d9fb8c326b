package capacity

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
)

// TestLimitOf holds for each limit the counters that name it, and those that do not.
func TestLimitOf(t *testing.T) {
	t.Parallel()
	ttft, tpot, e2e := "p95_ttft_ms < 200", "p95_tpot_ms < 25", "p95_e2e_ms < 2000"
	with := func(row result.Row, more result.Row) result.Row {
		row = maps.Clone(row)
		maps.Copy(row, more)
		return row
	}
	queued := result.Row{ // 20 a second, of which 0.3 are at their prompts at once
		"mean_server_queue_ms": 100.0, "mean_server_prefill_ms": 15.0, "mean_server_ttft_ms": 115.0, "mean_server_e2e_ms": 900.0,
		"request_throughput": 20.0, "requests": int64(400), "mean_requests_running": 15.0, "max_requests_running": 16.0, "max_kv_cache_usage": 0.3,
		"mean_server_tpot_ms": 8.0,
	}
	decoding := result.Row{
		"mean_server_decode_ms": 900.0, "mean_server_e2e_ms": 1000.0, "mean_server_prefill_ms": 11.0, "mean_server_tpot_ms": 10.0, "request_throughput": 20.0,
	}
	prompts := result.Row{"mean_server_prefill_ms": 150.0, "mean_server_ttft_ms": 200.0, "mean_server_tpot_ms": 20.0, "request_throughput": 2.0}
	waiting := result.Row{
		"mean_requests_waiting": 5.0, "mean_requests_running": 4.0, "max_requests_running": 4.0, "mean_server_prefill_ms": 15.0, "request_throughput": 20.0, "max_kv_cache_usage": 0.3,
	}
	way := result.Row{"p50_rtt_ms": 90.0, "p95_server_ttft_ms": 60.0, "p99_server_ttft_ms": 120.0}
	lost := result.Row{"tcp_retransmits": int64(50), "requests": int64(400), "p95_server_ttft_ms": 60.0}
	for _, c := range []struct {
		name    string
		row     result.Row
		missed  string
		want    string
		servers int // 0 is 1
	}{
		{"no counters", result.Row{}, ttft, "unknown", 0},
		{"a full cache", with(queued, result.Row{"max_kv_cache_usage": 0.99}), ttft, "kv_cache", 0},
		{"a full cache, and tokens too slow", with(queued, result.Row{"max_kv_cache_usage": 0.99}), tpot, "unknown", 0},
		{"a full cache, and no long wait of the whole", with(queued, result.Row{"max_kv_cache_usage": 0.99}), e2e, "unknown", 0},
		{"a full cache, and a long wait of the whole", with(queued, result.Row{"max_kv_cache_usage": 0.99, "mean_server_queue_ms": 800.0}), e2e, "kv_cache", 0},
		{"a full cache, and no time in the queue", with(waiting, result.Row{"max_kv_cache_usage": 0.99}), ttft, "kv_cache", 0},
		{"preemptions", result.Row{"preemptions": int64(30), "requests": int64(400), "max_kv_cache_usage": 0.95}, tpot, "kv_cache", 0},
		{"a preemption", result.Row{"preemptions": int64(1), "requests": int64(400), "max_kv_cache_usage": 0.95}, tpot, "unknown", 0},
		{"slots", queued, ttft, "queue", 0},
		{"slots, and tokens too slow", queued, tpot, "unknown", 0},
		{"slots, and no long wait of the whole", queued, e2e, "unknown", 0},
		{"slots, and a long wait of the whole", with(queued, result.Row{"mean_server_queue_ms": 800.0}), e2e, "queue", 0},
		{"a queue, and slots are free", with(queued, result.Row{"max_requests_running": 40.0}), ttft, "unknown", 0},
		{"a queue of prompts", with(queued, result.Row{"request_throughput": 60.0}), ttft, "prefill", 0},
		{"a queue of prompts, and a long wait of the whole", with(queued, result.Row{"request_throughput": 60.0, "mean_server_queue_ms": 800.0}), e2e, "prefill", 0},
		{"a queue, and a good part of it prompts", with(queued, result.Row{"request_throughput": 45.0}), ttft, "unknown", 0},
		{"a queue, and no time in it", waiting, ttft, "queue", 0},
		{"a queue, and nobody knows the prompts", with(waiting, result.Row{"mean_server_prefill_ms": nil}), ttft, "unknown", 0},
		{"a queue before a busy thread", with(waiting, result.Row{"server_busiest_thread_cpu": 0.97, "gpu": "cpu-2-cores"}), ttft, "host_cpu", 0},
		{"a thread that polls for requests", result.Row{"server_busiest_thread_cpu": 1.0, "gpu": "cpu", "mean_requests_running": 0.3}, ttft, "unknown", 0},
		{"a thread that polls beside a GPU", result.Row{"server_busiest_thread_cpu": 1.0, "mean_gpu_util": 20.0, "mean_requests_running": 1.2}, tpot, "unknown", 0},
		{"a busy thread, and nobody watched the GPU", with(waiting, result.Row{"server_busiest_thread_cpu": 0.97, "gpu": "l4"}), ttft, "queue", 0},
		{"a thread that waits for the GPU", with(waiting, result.Row{"server_busiest_thread_cpu": 1.0, "mean_gpu_util": 97.0}), ttft, "queue", 0},
		{"a GPU that waits for a thread", result.Row{"server_busiest_thread_cpu": 1.0, "mean_gpu_util": 40.0, "mean_requests_running": 8.0}, tpot, "host_cpu", 0},
		{"a thread of the simulator", result.Row{"server_busiest_thread_cpu": 1.0, "mean_gpu_util": 40.0, "mean_requests_running": 8.0, "simulated": true}, tpot, "unknown", 0},
		{"a thread of the simulator without a GPU", result.Row{"server_busiest_thread_cpu": 1.0, "gpu": "cpu", "mean_requests_running": 8.0, "simulated": true}, tpot, "unknown", 0},
		{"a long way", way, ttft, "link", 0},
		{"a long way, and the slowest", way, "p99_ttft_ms < 200", "unknown", 0},
		{"a long way, and a fast slowest", with(way, result.Row{"p99_server_ttft_ms": 80.0}), "p99_ttft_ms < 200", "link", 0},
		{"a long way, and a host that polls", with(way, result.Row{"server_busiest_thread_cpu": 1.0, "mean_gpu_util": 40.0, "mean_requests_running": 8.0}), ttft, "link", 0},
		{"a short way", with(way, result.Row{"p50_rtt_ms": 50.0}), ttft, "unknown", 0},
		{"a long way, and only a mean", with(way, result.Row{"p95_server_ttft_ms": nil, "mean_server_ttft_ms": 60.0}), ttft, "unknown", 0},
		{"a long way, and tokens too slow", with(decoding, way), tpot, "decode", 0},
		{"packets lost", lost, ttft, "link", 0},
		{"packets lost, and the slowest", with(lost, result.Row{"p99_server_ttft_ms": 150.0}), "p99_ttft_ms < 200", "link", 0},
		{"packets lost, and the server's own slowest", with(lost, result.Row{"p99_server_ttft_ms": 250.0}), "p99_ttft_ms < 200", "unknown", 0},
		{"packets lost, and the usual too slow", lost, "p90_ttft_ms < 200", "unknown", 0},
		{"packets lost, and a slow server", with(with(queued, lost), result.Row{"p95_server_ttft_ms": 250.0}), ttft, "queue", 0},
		{"prefill", prompts, ttft, "prefill", 0},
		{"prefill, by the gap between tokens", with(prompts, result.Row{"mean_server_tpot_ms": nil, "mean_server_itl_ms": 20.0}), ttft, "prefill", 0},
		{"prefill in steps that are all as long", with(prompts, result.Row{"mean_server_tpot_ms": 140.0}), ttft, "unknown", 0},
		{"prefill, and nobody knows the steps", with(prompts, result.Row{"mean_server_tpot_ms": nil}), ttft, "unknown", 0},
		{"prefill of the whole", with(prompts, result.Row{"mean_server_e2e_ms": 250.0}), e2e, "prefill", 0},
		{"prefill of the whole in steps that are all as long", with(prompts, result.Row{"mean_server_e2e_ms": 250.0, "mean_server_tpot_ms": 140.0}), e2e, "unknown", 0},
		{"prefill that tokens wait for", with(prompts, result.Row{"request_throughput": 5.0, "mean_server_decode_ms": 900.0, "mean_server_e2e_ms": 1000.0}), tpot, "prefill", 0},
		{"seldom prefill, and tokens too slow", with(prompts, result.Row{"mean_server_decode_ms": 900.0, "mean_server_e2e_ms": 1000.0}), tpot, "unknown", 0},
		{"memory bandwidth", with(decoding, result.Row{"mean_gpu_memory_bandwidth_util": 91.0}), tpot, "decode_bandwidth", 0},
		{"decoding, and the first token too slow", decoding, ttft, "unknown", 0},
		{"decoding", decoding, tpot, "decode", 0},
		{"decoding, and many prompts at once", with(decoding, result.Row{"request_throughput": 200.0}), tpot, "unknown", 0},
		{"one of two parts", decoding, ttft + "; " + tpot, "unknown", 0},
		{"two parts", decoding, tpot + "; p99_itl_ms < 50", "decode", 0},
		{"a full cache, and little of the time in the queue", with(with(queued, waiting), result.Row{"max_kv_cache_usage": 0.99, "mean_server_queue_ms": 20.0}), ttft, "unknown", 0},
		{"slots, and no room for a further request", with(queued, result.Row{"max_kv_cache_usage": 0.9}), ttft, "unknown", 0},
		{"slots, and nobody knows the cache", with(queued, result.Row{"max_kv_cache_usage": nil}), ttft, "unknown", 0},
		{"slots of short answers", with(queued, result.Row{"request_throughput": 60.0, "mean_server_tpot_ms": 14.0}), ttft, "unknown", 0},
		{"answers of one token", with(prompts, result.Row{"mean_server_tpot_ms": 0.0}), ttft, "unknown", 0},
		{"no request in the window", with(queued, result.Row{"request_throughput": 0.0}), ttft, "unknown", 0},
		{"slots of several servers", queued, ttft, "unknown", 2},
		{"slots of several pods", with(queued, result.Row{"pods": int64(4)}), ttft, "unknown", 0},
		{"prefill on other servers", with(prompts, result.Row{"request_throughput": 5.0, "pd": "proven"}), tpot, "unknown", 0},
		{"prefill on the same server", with(prompts, result.Row{"request_throughput": 5.0, "pd": "absent"}), tpot, "prefill", 0},
		{"steps of several tokens", with(prompts, result.Row{"request_throughput": 5.0, "spec_accept_length": 3.0}), tpot, "unknown", 0},
		{"steps of several tokens, all turned down", with(prompts, result.Row{"request_throughput": 5.0, "spec_accept_length": 1.0}), tpot, "prefill", 0},
		{"a long way to several servers", way, ttft, "link", 2},
		{"a long way, and a server too slow by itself", with(way, result.Row{"p95_server_ttft_ms": 210.0, "p50_rtt_ms": 250.0}), ttft, "unknown", 0},
		{"packets lost, and a server too slow by itself", with(lost, result.Row{"p95_server_ttft_ms": 190.0}), "p95_ttft_ms < 150", "unknown", 0},
		{"tokens before the first of the answer", with(queued, way), "p95_ttfo_ms < 200", "unknown", 0},
		{"requests that failed", with(queued, result.Row{"preemptions": int64(300), "max_kv_cache_usage": 0.95}), "error_rate < 0.01", "unknown", 0},
		{"two parts by two limits", with(decoding, way), ttft + "; " + tpot, "unknown", 0},
	} {
		row := result.Row{"valid": true}
		maps.Copy(row, c.row)
		got := LimitOf([]result.Row{row}, partsOf(t, c.missed), max(1, c.servers))
		if got.By != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got.By, got.Says, c.want)
		}
		if (got.By == UnknownLimit) != (len(got.Says) == 0) {
			t.Errorf("%s: %s by %v", c.name, got.By, got.Says)
		}
	}
}

// partsOf returns the parts of an objective that was missed.
func partsOf(t *testing.T, text string) (all []result.SLOPart) {
	t.Helper()
	for expr := range strings.SplitSeq(text, "; ") {
		_, number, _ := strings.Cut(expr, " < ")
		limit, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, result.SLOPart{Expr: expr, Limit: limit})
	}
	return all
}

// A rate and a time make one figure in words.
func TestLimitOf_says(t *testing.T) {
	t.Parallel()
	got := LimitOf([]result.Row{{
		"mean_server_queue_ms": 400.0, "mean_server_prefill_ms": 100.0, "mean_server_ttft_ms": 500.0, "mean_server_tpot_ms": 20.0, "request_throughput": 9.0,
	}}, partsOf(t, "p95_ttft_ms < 200"), 1)
	if text := strings.Join(got.Says, ", "); text != "mean_server_queue_ms 400 of mean_server_ttft_ms 500, mean_server_prefill_ms 100 at request_throughput 9, mean_server_prefill_ms 100 of mean_server_tpot_ms 20" {
		t.Error(text)
	}
}

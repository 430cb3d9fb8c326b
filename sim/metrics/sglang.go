package metrics

import (
	"fmt"
	"io"
	"math"

	"sweep.dev/sweep/sim/live"
)

// SGLangBounds returns the buckets of SGLang
// (https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/observability/metrics_collector.py).
func SGLangBounds() live.Bounds {
	return live.Bounds{
		TTFT:    []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400},
		Gap:     []float64{0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8},
		E2E:     []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400},
		Queue:   []float64{0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000},
		Phase:   geometric(0.001, 1.62, 30),
		Prefill: geometric(0.001, 1.62, 30),
		Tokens:  []float64{100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12000, 15000, 20000, 22000, 25000, 30000, 35000, 40000, 66000, 99000, 132000, 300000, 600000, 900000, 1100000},
	}
}

// geometric returns n bounds of which each is the one before times factor.
func geometric(first, factor float64, n int) []float64 {
	b := make([]float64, n)
	for i := range b {
		b[i] = first * math.Pow(factor, float64(i))
	}
	return b
}

// SGLang writes the names of SGLang 0.5.17 and later. Everything comes from a
// registry of several processes; gauges of the scheduler are not there before
// the first request, and tokens count when their request has ended, but for
// realtime_tokens.
func SGLang(w io.Writer, s *Snapshot) {
	scheduler := fmt.Sprintf(`engine_type="unified",model_name=%s,moe_ep_rank="0",pp_rank="0",tp_rank="0"`, quote(s.Model))
	e := &exposition{w: w, several: true, labels: scheduler}
	e.gauge("sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", float64(s.Config.KVTokens()))
	e.gauge("sglang:page_size", "KV cache page size in tokens.", 1)
	e.gauge("sglang:num_pages", "Number of KV cache pages.", float64(s.Config.KVTokens()))
	e.gauge("sglang:context_len", "Maximum context length.", float64(s.Config.MaxModelLen))
	e.gauge("sglang:weight_memory_usage_gb", "Memory used by model weights in GB.", float64(s.Config.WeightBytes)/(1<<30))
	e.gauge("sglang:kv_cache_memory_usage_gb", "Memory used by the KV cache pools in GB.", float64(s.Config.KVBytes)/(1<<30))
	if s.Steps == 0 {
		return
	}
	used := math.Round(s.KVUsage * float64(s.Config.KVTokens()))
	usage := math.Round(100*s.KVUsage) / 100
	e.gauge("sglang:num_running_reqs", "The number of running requests.", float64(s.Running))
	e.gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.", float64(s.Waiting))
	e.gauge("sglang:num_grammar_queue_reqs", "The number of requests in the grammar waiting queue.", 0)
	e.gauge("sglang:gen_throughput", "The generation throughput (token/s).", s.rate())
	e.gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", ratio(float64(s.PrefixHits), float64(s.PrefixQueries)))
	e.gauge("sglang:token_usage", "The token usage.", usage)
	e.gauge("sglang:full_token_usage", "The token usage for full attention layers.", usage)
	e.gauge("sglang:swa_token_usage", "The token usage for SWA layers.", 0)
	e.gauge("sglang:mamba_usage", "The token usage for Mamba layers.", 0)
	e.gauge("sglang:num_used_tokens", "The number of used tokens.", used)
	e.gauge("sglang:kv_available_tokens", "Number of free token slots in the KV cache pool.", float64(s.Config.KVTokens())-used)
	e.gauge("sglang:kv_used_tokens", "Number of actively used token slots in the KV cache pool.", used)
	e.gauge("sglang:spec_accept_length", "Mean acceptance length of speculative decoding (accepted drafts + bonus token per forward).", 0)
	e.gauge("sglang:spec_accept_rate", "Speculative acceptance rate (`accepted drafts / proposed drafts` in batch).", 0)
	// The client adds the process to gauges without a mode of their own.
	e.family("sglang:num_retracted_reqs", "gauge", "The number of retracted requests.")
	e.series("sglang:num_retracted_reqs", `pid="1"`, 0)
	e.family("sglang:num_paused_reqs", "gauge", "The number of paused requests by async weight sync.")
	e.series("sglang:num_paused_reqs", `pid="1"`, 0)
	e.counter("sglang:num_retracted_requests_total", "Total number of retracted requests.", float64(s.Stats.Preemptions))
	e.gauge("sglang:num_prefill_bootstrap_queue_reqs", "The number of requests in the prefill bootstrap queue.", 0)
	e.gauge("sglang:num_prefill_inflight_queue_reqs", "The number of requests in the prefill inflight queue.", 0)
	e.gauge("sglang:num_decode_prealloc_queue_reqs", "The number of requests in the decode prealloc queue.", 0)
	e.gauge("sglang:num_decode_transfer_queue_reqs", "The number of requests in the decode transfer queue.", 0)
	e.gauge("sglang:utilization", "The utilization.", 0)
	e.gauge("sglang:is_cuda_graph", "Whether the batch is using CUDA graph.", 1)
	e.histogram("sglang:queue_time_seconds", "Histogram of queueing time in seconds.", s.Counts.Queue)
	e.family("sglang:realtime_tokens_total", "counter", "Total number of tokens processed (updated on each log interval). mode: prefill_compute, prefill_cache, decode.")
	e.series("sglang:realtime_tokens_total", `mode="prefill_compute"`, float64(s.PromptTokens-s.PrefixHits))
	e.series("sglang:realtime_tokens_total", `mode="prefill_cache"`, float64(s.PrefixHits))
	e.series("sglang:realtime_tokens_total", `mode="decode"`, float64(s.GenerationTokens))
	// One family of all stages: the second histogram adds series alone.
	e.histogram("sglang:per_stage_req_latency_seconds", "The latency of each stage of requests.", s.Counts.Prefill, `stage="prefill_forward"`)
	e.forms("sglang:per_stage_req_latency_seconds", s.Counts.Decode, `stage="decode_forward"`)

	n := s.finished()
	if n == 0 && s.Counts.TTFT.Total() == 0 {
		return
	}
	t := &exposition{w: w, several: true, labels: `model_name=` + quote(s.Model)}
	const streaming = `is_streaming="true"`
	total := func(name, help string, v float64) {
		t.family(name, "counter", help)
		t.series(name, streaming, v)
	}
	total("sglang:prompt_tokens_total", "Number of prefill tokens processed.", s.Counts.Prompt.Sum)
	total("sglang:generation_tokens_total", "Number of generation tokens processed.", s.Counts.Generation.Sum)
	if s.Counts.Cached > 0 {
		t.family("sglang:cached_tokens_total", "counter", "Number of cached prompt tokens by source (device/host/storage).")
		t.series("sglang:cached_tokens_total", `cache_source="device"`, float64(s.Counts.Cached))
	}
	total("sglang:num_requests_total", "Number of requests processed.", float64(n))
	if s.Counts.Finished["abort"] > 0 {
		t.counter("sglang:num_aborted_requests_total", "Number of requests aborted.", float64(s.Counts.Finished["abort"]))
	}
	t.histogram("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.Counts.TTFT, streaming)
	t.histogram("sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", s.Counts.Gap)
	t.histogram("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", s.Counts.E2E, streaming)
	t.histogram("sglang:prompt_tokens_histogram", "Histogram of prompt token length.", s.Counts.Prompt)
	t.histogram("sglang:generation_tokens_histogram", "Histogram of generation token length.", s.Counts.Generation)
}

// SGLang04 writes the names of SGLang 0.4.0 to 0.4.5, which has no label but
// the model's name.
func SGLang04(w io.Writer, s *Snapshot) {
	if s.Steps == 0 {
		return
	}
	e := &exposition{w: w, several: true, labels: `model_name=` + quote(s.Model)}
	e.counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.", s.Counts.Prompt.Sum)
	e.counter("sglang:generation_tokens_total", "Number of generation tokens processed.", s.Counts.Generation.Sum)
	e.gauge("sglang:num_running_reqs", "The number of running requests", float64(s.Running))
	e.gauge("sglang:num_used_tokens", "The number of used tokens", math.Round(s.KVUsage*float64(s.Config.KVTokens())))
	e.gauge("sglang:token_usage", "The token usage", math.Round(100*s.KVUsage)/100)
	e.gauge("sglang:gen_throughput", "The generate throughput (token/s)", s.rate())
	e.gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue", float64(s.Waiting))
	e.gauge("sglang:cache_hit_rate", "The cache hit rate", ratio(float64(s.PrefixHits), float64(s.PrefixQueries)))
	e.counter("sglang:num_requests_total", "Number of requests processed.", float64(s.finished()))
	e.histogram("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.Counts.TTFT)
	e.histogram("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", s.Counts.E2E)
	e.histogram("sglang:time_per_output_token_seconds", "Histogram of time per output token in seconds.", s.Counts.Gap)
}

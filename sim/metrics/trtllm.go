package metrics

import (
	"fmt"
	"io"
	"math"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
)

// TRTLLMBounds returns the buckets of TensorRT-LLM, which has those of vLLM but for
// the prefill
// (https://github.com/NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/metrics/collector.py).
func TRTLLMBounds() live.Bounds {
	return live.Bounds{Prefill: []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560}}
}

// TRTLLM writes the names that trtllm-serve has at /prometheus/metrics since
// the spring of 2026.
func TRTLLM(w io.Writer, s *Snapshot) {
	e := &exposition{w: w, several: true, labels: `engine_type="trtllm",model_name=` + quote(s.Model)}
	e.requests("trtllm_", "finished_reason", s)
	if s.finished() > 0 {
		e.histogram("trtllm_request_prefill_time_seconds", "Histogram of prefill (context) phase duration in seconds (first_token_time - first_scheduled_time).", s.Counts.Prefill)
		e.histogram("trtllm_request_decode_time_seconds", "Histogram of decode (generation) phase duration in seconds (last_token_time - first_token_time).", s.Counts.Decode)
		e.histogram("trtllm_request_inference_time_seconds", "Histogram of total inference duration in seconds (last_token_time - first_scheduled_time).", s.Counts.Inference)
		e.counter("trtllm_prompt_tokens_total", "Cumulative number of prompt (input) tokens processed.", s.Counts.Prompt.Sum)
		e.counter("trtllm_generation_tokens_total", "Cumulative number of generation (output) tokens produced.", s.Counts.Generation.Sum)
		e.counter("trtllm_prompt_cached_tokens_total", "Process-lifetime total prompt tokens served from KV cache. Resets only when the serving process restarts, not when the KV cache is flushed or evicted.", float64(s.Counts.Cached))
	}
	if s.Steps == 0 {
		return
	}
	used := math.Round(s.KVUsage * float64(s.Config.Blocks))
	reused := float64(s.PrefixHits / core.BlockSize)
	missed := float64((s.PrefixQueries - s.PrefixHits + core.BlockSize - 1) / core.BlockSize)
	gauge := func(name, help string, v float64) {
		e.family("trtllm_"+name, "gauge", help)
		e.series("trtllm_"+name, `pid="1"`, v)
	}
	gauge("kv_cache_hit_rate", "KV cache hit rate", ratio(reused, reused+missed))
	e.counter("trtllm_kv_cache_reused_blocks_total", "Cumulative number of KV cache blocks reused (cache hits)", reused)
	e.counter("trtllm_kv_cache_missed_blocks_total", "Cumulative number of KV cache blocks missed (cache misses)", missed)
	gauge("kv_cache_utilization", "KV cache utilization", s.KVUsage)
	gauge("num_requests_running", "Number of active requests", float64(s.Running))
	gauge("num_requests_waiting", "Number of queued requests", float64(s.Waiting))
	e.counter("trtllm_num_requests_completed_total", "Total number of completed requests across iterations", float64(s.finished()))
	gauge("max_num_active_requests", "Maximum number of active requests", float64(s.Config.MaxSeqs))
	gauge("iteration_latency_seconds", "Iteration latency in seconds", ratio(s.Busy, float64(s.Steps)))
	gauge("gpu_memory_usage_bytes", "GPU memory usage in bytes", float64(s.Config.UsedBytes()))
	gauge("max_batch_size_static", "Static maximum batch size", float64(s.Config.MaxSeqs))
	gauge("max_batch_size_runtime", "Runtime maximum batch size", float64(s.Config.MaxSeqs))
	gauge("max_num_tokens_runtime", "Runtime maximum number of tokens", float64(s.Config.MaxBatchedTokens))
	gauge("kv_cache_max_blocks", "Maximum number of KV cache blocks", float64(s.Config.Blocks))
	gauge("kv_cache_free_blocks", "Number of free KV cache blocks", float64(s.Config.Blocks)-used)
	gauge("kv_cache_used_blocks", "Number of used KV cache blocks", used)
	gauge("kv_cache_tokens_per_block", "Number of tokens per KV cache block", core.BlockSize)
	gauge("num_paused_requests", "Number of paused requests", 0)
	gauge("num_scheduled_requests", "Number of scheduled requests", float64(s.Running))
	e.counter("trtllm_spec_decode_num_draft_tokens_total", "Total number of draft tokens in speculative decoding", 0)
	e.counter("trtllm_spec_decode_num_accepted_tokens_total", "Total number of accepted tokens in speculative decoding", 0)
	e.family("trtllm_kv_cache_config_info", "gauge", "KV cache configuration info")
	e.series("trtllm_kv_cache_config_info", fmt.Sprintf(`page_size="%d",enable_block_reuse="%s"`, core.BlockSize, python(s.Config.PrefixCaching)), 1)
}

// TRTLLM10 writes the five names of 2025, without a prefix and with labels that
// TensorRT-LLM had not filled in.
func TRTLLM10(w io.Writer, s *Snapshot) {
	e := &exposition{w: w, several: true, labels: `engine_type="undefined",model_name="undefined"`}
	e.requests("", "finish_reason", s)
}

// requests writes the families that both releases have, once a request has ended.
func (e *exposition) requests(prefix, reason string, s *Snapshot) {
	if s.finished() == 0 {
		return
	}
	e.family(prefix+"request_success_total", "counter", "Count of successfully processed requests.")
	for _, r := range []string{"stop", "length"} {
		if n := s.Counts.Finished[r]; n > 0 {
			e.series(prefix+"request_success_total", reason+`="`+r+`"`, float64(n))
		}
	}
	e.histogram(prefix+"e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", s.Counts.E2E)
	e.histogram(prefix+"time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.Counts.TTFT)
	e.histogram(prefix+"time_per_output_token_seconds", "Histogram of time per output token in seconds.", s.Counts.TPOT)
	e.histogram(prefix+"request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.Counts.Queue)
}

// TRTLLMIterations returns the statistics of single steps, as JSON has them
// (https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/trtllm-serve.html#metrics-endpoint).
func TRTLLMIterations(c *core.Config, steps []live.Iteration) []any {
	type object = map[string]any
	list := []any{}
	for _, it := range steps {
		used := int(math.Round(it.KVUsage * float64(c.Blocks)))
		reused, missed := it.PrefixHits/core.BlockSize, (it.PrefixQueries-it.PrefixHits)/core.BlockSize
		list = append(list, object{
			"iter": it.Steps, "iterLatencyMS": float64(it.Took.Microseconds()) / 1e3,
			"numActiveRequests": it.Running, "numQueuedRequests": it.Waiting, "maxNumActiveRequests": c.MaxSeqs, "gpuMemUsage": c.UsedBytes(),
			"kvCacheStats": object{
				"maxNumBlocks": c.Blocks, "freeNumBlocks": c.Blocks - used, "usedNumBlocks": used, "tokensPerBlock": core.BlockSize,
				"reusedBlocks": reused, "missedBlocks": missed, "cacheHitRate": ratio(float64(reused), float64(reused+missed)),
			},
			"inflightBatchingStats": object{
				"numScheduledRequests": it.Sequences, "numContextRequests": it.Sequences - it.Decode, "numGenRequests": it.Decode,
				"numPausedRequests": 0, "numCtxTokens": it.Prefill, "microBatchId": 0,
			},
		})
	}
	return list
}

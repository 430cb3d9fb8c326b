package metrics

import (
	"fmt"
	"io"
	"strconv"

	"sweep.dev/sweep/sim/core"
)

// VLLM writes the names of vLLM since 0.12.
func VLLM(w io.Writer, s *Snapshot) {
	process(w, s)
	traffic(w, s)
	if s.Quiet {
		return
	}
	cfg := &s.Config
	e := &exposition{w: w, labels: `engine="0",model_name=` + quote(s.Model)}
	e.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(s.Running))
	e.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(s.Waiting))
	e.family("vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.")
	e.series("vllm:num_requests_waiting_by_reason", `reason="capacity"`, float64(s.Waiting))
	e.series("vllm:num_requests_waiting_by_reason", `reason="deferred"`, 0)
	e.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", s.KVUsage)
	e.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", float64(s.PrefixQueries))
	e.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", float64(s.PrefixHits))
	e.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", float64(s.Stats.Preemptions))
	e.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", float64(s.PromptTokens))
	e.family("vllm:prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.")
	e.series("vllm:prompt_tokens_by_source_total", `source="local_compute"`, float64(max(0, s.PromptTokens-s.PrefixHits-s.Counts.Received)))
	e.series("vllm:prompt_tokens_by_source_total", `source="local_cache_hit"`, float64(s.PrefixHits))
	e.series("vllm:prompt_tokens_by_source_total", `source="external_kv_transfer"`, float64(s.Counts.Received))
	e.counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).", float64(s.PrefixHits))
	e.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", float64(s.GenerationTokens))
	e.family("vllm:request_success_total", "counter", "Count of successfully processed requests.")
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		e.series("vllm:request_success_total", `finished_reason="`+reason+`"`, float64(s.Counts.Finished[reason]))
	}
	e.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", s.Counts.Prompt)
	e.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", s.Counts.Generation)
	e.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", s.Counts.Iteration)
	e.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", s.Counts.MaxTokens)
	e.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.Counts.TTFT)
	e.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", s.Counts.Gap)
	e.histogram("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", s.Counts.TPOT)
	e.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", s.Counts.E2E)
	e.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.Counts.Queue)
	e.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", s.Counts.Inference)
	e.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", s.Counts.Prefill)
	e.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", s.Counts.Decode)
	e.histogram("vllm:request_num_preemptions", "Histogram of the number of times a request was preempted.", s.Counts.Preemptions)
	e.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	info := &exposition{w: w}
	info.series("vllm:cache_config_info", fmt.Sprintf(
		`block_size="%d",cache_dtype=%s,enable_prefix_caching="%s",engine="0",gpu_memory_utilization="%v",kv_cache_max_concurrency="%.2f",kv_cache_memory_bytes="%d",kv_cache_size_tokens="%d",num_cpu_blocks="None",num_gpu_blocks="%d",num_gpu_blocks_override="%s",prefix_caching_hash_algo="sha256"`,
		core.BlockSize, quote(s.KVDType), python(cfg.PrefixCaching), cfg.MemoryUtilization,
		float64(cfg.KVTokens())/float64(cfg.MaxModelLen), cfg.KVBytes, cfg.KVTokens(), cfg.Blocks, orNone(s.BlocksOverride)), 1)
}

// traffic writes what the instrumented HTTP server tells.
func traffic(w io.Writer, s *Snapshot) {
	e := &exposition{w: w}
	if len(s.HTTP) == 0 {
		return
	}
	e.family("http_requests_total", "counter", "Total number of requests by method, status and handler.")
	for _, t := range s.HTTP {
		for digit, n := range t.Requests {
			if n > 0 {
				e.series("http_requests_total", fmt.Sprintf(`handler=%s,method="POST",status="%dxx"`, quote(t.Path), digit), float64(n))
			}
		}
	}
	e.family("http_request_size_bytes", "summary", "Content length of incoming requests by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. ")
	for _, t := range s.HTTP {
		n := 0
		for _, k := range t.Requests {
			n += k
		}
		e.series("http_request_size_bytes_count", "handler="+quote(t.Path), float64(n))
		e.series("http_request_size_bytes_sum", "handler="+quote(t.Path), float64(t.Bytes))
	}
}

// process writes what the Python client exports for a single process.
func process(w io.Writer, s *Snapshot) {
	e := &exposition{w: w}
	e.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(s.Started.UnixMilli())/1e3)
	e.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", s.CPU)
}

// VLLM08 writes the names of vLLM 0.8: a gauge of the GPU's cache, a prefix
// cache that counts blocks, and the gap between tokens under the name that the
// time per output token has today.
func VLLM08(w io.Writer, s *Snapshot) {
	process(w, s)
	traffic(w, s)
	if s.Quiet {
		return
	}
	e := &exposition{w: w, labels: `engine="0",model_name=` + quote(s.Model)}
	e.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(s.Running))
	e.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(s.Waiting))
	e.gauge("vllm:gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", s.KVUsage)
	e.counter("vllm:gpu_prefix_cache_queries_total", "GPU prefix cache queries, in terms of number of queried blocks.", float64(s.PrefixQueries/core.BlockSize))
	e.counter("vllm:gpu_prefix_cache_hits_total", "GPU prefix cache hits, in terms of number of cached blocks.", float64(s.PrefixHits/core.BlockSize))
	e.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", float64(s.Stats.Preemptions))
	e.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", float64(s.PromptTokens))
	e.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", float64(s.GenerationTokens))
	e.family("vllm:request_success_total", "counter", "Count of successfully processed requests.")
	for _, reason := range []string{"stop", "length", "abort"} {
		e.series("vllm:request_success_total", `finished_reason="`+reason+`"`, float64(s.Counts.Finished[reason]))
	}
	e.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", s.Counts.Prompt)
	e.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", s.Counts.Generation)
	e.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", s.Counts.Iteration)
	e.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", s.Counts.MaxTokens)
	e.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.Counts.TTFT)
	e.histogram("vllm:time_per_output_token_seconds", "Histogram of time per output token in seconds.", s.Counts.Gap)
	e.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", s.Counts.E2E)
	e.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.Counts.Queue)
	e.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", s.Counts.Inference)
	e.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", s.Counts.Prefill)
	e.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", s.Counts.Decode)
	e.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	(&exposition{w: w}).series("vllm:cache_config_info", fmt.Sprintf(
		`block_size="%d",cache_dtype=%s,enable_prefix_caching="%s",gpu_memory_utilization="%v",num_cpu_blocks="None",num_gpu_blocks="%d",num_gpu_blocks_override="%s"`,
		core.BlockSize, quote(s.KVDType), python(s.Config.PrefixCaching), s.Config.MemoryUtilization, s.Config.Blocks, orNone(s.BlocksOverride)), 1)
}

func python(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func orNone(n int) string {
	if n == 0 {
		return "None"
	}
	return strconv.Itoa(n)
}

package server

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
)

// exposition writes the text format 0.0.4.
type exposition struct {
	w      io.Writer
	labels string // of every series, without braces
}

func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(e.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (e *exposition) series(name, more string, v float64) {
	labels := e.labels
	if more != "" {
		if labels != "" {
			labels += ","
		}
		labels += more
	}
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(e.w, "%s%s %s\n", name, labels, number(v))
}

func (e *exposition) gauge(name, help string, v float64) {
	e.family(name, "gauge", help)
	e.series(name, "", v)
}

func (e *exposition) counter(name, help string, v float64) {
	e.family(name, "counter", help)
	e.series(name, "", v)
}

func (e *exposition) histogram(name, help string, h live.Histogram) {
	e.family(name, "histogram", help)
	var n uint64
	for i, c := range h.Counts {
		n += c
		le := math.Inf(1)
		if i < len(h.Bounds) {
			le = h.Bounds[i]
		}
		e.series(name+"_bucket", `le="`+number(le)+`"`, float64(n))
	}
	e.series(name+"_count", "", float64(n))
	e.series(name+"_sum", "", h.Sum)
}

// number prints a float as Python does: 1.0, not 1.
func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eE") {
		s += ".0"
	}
	return s
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// writeMetrics writes everything in vLLM's names, and what only a simulator has
// in names of its own.
func (s *Server) writeMetrics(w io.Writer) {
	stats, m, cfg := s.engine.Stats(), s.engine.Meter.Counts(), s.cfg.Core

	plain := &exposition{w: w}
	plain.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(s.engine.Started.UnixMilli())/1e3)
	plain.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpuSeconds())

	if !s.cfg.DisableLogStats {
		e := &exposition{w: w, labels: `engine="0",model_name=` + quote(s.cfg.Served[0])}
		e.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(stats.Running))
		e.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(stats.Waiting))
		e.family("vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.")
		e.series("vllm:num_requests_waiting_by_reason", `reason="capacity"`, float64(stats.Waiting))
		e.series("vllm:num_requests_waiting_by_reason", `reason="deferred"`, 0)
		e.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", stats.KVUsage)
		e.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", float64(stats.PrefixQueries))
		e.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", float64(stats.PrefixHits))
		e.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", float64(stats.Preemptions))
		e.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", float64(stats.PromptTokens))
		e.family("vllm:prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.")
		e.series("vllm:prompt_tokens_by_source_total", `source="local_compute"`, float64(stats.PromptTokens-stats.PrefixHits))
		e.series("vllm:prompt_tokens_by_source_total", `source="local_cache_hit"`, float64(stats.PrefixHits))
		e.counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).", float64(stats.PrefixHits))
		e.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", float64(stats.GenerationTokens))
		e.family("vllm:request_success_total", "counter", "Count of successfully processed requests.")
		for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
			e.series("vllm:request_success_total", `finished_reason="`+reason+`"`, float64(m.Finished[reason]))
		}
		e.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", m.Prompt)
		e.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", m.Generation)
		e.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", m.Iteration)
		e.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", m.MaxTokens)
		e.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", m.TTFT)
		e.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", m.Gap)
		e.histogram("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", m.TPOT)
		e.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", m.E2E)
		e.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", m.Queue)
		e.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", m.Inference)
		e.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", m.Prefill)
		e.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", m.Decode)
		e.histogram("vllm:request_num_preemptions", "Histogram of the number of times a request was preempted.", m.Preemptions)
		e.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
		info := &exposition{w: w}
		info.series("vllm:cache_config_info", fmt.Sprintf(
			`block_size="%d",cache_dtype=%s,enable_prefix_caching="%s",engine="0",gpu_memory_utilization="%v",kv_cache_max_concurrency="%.2f",kv_cache_memory_bytes="%d",kv_cache_size_tokens="%d",num_cpu_blocks="None",num_gpu_blocks="%d",num_gpu_blocks_override="%s",prefix_caching_hash_algo="sha256"`,
			core.BlockSize, quote(s.cfg.KVDType), python(cfg.PrefixCaching), cfg.MemoryUtilization,
			float64(cfg.KVTokens())/float64(cfg.MaxModelLen), cfg.KVBytes, cfg.KVTokens(), cfg.Blocks, orNone(s.cfg.BlocksOverride)), 1)
	}

	plain.family("sim_info", "gauge", "What is simulated.")
	plain.series("sim_info", fmt.Sprintf(`gpu=%s,gpus="%d",model=%s,dtype=%s,seed="%d",time_scale="%v"`,
		quote(cfg.GPU.Name), cfg.GPUs, quote(cfg.Model.Name), quote(cfg.DType), cfg.Seed, s.cfg.TimeScale), 1)
	plain.histogram("sim_timer_error_seconds", "How late the pacer ended the engine's steps.", m.Late)
	plain.gauge("sim_timer_error_max_seconds", "The largest of them.", m.Latest)
	plain.counter("sim_clock_resyncs_total", "How often the simulated clock was set anew after a pause of this process.", float64(m.Resyncs))
	plain.counter("sim_steps_total", "Steps of the engine.", float64(stats.Steps))
	plain.counter("sim_busy_seconds_total", "Real time in steps.", s.engine.Unscale(stats.Busy).Seconds())
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

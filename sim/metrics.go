package sim

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/sim/core"
)

// Bucket bounds of vLLM 0.32.
var (
	latencyBounds   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	ttftBounds      = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	gapBounds       = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	preemptBounds   = []float64{1, 2, 3, 4, 5, 10, 20}
	timerBounds     = []float64{1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.1}
)

// tokenBounds are 1, 2, 5, 10, ... up to the longest sequence.
func tokenBounds(limit int) []float64 {
	var b []float64
	for e := 1.0; ; e *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if m*e > float64(limit) {
				return b
			}
			b = append(b, m*e)
		}
	}
}

// A histogram counts values by bucket; counts[len(bounds)] is beyond the last.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v) // a bound belongs to its own bucket
	h.counts[i]++
	h.sum += v
}

func (h *histogram) total() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// metrics is what /metrics shows beside the core's own counters. Times are
// real ones, as a client sees them.
type metrics struct {
	mu       sync.Mutex
	finished map[string]int // by reason

	ttft, gap, tpot, e2e, queue, inference, prefill, decode *histogram
	prompt, generation, limit, iteration, preemptions       *histogram

	lateness *histogram
	latest   float64 // the worst timer error
	resyncs  int
}

func newMetrics(maxModelLen int) *metrics {
	tokens := tokenBounds(maxModelLen)
	return &metrics{
		finished: map[string]int{},
		ttft:     newHistogram(ttftBounds), gap: newHistogram(gapBounds), tpot: newHistogram(gapBounds),
		e2e: newHistogram(latencyBounds), queue: newHistogram(latencyBounds), inference: newHistogram(latencyBounds),
		prefill: newHistogram(latencyBounds), decode: newHistogram(latencyBounds),
		prompt: newHistogram(tokens), generation: newHistogram(tokens), limit: newHistogram(tokens),
		iteration: newHistogram(iterationBounds), preemptions: newHistogram(preemptBounds),
		lateness: newHistogram(timerBounds),
	}
}

func (m *metrics) finish(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished[reason]++
}

func (m *metrics) timer(late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lateness.observe(late.Seconds())
	m.latest = max(m.latest, late.Seconds())
}

func (m *metrics) resync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resyncs++
}

// accept counts what a request asked for.
func (m *metrics) accept(maxTokens int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit.observe(float64(maxTokens))
}

// step counts one step's tokens. real turns virtual durations into real ones.
func (m *metrics) step(s core.Step, outs []core.Output, real func(time.Duration) time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.iteration.observe(float64(s.Tokens))
	for _, o := range outs {
		if o.N == 1 {
			m.ttft.observe(real(o.First - o.Arrived).Seconds())
		} else {
			m.gap.observe(real(o.Gap).Seconds())
		}
		if o.Finish == core.Running {
			continue
		}
		m.finished[string(o.Finish)]++
		m.e2e.observe(real(o.Last - o.Arrived).Seconds())
		m.queue.observe(real(o.Scheduled - o.Arrived).Seconds())
		m.prefill.observe(real(o.First - o.Scheduled).Seconds())
		m.decode.observe(real(o.Last - o.First).Seconds())
		m.inference.observe(real(o.Last - o.Scheduled).Seconds())
		m.generation.observe(float64(o.N))
		m.prompt.observe(float64(o.Prompt))
		m.preemptions.observe(float64(o.Preemptions))
		if o.N > 1 {
			m.tpot.observe(real(o.Last-o.First).Seconds() / float64(o.N-1))
		} else {
			m.tpot.observe(0)
		}
	}
}

// timerSummary is the timer's error for the log.
func (m *metrics) timerSummary() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.lateness.total()
	if n == 0 {
		return "no step yet"
	}
	return fmt.Sprintf("mean %.0f us, worst %.0f us over %d steps, %d resyncs", 1e6*m.lateness.sum/float64(n), 1e6*m.latest, n, m.resyncs)
}

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

func (e *exposition) histogram(name, help string, h *histogram) {
	e.family(name, "histogram", help)
	var n uint64
	for i, c := range h.counts {
		n += c
		le := math.Inf(1)
		if i < len(h.bounds) {
			le = h.bounds[i]
		}
		e.series(name+"_bucket", `le="`+number(le)+`"`, float64(n))
	}
	e.series(name+"_count", "", float64(n))
	e.series(name+"_sum", "", h.sum)
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
func (s *server) writeMetrics(w io.Writer) {
	stats := s.live.snapshot()
	m, cfg := s.live.metrics, s.cfg
	m.mu.Lock()
	defer m.mu.Unlock()

	plain := &exposition{w: w}
	plain.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(s.live.started.UnixMilli())/1e3)
	plain.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpuSeconds())

	if !s.flags.disableLogStats {
		e := &exposition{w: w, labels: `engine="0",model_name=` + quote(s.flags.served[0])}
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
			e.series("vllm:request_success_total", `finished_reason="`+reason+`"`, float64(m.finished[reason]))
		}
		e.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", m.prompt)
		e.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", m.generation)
		e.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", m.iteration)
		e.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", m.limit)
		e.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", m.ttft)
		e.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", m.gap)
		e.histogram("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", m.tpot)
		e.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", m.e2e)
		e.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", m.queue)
		e.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", m.inference)
		e.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", m.prefill)
		e.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", m.decode)
		e.histogram("vllm:request_num_preemptions", "Histogram of the number of times a request was preempted.", m.preemptions)
		e.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
		info := &exposition{w: w}
		info.series("vllm:cache_config_info", fmt.Sprintf(
			`block_size="%d",cache_dtype=%s,enable_prefix_caching="%s",engine="0",gpu_memory_utilization="%v",kv_cache_max_concurrency="%.2f",kv_cache_memory_bytes="%d",kv_cache_size_tokens="%d",num_cpu_blocks="None",num_gpu_blocks="%d",num_gpu_blocks_override="%s",prefix_caching_hash_algo="sha256"`,
			core.BlockSize, quote(s.flags.kvDType), python(cfg.PrefixCaching), cfg.MemoryUtilization,
			float64(cfg.KVTokens())/float64(cfg.MaxModelLen), cfg.KVBytes, cfg.KVTokens(), cfg.Blocks, orNone(s.flags.blocks)), 1)
	}

	plain.family("sim_info", "gauge", "What is simulated.")
	plain.series("sim_info", fmt.Sprintf(`gpu=%s,gpus="%d",model=%s,dtype=%s,seed="%d",time_scale="%v"`,
		quote(cfg.GPU.Name), cfg.GPUs, quote(cfg.Model.Name), quote(cfg.DType), cfg.Seed, s.live.scale), 1)
	plain.histogram("sim_timer_error_seconds", "How late the pacer ended the engine's steps.", m.lateness)
	plain.gauge("sim_timer_error_max_seconds", "The largest of them.", m.latest)
	plain.counter("sim_clock_resyncs_total", "How often the simulated clock was set anew after a pause of this process.", float64(m.resyncs))
	plain.counter("sim_steps_total", "Steps of the engine.", float64(stats.Steps))
	plain.counter("sim_busy_seconds_total", "Real time in steps.", s.live.unscale(stats.Busy).Seconds())
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

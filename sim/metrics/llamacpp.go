package metrics

import "io"

// LlamaCpp writes the names of llama-server since 2026, with its six digits.
func LlamaCpp(w io.Writer, s *Snapshot) {
	e := &exposition{w: w, digits: 6}
	e.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed, excluding cached tokens", float64(s.PromptTokens-s.PrefixHits))
	e.counter("llamacpp:prompt_tokens_cached_total", "Number of prompt tokens reused from the cache", float64(s.PrefixHits))
	e.counter("llamacpp:prompt_seconds_total", "Total time spent processing prompts", s.Counts.Prefill.Sum)
	e.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed", float64(s.GenerationTokens))
	e.counter("llamacpp:tokens_predicted_seconds_total", "Total time spent generating tokens", s.Counts.Decode.Sum)
	e.counter("llamacpp:n_decode_total", "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding", float64(s.Steps))
	e.counter("llamacpp:n_tokens_max", "Largest observed sequence length (prompt + generation)", float64(s.Counts.Longest))
	e.counter("llamacpp:spec_decode_num_draft_tokens_total", "Speculative: Total draft tokens generated", 0)
	e.counter("llamacpp:spec_decode_num_accepted_tokens_total", "Speculative: Total draft tokens accepted by the target model", 0)
	e.counter("llamacpp:spec_decode_num_drafts_total", "Speculative: Total speculative decoding verification steps", 0)
	e.rates(s)
	e.gauge("llamacpp:requests_processing", "Number of requests processing", float64(s.Running))
	e.gauge("llamacpp:requests_deferred", "Number of requests deferred", float64(s.Waiting))
	e.gauge("llamacpp:n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", ratio(float64(s.Counts.Sequences), float64(s.Steps)))
}

// LlamaCpp25 writes those of the spring of 2025, which had the cache's usage.
func LlamaCpp25(w io.Writer, s *Snapshot) {
	e := &exposition{w: w, digits: 6}
	e.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", float64(s.PromptTokens-s.PrefixHits))
	e.counter("llamacpp:prompt_seconds_total", "Prompt process time", s.Counts.Prefill.Sum)
	e.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.", float64(s.GenerationTokens))
	e.counter("llamacpp:tokens_predicted_seconds_total", "Predict process time", s.Counts.Decode.Sum)
	e.counter("llamacpp:n_decode_total", "Total number of llama_decode() calls", float64(s.Steps))
	e.counter("llamacpp:n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", ratio(float64(s.Counts.Sequences), float64(s.Steps)))
	e.rates(s)
	e.gauge("llamacpp:kv_cache_usage_ratio", "KV-cache usage. 1 means 100 percent usage.", s.KVUsage)
	e.gauge("llamacpp:kv_cache_tokens", "KV-cache tokens.", s.KVUsage*float64(s.Config.KVTokens()))
	e.gauge("llamacpp:requests_processing", "Number of requests processing.", float64(s.Running))
	e.gauge("llamacpp:requests_deferred", "Number of requests deferred.", float64(s.Waiting))
}

// rates writes the gauges that are means over the time since the last scrape of any
// client.
func (e *exposition) rates(s *Snapshot) {
	last := s.Last
	if last == nil {
		last = &Snapshot{}
	}
	e.gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s",
		ratio(float64(s.PromptTokens-s.PrefixHits-last.PromptTokens+last.PrefixHits), s.Counts.Prefill.Sum-last.Counts.Prefill.Sum))
	e.gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s",
		ratio(float64(s.GenerationTokens-last.GenerationTokens), s.Counts.Decode.Sum-last.Counts.Decode.Sum))
}

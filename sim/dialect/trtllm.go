package dialect

import (
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/metrics"
)

// https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/trtllm-serve.html
const trtllmFlags = `
	tokenizer=
	backend=
	max-batch-size=                      max-num-seqs
	max-num-tokens=                      max-num-batched-tokens
	max-seq-len=                         max-model-len
	max-beam-width=
	tp-size=                             tensor-parallel-size
	pp-size=
	ep-size=
	gpus-per-node=
	free-gpu-memory-fraction,kv-cache-free-gpu-memory-fraction=  gpu-memory-utilization
	kv-cache-dtype=                      kv-cache-dtype
	enable-chunked-prefill               enable-chunked-prefill=true
	num-postprocess-workers=
	trust-remote-code
	reasoning-parser=
	log-level=
	served-model-name=                   served-model-name
	config,extra-llm-api-options=       x-config
`

func trtllm(d *Dialect) {
	d.Flags = flags(trtllmFlags)
	// https://nvidia.github.io/TensorRT-LLM/llm-api/reference.html
	d.Settings = map[string]string{
		"kv_cache_config.enable_block_reuse": "enable-prefix-caching", "kv_cache_config.free_gpu_memory_fraction": "gpu-memory-utilization",
		"kv_cache_config.max_tokens": "x-kv-tokens", "kv_cache_config.dtype": "kv-cache-dtype",
		"enable_iter_perf_stats": "x-iterations", "return_perf_metrics": "x-metrics", "enable_chunked_prefill": "enable-chunked-prefill",
		"max_batch_size": "max-num-seqs", "max_num_tokens": "max-num-batched-tokens", "max_seq_len": "max-model-len",
		"tensor_parallel_size": "tensor-parallel-size",
	}
	d.Usage = Usage{
		Head:    "Usage: trtllm-serve serve [OPTIONS] MODEL\nTry 'trtllm-serve serve --help' for help.\n\n",
		Unknown: "Error: No such option: %s", First: true, Missing: "Error: Option '--%s' requires an argument.", Status: 2,
	}
	d.Start = Start{
		Division: core.OfFree, Share: 0.9,
		Line: func(level Level, text string, now time.Time) string {
			if strings.HasPrefix(text, "[TensorRT-LLM]") || strings.HasPrefix(text, "INFO:") {
				return text
			}
			return fmt.Sprintf("[%s] [TRT-LLM] [%s] %s", now.Format("01/02/2006-15:04:05"), level[:1], text)
		},
		Hello:  func(d *Dialect) []string { return []string{"TensorRT LLM version: " + d.Version()} },
		Loaded: trtllmLoaded, Ready: trtllmReady, Fail: trtllmFail,
		Report: func(p *Progress) string {
			return fmt.Sprintf("num_active_requests = %d, num_queued_requests = %d, %.1f tokens/s", p.Running, p.Waiting, p.OutputRate)
		},
		Taken: "RuntimeError: Failed to bind socket to %s: [Errno 98] Address already in use", Bye: "Shutting down",
	}
	w := trtllmWire{}
	d.API = API{
		Routes: []Route{
			{Pattern: "GET /health", Open: true},
			{Pattern: "GET /health_generate", Do: Generate, Open: true},
			{Pattern: "GET /version", Open: true, Say: func(s *State) any { return object{"version": s.Dialect.Version()} }},
			{Pattern: "GET /metrics", Do: Iterations, Open: true},
			{Pattern: "GET /prometheus/metrics", Do: Metrics, Open: true, If: func(s *Settings) bool { return s.Metrics }},
			{Pattern: "GET /prometheus/metrics/", Do: Metrics, Open: true, If: func(s *Settings) bool { return s.Metrics }},
			{Pattern: "GET /server_info", Say: func(s *State) any { return object{"disaggregated_params": nil} }},
			{Pattern: "GET /v1/models", Do: Models},
			{Pattern: "POST /v1/chat/completions", Do: Chat},
			{Pattern: "POST /v1/completions", Do: Complete},
		},
		NotFound: object{"detail": "Not Found"},
		Card: func(s *State, name string) any {
			return object{"id": name, "object": "model", "created": s.Started.Unix(), "owned_by": "tensorrt_llm"}
		},
		Generated: "Generation health check OK",
		Head:      vllmWire{}.head, First: w.first, Token: w.token, End: w.end, Whole: w.whole,
		Refuse: func(e *Error) (int, any) { return e.Code, flat{"error", e} },
		TooLong: func(prompt, tokens, limit int) *Error {
			return &Error{Type: "BadRequestError", Code: 400, Message: fmt.Sprintf("The sum of prompt length (%d) and max_tokens (%d) should not exceed max_seq_len (%d)", prompt, tokens, limit)}
		},
		Fields: strings.Fields(trtllmFields), AnyModel: true, CachedTokens: true,
		Bounds: func(int) live.Bounds { return metrics.TRTLLMBounds() },
		Expose: metrics.TRTLLM,
		Type:   "text/plain; version=1.0.0; charset=utf-8",
	}
	if d.Old {
		d.API.Expose = metrics.TRTLLM10
	}
}

// trtllmFields are what a request may have; it forbids all others.
// https://github.com/NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/serve/openai_protocol.py
const trtllmFields = `model messages prompt max_tokens max_completion_tokens min_tokens n best_of stream stream_options seed stop
	temperature top_p top_k min_p top_p_min frequency_penalty presence_penalty repetition_penalty length_penalty early_stopping
	ignore_eos stop_token_ids include_stop_str_in_output skip_special_tokens spaces_between_special_tokens add_special_tokens
	add_generation_prompt truncate_prompt_tokens detokenize echo suffix user logprobs top_logprobs prompt_logprobs logit_bias
	return_context_logits return_generation_logits use_beam_search response_format tools tool_choice documents chat_template
	chat_template_kwargs reasoning_effort lora_request disaggregated_params cache_salt prompt_ignore_length guided_decoding`

func trtllmLoaded(s *State) []string {
	c := &s.Core
	total := float64(c.GPU.Memory() - core.DriverReserve)
	return []string{
		fmt.Sprintf("Peak memory during memory usage profiling (torch + non-torch): %.2f GiB, available KV cache memory when calculating max tokens: %.2f GiB, fraction is set %v, kv size is %.0f. device total memory %.2f GiB",
			gib(float64(c.WeightBytes+c.WorkBytes)), gib(float64(c.KVBytes)), c.MemoryUtilization, c.KVBytesPerToken(), gib(total)),
		fmt.Sprintf("[TensorRT-LLM][INFO] Number of tokens per block: %d.", core.BlockSize),
		fmt.Sprintf("[TensorRT-LLM][INFO] [MemUsageChange] Allocated %.2f GiB for max tokens in paged KV cache (%d).", gib(float64(c.KVBytes)), c.KVTokens()),
		fmt.Sprintf("max_seq_len=%d, max_num_requests=%d, max_num_tokens=%d", c.MaxModelLen, c.MaxSeqs, c.MaxBatchedTokens),
	}
}

func trtllmReady(_ *State, url string) []string {
	return []string{"INFO:     Application startup complete.", "INFO:     Uvicorn running on " + url + " (Press CTRL+C to quit)"}
}

func trtllmFail(f *Failure) []string {
	at := f.Now.Format("[01/02/2006-15:04:05] [TRT-LLM] [E] ")
	cause := f.Text
	switch f.Cause {
	case core.NoCache:
		cause = fmt.Sprintf("RuntimeError: Executor creation failed due to insufficient GPU memory.\n\nThe following component could not be created: KV cache\nTotal GPU memory (GiB): %.2f\nFree GPU memory before component creation attempt (GiB): %.2f\n\nPreviously created components and free GPU memory before/after creation (GiB):",
			gib(f.Total), gib(f.Free))
	case core.SmallCache:
		cause = fmt.Sprintf("RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: maxTokensInPagedKvCache (%d) must be large enough to process at least 1 sequence to completion (i.e. must be larger than beam_width (1) * tokensPerBlock (%d) * maxBlocksPerSeq)", f.Tokens, core.BlockSize)
	case core.TooLong:
		cause = strings.ReplaceAll(f.Text, "User-specified max_model_len", "User-specified max_seq_len")
	}
	lines := []string{at + "Failed to initialize executor on rank 0: Traceback (most recent call last):", `  File "tensorrt_llm/executor/worker.py", line 1, in worker_main`}
	lines = append(lines, strings.Split(cause, "\n")...)
	return append(lines, "Traceback (most recent call last):", `  File "tensorrt_llm/commands/serve.py", line 1, in main`, "RuntimeError: Executor worker returned error")
}

// trtllmWire: frames end in a space, the first chunk has the role alone, and
// chunks of text have an empty reasoning. A failure drops the connection.
type trtllmWire struct{}

const trtllmEnd = "} \n\n"

func (w trtllmWire) first(b []byte, r *Reply, t *Token) []byte {
	if !r.Chat {
		return b
	}
	b = add(b, "data: ", r.Head, `{"index":0,"delta":{"role":"assistant"}}]`)
	none := *t
	none.Count = 0
	return w.end1(b, r, &none)
}

// end1 ends a chunk, with the usage so far where it was asked for.
func (w trtllmWire) end1(b []byte, r *Reply, t *Token) []byte {
	if r.Continuous {
		b = w.usage(append(b, `,"usage":`...), r, t)
	}
	return append(b, trtllmEnd...)
}

func (w trtllmWire) token(b []byte, r *Reply, t *Token) []byte {
	b = add(b, "data: ", r.Head)
	if r.Chat {
		b = add(b, `{"index":0,"delta":{"content":"`, t.Text, `","reasoning_content":""}`)
	} else {
		b = add(b, `{"index":0,"text":"`, t.Text)
		b = append(b, '"')
	}
	if t.Finish != core.Running {
		b = finish(append(b, `,"finish_reason":`...), t.Finish)
		if stop, ok := r.stopReason(t.Finish).(string); ok {
			b = append(append(b, `,"stop_reason":`...), quote(stop)...)
		}
	}
	return w.end1(append(b, "}]"...), r, t)
}

func (w trtllmWire) end(b []byte, r *Reply, t *Token) []byte {
	if !r.Usage {
		return b
	}
	b = add(b, "data: ", r.Head)
	b = w.usage(append(b, `],"usage":`...), r, t)
	return append(b, trtllmEnd...)
}

func (w trtllmWire) usage(b []byte, r *Reply, t *Token) []byte {
	b = usage(b, r, t)
	return append(number(b, `,"prompt_tokens_details":{"cached_tokens":`, t.Cached), "}}"...)
}

func (w trtllmWire) whole(r *Reply, t *Token, text string) any {
	choice := object{"index": 0, "logprobs": nil, "finish_reason": t.Finish, "stop_reason": r.stopReason(t.Finish), "disaggregated_params": nil, "avg_decoded_tokens_per_iter": 1.0}
	if r.Chat {
		choice["message"] = object{"role": "assistant", "content": text, "reasoning_content": nil, "reasoning": nil, "tool_calls": []any{}}
	} else {
		choice["text"] = text
	}
	return object{"id": r.ID, "object": r.Object(false), "created": r.Created, "model": r.Model, "choices": []any{choice}, "usage": raw(w.usage(nil, r, t)), "prompt_token_ids": nil}
}

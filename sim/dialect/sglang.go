package dialect

import (
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/metrics"
)

// https://docs.sglang.ai/advanced_features/server_arguments.html
const sglangFlags = `
	model-path=                          model
	tokenizer-path=
	tokenizer-mode=
	context-length=                      max-model-len
	mem-fraction-static=                 gpu-memory-utilization
	max-running-requests=                max-num-seqs
	max-queued-requests=                 x-queue
	max-total-tokens=                    x-kv-tokens
	chunked-prefill-size=                max-num-batched-tokens
	max-prefill-tokens=
	schedule-policy=
	schedule-conservativeness=
	disable-radix-cache                  enable-prefix-caching=false
	tensor-parallel-size,tp-size,tp=     tensor-parallel-size
	data-parallel-size,dp-size,dp=
	random-seed=                         seed
	enable-metrics                       x-metrics=true
	enable-cache-report                  enable-prompt-tokens-details=true
	stream-interval=
	attention-backend=
	sampling-backend=
	cuda-graph-max-bs=
	cuda-graph-max-bs-decode=
	disable-cuda-graph
	disable-overlap-schedule
	enable-torch-compile
	trust-remote-code
	log-level=
	log-requests
	decode-log-interval=
	watchdog-timeout=
	load-format=
	revision=
	download-dir=
	chat-template=
	dtype=                               dtype
	kv-cache-dtype=                      kv-cache-dtype
	served-model-name=                   served-model-name
	api-key=                             api-key
`

func sglang(d *Dialect) {
	d.Port = 30000
	d.Flags = flags(sglangFlags)
	d.Usage = argparse("launch_server.py")
	d.Start = Start{
		Division: core.Static, Share: 0.85, Shrinks: true,
		Line: func(level Level, text string, now time.Time) string {
			if level != Info {
				text = string(level) + " " + text
			}
			return fmt.Sprintf("[%s] %s", now.Format(time.DateTime), text)
		},
		Hello:  func(d *Dialect) []string { return []string{"sglang " + d.Version(), "server_args=ServerArgs(...)"} },
		Loaded: sglangLoaded, Ready: sglangReady, Fail: sglangFail,
		Report: func(p *Progress) string {
			return fmt.Sprintf("Decode batch, #running-req: %d, #token: %.0f, token usage: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: %d",
				p.Running, p.KVUsage*float64(p.MaxTokens), p.KVUsage, p.OutputRate, p.Waiting)
		},
		Taken: "[Errno 98] error while attempting to bind on address ('%s'): address already in use", Bye: "Gracefully exiting... Remaining number of requests 0.",
	}
	info := func(s *State) any {
		return object{"model_path": s.Model, "tokenizer_path": s.Model, "is_generation": true, "preferred_sampling_params": nil, "weight_version": "default", "has_image_understanding": false}
	}
	server := func(s *State) any {
		return object{
			"model_path": s.Model, "served_model_name": s.Served[0], "version": s.Dialect.Version(), "context_length": s.Core.MaxModelLen,
			"mem_fraction_static": s.Core.MemoryUtilization, "max_running_requests": s.Core.MaxSeqs, "chunked_prefill_size": s.Core.MaxBatchedTokens,
			"tp_size": s.Core.GPUs, "disable_radix_cache": !s.Core.PrefixCaching, "enable_metrics": s.Settings.Metrics,
			"max_total_num_tokens": s.Core.KVTokens(), "status": "ready",
			"internal_states": []any{object{"max_total_num_tokens": s.Core.KVTokens()}},
		}
	}
	w := sglangWire{}
	d.API = API{
		Routes: []Route{
			{Pattern: "GET /health", Do: Generate, Open: true},
			{Pattern: "GET /health_generate", Do: Generate, Open: true},
			{Pattern: "GET /get_model_info", Say: info},
			{Pattern: "GET /model_info", Say: info},
			{Pattern: "GET /get_server_info", Say: server},
			{Pattern: "GET /server_info", Say: server},
			{Pattern: "GET /get_load", Say: func(s *State) any {
				return []any{object{"dp_rank": 0, "num_reqs": s.Stats.Running + s.Stats.Waiting, "num_waiting_reqs": s.Stats.Waiting, "num_tokens": int(s.Stats.KVUsage * float64(s.Core.KVTokens()))}}
			}},
			{Pattern: "GET /flush_cache", Do: Flush},
			{Pattern: "POST /flush_cache", Do: Flush},
			{Pattern: "POST /tokenize", Do: Tokenize},
			{Pattern: "POST /v1/tokenize", Do: Tokenize},
			{Pattern: "GET /metrics", Do: Metrics, Open: true, If: func(s *Settings) bool { return s.Metrics }},
			{Pattern: "GET /v1/models", Do: Models},
			{Pattern: "POST /v1/chat/completions", Do: Chat},
			{Pattern: "POST /v1/completions", Do: Complete},
		},
		NotFound: object{"detail": "Not Found"},
		Card: func(s *State, name string) any {
			return object{"id": name, "object": "model", "created": s.Started.Unix(), "owned_by": "sglang", "root": name, "parent": nil, "max_model_len": s.Core.MaxModelLen}
		},
		Count: func(s *State, ids []uint32) any {
			return object{"tokens": ids, "count": len(ids), "max_model_len": s.Core.MaxModelLen}
		},
		Flushed: "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n",
		Busy:    &Error{Message: "Flush cache failed.", Type: "BadRequestError", Code: 400},
		ID:      func(_ bool, request string) string { return request },
		Head:    vllmWire{}.head, First: w.first, Token: w.token, End: w.end, Whole: w.whole,
		Refuse: func(e *Error) (int, any) { return e.Code, flat{"error", e} },
		Break:  func(e *Error) any { return object{"error": flat{"error", e}} },
		Dead:   "Out of memory even after retracting all other requests in the decode batch. Aborting the last request.",
		TooLong: func(prompt, tokens, limit int) *Error {
			e := &Error{Type: "BadRequestError", Code: 400}
			if tokens == 0 || prompt >= limit {
				e.Message = fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", prompt, limit)
			} else {
				e.Message = fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.", limit, prompt+tokens, prompt, tokens)
			}
			return e
		},
		QueueFull: &Error{Message: "The request queue is full.", Type: "SERVICE_UNAVAILABLE", Code: 503},
		AnyModel:  true,
		Bounds:    func(int) live.Bounds { return metrics.SGLangBounds() },
		Expose:    metrics.SGLang,
		Type:      "text/plain; version=0.0.4; charset=utf-8",
	}
	if d.Old {
		d.API.Expose = metrics.SGLang04
	}
}

func sglangLoaded(s *State) []string {
	c := &s.Core
	total := float64(c.GPU.Memory()-core.DriverReserve) - core.ContextBytes
	left := total - float64(c.UsedBytes())
	return []string{
		fmt.Sprintf("Load weight begin. avail mem=%.2f GB", gib(total)),
		fmt.Sprintf("Load weight end. type=%s, dtype=torch.%s, avail mem=%.2f GB, mem usage=%.2f GB.", "ForCausalLM", c.DType, gib(total-float64(c.WeightBytes)), gib(float64(c.WeightBytes))),
		fmt.Sprintf("KV Cache is allocated. #tokens: %d, K size: %.2f GB, V size: %.2f GB", c.KVTokens(), gib(float64(c.KVBytes)/2), gib(float64(c.KVBytes)/2)),
		fmt.Sprintf("Memory pool end. avail mem=%.2f GB", gib(left)),
		fmt.Sprintf("max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=16384, max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
			c.KVTokens(), c.MaxBatchedTokens, c.MaxSeqs, c.MaxModelLen, gib(left)),
	}
}

func sglangReady(_ *State, url string) []string {
	return []string{"INFO:     Application startup complete.", "INFO:     Uvicorn running on " + url + " (Press CTRL+C to quit)", "The server is fired up and ready to roll!"}
}

// sglangFail returns the scheduler's exception; the parent only hears of the end.
func sglangFail(f *Failure) []string {
	at := "[" + f.Now.Format(time.DateTime) + "] "
	cause := f.Text
	switch f.Cause {
	case core.NoCache:
		cause = fmt.Sprintf("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=%v", f.Share)
	case core.NoSampler, core.NoStep:
		cause = "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate " + fmt.Sprintf("%.2f GiB", gib(f.Want)) + "\nPossible solutions:\n" +
			"1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n3. disable torch compile by not using --enable-torch-compile"
	case core.TooLong:
		cause = strings.NewReplacer("max_model_len", "context_length", "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN").Replace(f.Text)
	}
	lines := []string{
		at + "Scheduler hit an exception: Traceback (most recent call last):",
		`  File "sglang/srt/managers/scheduler.py", line 1, in run_scheduler_process`,
	}
	lines = append(lines, strings.Split(cause, "\n")...)
	return append(lines, "", at+"Received sigquit from a child process. It usually means the child failed.")
}

// sglangWire: reasoning_content is always there, and the end of a chat is a
// chunk of its own.
// https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/serving_chat.py
type sglangWire struct{}

func (w sglangWire) chunk(b []byte, r *Reply, t *Token, delta string, f core.Finish, count int) []byte {
	b = add(b, "data: ", r.Head, `{"index":0,`)
	b = append(b, delta...)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	b = finish(b, f)
	b = append(b, `,"matched_stop":`...)
	if stop, ok := r.stopReason(f).(string); ok {
		b = append(b, quote(stop)...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}]"...)
	if r.Continuous {
		so := *t
		so.Count = count
		b = w.usage(append(b, `,"usage":`...), r, &so)
	}
	return append(b, "}\n\n"...)
}

func (w sglangWire) first(b []byte, r *Reply, t *Token) []byte {
	if !r.Chat {
		return b
	}
	return w.chunk(b, r, t, `"delta":{"reasoning_content":null,"role":"assistant","content":""}`, core.Running, 0)
}

func (w sglangWire) token(b []byte, r *Reply, t *Token) []byte {
	if !r.Chat {
		return w.chunk(b, r, t, `"text":"`+t.Text+`"`, t.Finish, t.Count)
	}
	if t.Text == "" {
		return b
	}
	return w.chunk(b, r, t, `"delta":{"reasoning_content":null,"content":"`+t.Text+`"}`, core.Running, t.Count)
}

func (w sglangWire) end(b []byte, r *Reply, t *Token) []byte {
	if r.Chat {
		b = w.chunk(b, r, t, `"delta":{"reasoning_content":null}`, t.Finish, t.Count)
	}
	if !r.Usage {
		return b
	}
	b = add(b, "data: ", r.Head)
	b = w.usage(append(b, `],"usage":`...), r, t)
	return append(b, "}\n\n"...)
}

func (w sglangWire) usage(b []byte, r *Reply, t *Token) []byte {
	b = append(usage(b, r, t), `,"prompt_tokens_details":`...)
	if r.Cached {
		b = append(number(b, `{"cached_tokens":`, t.Cached), '}')
	} else {
		b = append(b, "null"...)
	}
	return append(b, `,"reasoning_tokens":0}`...)
}

func (w sglangWire) whole(r *Reply, t *Token, text string) any {
	choice := object{"index": 0, "logprobs": nil, "finish_reason": t.Finish, "matched_stop": r.stopReason(t.Finish)}
	if r.Chat {
		choice["message"] = object{"role": "assistant", "content": text, "reasoning_content": nil, "tool_calls": nil}
	} else {
		choice["text"] = text
	}
	return object{
		"id": r.ID, "object": r.Object(false), "created": r.Created, "model": r.Model, "choices": []any{choice},
		"usage": raw(w.usage(nil, r, t)), "metadata": object{"weight_version": "default"},
	}
}

package dialect

import (
	"fmt"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/metrics"
)

// https://huggingface.co/docs/text-generation-inference/reference/launcher
const tgiFlags = `
	model-id=                       model
	hostname=                       host
	served-model-name=              served-model-name
	max-concurrent-requests=        x-concurrent
	max-input-tokens,max-input-length=  x-input-tokens
	max-total-tokens=               max-model-len
	max-batch-prefill-tokens=       max-num-batched-tokens
	max-batch-total-tokens=         x-kv-tokens
	max-batch-size=                 max-num-seqs
	max-waiting-tokens=
	waiting-served-ratio=
	num-shard=                      tensor-parallel-size
	sharded=
	cuda-memory-fraction=           gpu-memory-utilization
	dtype=                          dtype
	kv-cache-dtype=                 kv-cache-dtype
	quantize=
	revision=
	max-best-of=
	max-stop-sequences=
	validation-workers=
	shard-uds-path=
	prometheus-port=
	huggingface-hub-cache=
	cuda-graphs=
	trust-remote-code
	json-output
	disable-custom-kernels
	api-key=                        api-key
`

func tgi(d *Dialect) {
	d.Port = 3000
	d.Flags = flags(tgiFlags)
	d.Usage = Usage{
		Unknown: "error: unexpected argument '%s' found\n\nUsage: text-generation-launcher [OPTIONS]\n\nFor more information, try '--help'.", First: true,
		Missing: "error: a value is required for '--%s <VALUE>' but none was supplied\n\nFor more information, try '--help'.", Status: 2,
	}
	d.Start = Start{
		Division: core.OfFree, Share: 0.95, Seqs: 128,
		Line: func(level Level, text string, now time.Time) string {
			if level == Warn {
				level = "WARN"
			}
			return fmt.Sprintf("%s %5s text_generation_launcher: %s", now.UTC().Format("2006-01-02T15:04:05.000000Z"), level, text)
		},
		Hello: func(d *Dialect) []string {
			return []string{"text-generation-launcher " + d.Version(), "Starting check and download process", "Starting shard rank=0"}
		},
		Loaded: func(s *State) []string {
			return []string{
				fmt.Sprintf("Using max batch total tokens %d", s.Core.KVTokens()),
				fmt.Sprintf("Setting max batch total tokens to %d", s.Core.KVTokens()),
				fmt.Sprintf("Default `max_total_tokens` to %d", s.Core.MaxModelLen),
				"Shard ready rank=0",
			}
		},
		Ready: func(_ *State, url string) []string {
			return []string{"Starting Webserver", "Listening on " + url, "Connected"}
		},
		Fail: tgiFail,
		Report: func(p *Progress) string {
			return fmt.Sprintf("batch_current_size=%d queue_size=%d tokens_per_second=%.1f", p.Running, p.Waiting, p.OutputRate)
		},
		Taken: "Error: WebServer(Axum(Os { code: 98, kind: AddrInUse, message: \"Address already in use\" })) %s", Bye: "signal received, starting graceful shutdown",
	}
	w := tgiWire{fingerprint: d.Version() + "-native"}
	d.API = API{
		Routes: []Route{
			{Pattern: "GET /health", Open: true},
			{Pattern: "GET /ping", Open: true},
			{Pattern: "GET /info", Say: func(s *State) any {
				return object{
					"model_id": s.Model, "model_sha": nil, "model_pipeline_tag": "text-generation", "max_concurrent_requests": s.Settings.Concurrent,
					"max_best_of": 2, "max_stop_sequences": 4, "max_input_tokens": s.Core.MaxModelLen - 1, "max_total_tokens": s.Core.MaxModelLen,
					"validation_workers": 2, "max_client_batch_size": 4, "router": "text-generation-router", "version": s.Dialect.Version(), "sha": nil, "docker_label": nil,
				}
			}},
			{Pattern: "POST /tokenize", Do: Tokenize},
			{Pattern: "GET /metrics", Do: Metrics, Open: true},
			{Pattern: "GET /v1/models", Do: Models},
			{Pattern: "POST /v1/chat/completions", Do: Chat},
			{Pattern: "POST /v1/completions", Do: Complete},
		},
		NotFound: object{"error": "Not Found", "error_type": "not_found"},
		Card: func(s *State, name string) any {
			return object{"id": name, "object": "model", "created": 0, "owned_by": s.Model}
		},
		Count: func(_ *State, ids []uint32) any {
			list := []any{}
			for _, id := range ids {
				list = append(list, object{"id": id})
			}
			return list
		},
		ID:   func(bool, string) string { return "" },
		Head: w.head, First: func(b []byte, _ *Reply, _ *Token) []byte { return b }, Token: w.token, End: w.end, Whole: w.whole,
		Refuse: tgiRefuse,
		Break: func(e *Error) any {
			status, _ := tgiRefuse(e)
			return object{"error": object{"message": e.Message, "http_status_code": status}}
		},
		Dead: "Request failed during generation: Server error: CUDA out of memory",
		TooLong: func(prompt, tokens, limit int) *Error {
			return &Error{Type: "BadRequestError", Code: 400, Message: fmt.Sprintf("Input validation error: `inputs` tokens + `max_new_tokens` must be <= %d. Given: %d `inputs` tokens and %d `max_new_tokens`", limit, prompt, tokens)}
		},
		Overloaded: &Error{Message: "Model is overloaded", Type: "overloaded", Code: 429},
		Ignores:    []string{"ignore_eos", "min_tokens", "continuous_usage_stats"}, AnyModel: true, Metrics: true, Concurrent: 128, Ping: 15,
		Bounds: metrics.TGIBounds,
		Expose: metrics.TGI,
		Type:   "text/plain; charset=utf-8",
	}
}

// tgiRefuse: what is wrong with a request is 422, and a failed generation 424.
func tgiRefuse(e *Error) (int, any) {
	status, kind := e.Code, "generation"
	switch {
	case e.Code == 400:
		status, kind = 422, "validation"
	case e.Code == 429:
		kind = "overloaded"
	case e.Code == 500:
		status = 424
	case e.Code == 503:
		kind = "healthcheck"
	}
	return status, object{"error": e.Message, "error_type": kind}
}

// tgiFail: the shard's exception, and the launcher, which only hears of it.
func tgiFail(f *Failure) []string {
	at := f.Now.UTC().Format("2006-01-02T15:04:05.000000Z") + " ERROR "
	cause := f.Text
	switch f.Cause {
	case core.NoStep, core.NoSampler:
		cause = fmt.Sprintf("RuntimeError: Not enough memory to handle %d prefill tokens. You need to decrease `--max-batch-prefill-tokens`", f.Step)
	case core.NoCache, core.SmallCache:
		cause = fmt.Sprintf("RuntimeError: Not enough memory to handle `max_total_tokens=%d`", f.Tokens)
	}
	return []string{
		at + "text_generation_launcher: Method Warmup encountered an error.",
		"Traceback (most recent call last):",
		`  File "text_generation_server/models/flash_causal_lm.py", line 1, in warmup`,
		cause,
		at + "shard-manager: text_generation_launcher: Shard complete standard error output: rank=0",
		at + "text_generation_launcher: Shard 0 failed to start",
		f.Now.UTC().Format("2006-01-02T15:04:05.000000Z") + "  INFO text_generation_launcher: Shutting down shards",
		"Error: ShardCannotStart",
	}
}

// tgiWire: no id, the role with every token, and the end with the last one.
// https://github.com/huggingface/text-generation-inference/blob/main/router/src/lib.rs
type tgiWire struct{ fingerprint string }

func (w tgiWire) head(r *Reply) string {
	return fmt.Sprintf(`data: {"object":"%s","id":"","created":%d,"model":%s,"system_fingerprint":"%s","choices":[`, r.Object(true), r.Created, quote(r.Model), w.fingerprint)
}

func (w tgiWire) token(b []byte, r *Reply, t *Token) []byte {
	b = append(b, r.Head...)
	if r.Chat {
		b = add(b, `{"index":0,"delta":{"role":"assistant","content":"`, t.Text)
		b = finish(append(b, `"},"logprobs":null,"finish_reason":`...), t.Finish)
	} else {
		b = add(b, `{"index":0,"text":"`, t.Text, `","logprobs":null,"finish_reason":"`)
		b = append(append(b, t.Finish...), '"') // empty before the end
	}
	return append(b, `}],"usage":null}`+"\n\n"...)
}

func (w tgiWire) end(b []byte, r *Reply, t *Token) []byte {
	if !r.Usage {
		return b
	}
	b = append(b, r.Head...)
	b = w.usage(append(b, `],"usage":`...), r, t)
	return append(b, "}\n\n"...)
}

func (w tgiWire) usage(b []byte, r *Reply, t *Token) []byte {
	b = number(b, `{"prompt_tokens":`, r.Prompt)
	b = number(b, `,"completion_tokens":`, t.Count)
	return append(number(b, `,"total_tokens":`, r.Prompt+t.Count), '}')
}

func (w tgiWire) whole(r *Reply, t *Token, text string) any {
	choice := object{"index": 0, "logprobs": nil, "finish_reason": t.Finish}
	if r.Chat {
		choice["message"] = object{"role": "assistant", "content": text}
	} else {
		choice["text"] = text
	}
	return object{
		"object": r.Object(false), "id": "", "created": r.Created, "model": r.Model, "system_fingerprint": w.fingerprint,
		"choices": []any{choice}, "usage": raw(w.usage(nil, r, t)),
	}
}

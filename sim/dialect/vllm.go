package dialect

import (
	"encoding/json"
	"fmt"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/metrics"
)

func vllm(d *Dialect) {
	d.Usage = Usage{Unknown: "error: unrecognized arguments: %s", Missing: "error: argument --%s: expected one argument", Status: 2}
	v := vllmWire{old: d.Old, fingerprint: "vllm-" + d.Release + "-sim"}
	d.Start = Start{
		Line: pythonLine, Hello: vllmHello, Loaded: vllmLoaded, Ready: vllmReady, Fail: vllmFail, Report: vllmReport,
		Taken: "OSError: [Errno 98] Address already in use: %s", Bye: "Shutting down",
	}
	d.API = API{
		Routes: []Route{
			{Pattern: "GET /health", Open: true},
			{Pattern: "GET /ping", Open: true},
			{Pattern: "GET /version", Open: true, Say: func(s *State) any { return object{"version": s.Dialect.Version()} }},
			{Pattern: "GET /metrics", Do: Metrics, Open: true},
			{Pattern: "POST /tokenize", Do: Tokenize, Open: true},
			{Pattern: "POST /reset_prefix_cache", Do: Flush, Open: true},
			{Pattern: "GET /v1/models", Do: Models},
			{Pattern: "POST /v1/chat/completions", Do: Chat},
			{Pattern: "POST /v1/completions", Do: Complete},
		},
		NotFound: object{"detail": "Not Found"},
		Card:     vllmCard,
		Count: func(s *State, ids []uint32) any {
			return object{"count": len(ids), "max_model_len": s.Core.MaxModelLen, "tokens": ids, "token_strs": nil}
		},
		Head: v.head, First: v.first, Token: v.token, End: v.end, Whole: v.whole,
		Refuse: func(e *Error) (int, any) {
			if d.Old {
				return e.Code, flat{"error", e}
			}
			return e.Code, object{"error": e}
		},
		Busy:    &Error{Message: "The prefix cache is in use.", Type: "ServiceUnavailableError", Code: 503},
		Break:   func(e *Error) any { return object{"error": e} },
		Dead:    "EngineCore encountered an issue. See stack trace (above) for the root cause.",
		TooLong: vllmTooLong,
		Metrics: true, CachedTokens: true,
		Type: "text/plain; version=0.0.4; charset=utf-8",
	}
	d.API.Bounds = func(int) live.Bounds { return live.Bounds{} }
	d.API.Expose = metrics.VLLM
	if d.Old {
		d.API.Expose = metrics.VLLM08
	}
}

type vllmCardBody struct {
	ID         string `json:"id"`
	Object     string `json:"object"`
	Created    int64  `json:"created"`
	OwnedBy    string `json:"owned_by"`
	Root       string `json:"root"`
	Parent     any    `json:"parent"`
	MaxLen     int    `json:"max_model_len"`
	Permission []any  `json:"permission"`
}

func vllmCard(s *State, name string) any {
	return vllmCardBody{name, "model", s.Started.Unix(), s.Dialect.Name, s.Model, nil, s.Core.MaxModelLen, []any{}}
}

// vllmTooLong words a request that does not fit; tokens is 0 if it asks for
// no number of them.
func vllmTooLong(prompt, tokens, limit int) *Error {
	e := &Error{Type: "BadRequestError", Code: 400, Param: new("input_tokens")}
	if tokens == 0 {
		e.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens. Please reduce the length of the input messages. (parameter=input_tokens, value=%d)", limit, prompt, prompt)
		return e
	}
	e.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains %d input tokens, for a total of %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)",
		limit, tokens, prompt, prompt+tokens, prompt)
	return e
}

// vllmWire writes chunks in vLLM's shape, byte for byte but for the values. It
// builds them by hand: at 20,000 events a second, JSON by reflection is what
// would cost most.
type vllmWire struct {
	old         bool
	fingerprint string
}

func (v vllmWire) head(r *Reply) string {
	return fmt.Sprintf(`{"id":%s,"object":"%s","created":%d,"model":%s,"choices":[`, quote(r.ID), r.Object(true), r.Created, quote(r.Model))
}

// first returns the chunk that a chat starts with; it comes in the same write as
// the first token.
func (v vllmWire) first(b []byte, r *Reply, t *Token) []byte {
	if !r.Chat {
		return b
	}
	b = add(b, "data: ", r.Head, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`)
	if !v.old {
		b = append(b, `,"prompt_token_ids":null,"prompt_text":null`...)
	}
	if r.Continuous {
		none := *t
		none.Count = 0
		b = v.usage(append(b, `,"usage":`...), r, &none)
	}
	return append(b, "}\n\n"...)
}

func (v vllmWire) token(b []byte, r *Reply, t *Token) []byte {
	b = add(b, "data: ", r.Head)
	if r.Chat {
		b = add(b, `{"index":0,"delta":{"content":"`, t.Text, `"},"logprobs":null,"finish_reason":`)
	} else {
		b = add(b, `{"index":0,"text":"`, t.Text, `","logprobs":null,"finish_reason":`)
	}
	b = finish(b, t.Finish)
	if t.Finish != core.Running || !r.Chat {
		reason, _ := json.Marshal(r.stopReason(t.Finish)) // a string or nil
		b = append(append(b, `,"stop_reason":`...), reason...)
	}
	if r.Chat && !v.old {
		b = append(b, `,"token_ids":null`...)
	}
	b = append(b, "}]"...)
	if r.Continuous {
		b = v.usage(append(b, `,"usage":`...), r, t)
	}
	return append(b, "}\n\n"...)
}

func (v vllmWire) end(b []byte, r *Reply, t *Token) []byte {
	if !r.Usage {
		return b
	}
	b = add(b, "data: ", r.Head)
	b = v.usage(append(b, `],"usage":`...), r, t)
	if !v.old {
		b = append(b, `,"system_fingerprint":"`+v.fingerprint+`"`...)
	}
	return append(b, "}\n\n"...)
}

func (v vllmWire) usage(b []byte, r *Reply, t *Token) []byte {
	b = usage(b, r, t)
	if r.Cached {
		b = append(number(b, `,"prompt_tokens_details":{"cached_tokens":`, t.Cached), '}')
	}
	return append(b, '}')
}

func (v vllmWire) whole(r *Reply, t *Token, text string) any {
	choice := object{"index": 0, "logprobs": nil, "finish_reason": t.Finish, "stop_reason": r.stopReason(t.Finish), "token_ids": nil}
	out := object{
		"id": r.ID, "created": r.Created, "model": r.Model, "object": r.Object(false), "choices": []any{choice},
		"service_tier": nil, "system_fingerprint": v.fingerprint, "usage": json.RawMessage(v.usage(nil, r, t)), "kv_transfer_params": nil,
	}
	if r.Remote {
		out["kv_transfer_params"] = object{"do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": []any{}, "remote_engine_id": "sim", "remote_host": "127.0.0.1", "remote_port": 5600}
	}
	if r.Chat {
		choice["message"] = object{"role": "assistant", "content": text, "refusal": nil, "annotations": nil, "audio": nil, "function_call": nil, "tool_calls": []any{}, "reasoning": nil}
		out["prompt_logprobs"], out["prompt_token_ids"] = nil, nil
	} else {
		choice["text"], choice["prompt_logprobs"], choice["prompt_token_ids"] = text, nil, nil
	}
	return out
}

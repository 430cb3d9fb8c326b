package dialect

import (
	"fmt"
	"strconv"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/metrics"
)

// https://github.com/ggml-org/llama.cpp/tree/master/tools/server
const llamacppFlags = `
	model,m=                  model
	alias,a=                  served-model-name
	ctx-size,c=               x-context
	parallel,np=              max-num-seqs
	kv-unified,kvu            x-unified=true
	no-kv-unified             x-unified=false
	n-gpu-layers,gpu-layers,ngl=
	batch-size,b=             max-num-batched-tokens
	ubatch-size,ub=
	n-predict,n=
	seed,s=                   seed
	metrics                   x-metrics=true
	cache-prompt              enable-prefix-caching=true
	no-cache-prompt           enable-prefix-caching=false
	sse-ping-interval=        x-ping
	cache-type-k,ctk=
	cache-type-v,ctv=
	threads,t=
	threads-batch,tb=
	threads-http=
	flash-attn,fa=
	split-mode,sm=
	tensor-split,ts=
	main-gpu,mg=
	device,dev=
	cache-ram=
	cache-reuse=
	timeout,to=
	chat-template=
	reasoning-format=
	reasoning-budget=
	prio=
	numa=
	cont-batching,cb
	no-cont-batching,nocb
	context-shift
	no-context-shift
	jinja
	no-jinja
	mlock
	mmap
	no-mmap
	slots
	no-slots
	warmup
	no-warmup
	perf
	no-perf
	webui
	no-webui
	verbose,v
	api-key=                  api-key
`

func llamacpp(d *Dialect) {
	d.Port = 8080
	d.Flags = flags(llamacppFlags)
	d.Usage = Usage{Unknown: "error: invalid argument: %s", First: true, Missing: "error while handling argument \"--%s\": expected value for argument", Status: 1}
	d.Start = Start{
		Division: core.Fixed, Share: 1, Seqs: 4,
		Line: func(_ Level, text string, _ time.Time) string { return text },
		Hello: func(d *Dialect) []string {
			return []string{"build: " + d.Version(), "system info: n_threads = 4, total_threads = 4"}
		},
		Loaded: llamacppLoaded, Ready: llamacppReady, Fail: llamacppFail,
		Report: func(p *Progress) string {
			return fmt.Sprintf("srv  update_slots: %d slots busy, %d deferred, %.2f tokens per second", p.Running, p.Waiting, p.OutputRate)
		},
		Taken: "srv    start: couldn't bind HTTP server socket, %s", Bye: "srv    operator(): operator(): cleaning up before exit...",
	}
	w := llamacppWire{old: d.Old, fingerprint: d.Version()}
	ok := func(*State) any { return object{"status": "ok"} }
	d.API = API{
		Routes: []Route{
			{Pattern: "GET /health", Open: true, Say: ok},
			{Pattern: "GET /v1/health", Open: true, Say: ok},
			{Pattern: "GET /props", Open: true, Say: llamacppProps},
			{Pattern: "GET /slots", Say: llamacppSlots},
			{Pattern: "GET /metrics", Do: Metrics, If: func(s *Settings) bool { return s.Metrics }},
			{Pattern: "POST /tokenize", Do: Tokenize},
			{Pattern: "GET /models", Do: Models, Open: true},
			{Pattern: "GET /v1/models", Do: Models, Open: true},
			{Pattern: "POST /chat/completions", Do: Chat},
			{Pattern: "POST /v1/chat/completions", Do: Chat},
			{Pattern: "POST /v1/completions", Do: Complete},
		},
		Loading:  &Error{Message: "Loading model", Type: "unavailable_error", Code: 503},
		NotFound: object{"error": object{"code": 404, "message": "File Not Found", "type": "not_found_error"}},
		Card: func(s *State, name string) any {
			m := &s.Core.Model
			return object{
				"id": name, "object": "model", "created": s.Started.Unix(), "owned_by": "llamacpp",
				"meta": object{"vocab_type": 2, "n_vocab": m.Vocab, "n_ctx_train": m.Context, "n_embd": m.Hidden, "n_params": m.Parameters, "size": s.Core.WeightBytes},
			}
		},
		Count: func(_ *State, ids []uint32) any { return object{"tokens": ids} },
		Head:  w.head, First: w.first, Token: w.token, End: w.end, Whole: w.whole,
		Refuse: llamacppRefuse,
		Break:  func(e *Error) any { _, body := llamacppRefuse(e); return body },
		Dead:   "Compute error.",
		TooLong: func(prompt, _, limit int) *Error {
			return &Error{
				Message: fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", prompt, limit),
				Type:    "exceed_context_size_error", Code: 400, Prompt: prompt, Limit: limit,
			}
		},
		Ignores: []string{"min_tokens", "continuous_usage_stats"}, AnyModel: true, Cuts: true, CachedTokens: true, Ping: 30,
		Bounds: func(int) live.Bounds { return live.Bounds{} }, // it has no histograms
		Expose: metrics.LlamaCpp,
		Type:   "text/plain; version=0.0.4",
	}
	if d.Old {
		d.API.Expose = metrics.LlamaCpp25
	}
}

func llamacppProps(s *State) any {
	return object{
		"default_generation_settings": object{"id": 0, "n_ctx": s.Core.MaxModelLen, "speculative": false, "is_processing": false},
		"total_slots":                 s.Core.MaxSeqs, "model_path": s.Model, "model_alias": s.Served[0],
		"modalities": object{"vision": false, "audio": false}, "chat_template": "", "bos_token": "", "eos_token": "",
		"build_info": s.Dialect.Version(),
	}
}

func llamacppSlots(s *State) any {
	slots := []any{}
	for i := range s.Core.MaxSeqs {
		slots = append(slots, object{"id": i, "n_ctx": s.Core.MaxModelLen, "speculative": false, "is_processing": i < s.Stats.Running})
	}
	return slots
}

func llamacppRefuse(e *Error) (int, any) {
	kind := e.Type
	switch e.Type {
	case "BadRequestError":
		kind = "invalid_request_error"
	case "InternalServerError":
		kind = "server_error"
	case "ServiceUnavailableError":
		kind = "unavailable_error"
	}
	body := object{"code": e.Code, "message": e.Message, "type": kind}
	if e.Limit > 0 {
		body["n_prompt_tokens"], body["n_ctx"] = e.Prompt, e.Limit
	}
	return e.Code, object{"error": body}
}

func mib(n float64) float64 { return n / (1 << 20) }

func llamacppLoaded(s *State) []string {
	c := &s.Core
	return []string{
		fmt.Sprintf("srv    load_model: loading model '%s'", s.Model),
		fmt.Sprintf("print_info: file size   = %.2f GiB (16.00 BPW)", gib(float64(c.WeightBytes)*float64(c.GPUs))),
		fmt.Sprintf("load_tensors:        CUDA0 model buffer size = %.2f MiB", mib(float64(c.WeightBytes))),
		fmt.Sprintf("llama_context: n_seq_max     = %d", c.MaxSeqs),
		fmt.Sprintf("llama_context: n_ctx         = %d", c.KVTokens()),
		fmt.Sprintf("llama_kv_cache:      CUDA0 KV buffer size = %.2f MiB", mib(float64(c.KVBytes))),
		fmt.Sprintf("srv          init: initializing slots, n_slots = %d", c.MaxSeqs),
	}
}

func llamacppReady(_ *State, url string) []string {
	return []string{"main: model loaded", "main: server is listening on " + url, "srv  update_slots: all slots are idle"}
}

func llamacppFail(f *Failure) []string {
	failed := fmt.Sprintf("ggml_backend_cuda_buffer_type_alloc_buffer: allocating %.2f MiB on device 0: cudaMalloc failed: out of memory", mib(f.Want))
	var lines []string
	switch f.Cause {
	case core.NoWeights:
		lines = []string{
			failed, fmt.Sprintf("alloc_tensor_range: failed to allocate CUDA0 buffer of size %.0f", f.Want),
			"llama_model_load: error loading model: unable to allocate CUDA0 buffer", "llama_model_load_from_file_impl: failed to load model",
		}
	case core.NoCache, core.SmallCache:
		lines = []string{
			failed, fmt.Sprintf("alloc_tensor_range: failed to allocate CUDA0 buffer of size %.0f", f.Want),
			"llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
		}
	case core.NoStep, core.NoSampler:
		lines = []string{
			failed, fmt.Sprintf("ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size %.0f", f.Want), "graph_reserve: failed to allocate compute buffers",
			"llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers",
		}
	case core.NoModel:
		lines = []string{
			fmt.Sprintf("gguf_init_from_file: failed to open GGUF file '%s' (No such file or directory)", f.Model),
			fmt.Sprintf("llama_model_load: error loading model: llama_model_loader: failed to load model from %s", f.Model),
		}
	default:
		lines = []string{"llama_init_from_model: failed to initialize the context: " + f.Text}
	}
	return append(lines,
		fmt.Sprintf("common_init_from_params: failed to load model '%s'", f.Model),
		fmt.Sprintf("srv    load_model: failed to load model, '%s'", f.Model),
		"srv    operator(): operator(): cleaning up before exit...", "main: exiting due to model loading error")
}

// llamacppWire: keys in their own order, the end of an answer is a chunk of
// its own, and the last chunk has the server's times.
// https://github.com/ggml-org/llama.cpp/tree/master/tools/server
type llamacppWire struct {
	old         bool
	fingerprint string
}

// head returns what follows the choices.
func (w llamacppWire) head(r *Reply) string {
	return fmt.Sprintf(`],"created":%d,"id":%s,"model":%s,"system_fingerprint":"%s","object":"%s"`, r.Created, quote(r.ID), quote(r.Model), w.fingerprint, r.Object(true))
}

func (w llamacppWire) first(b []byte, r *Reply, _ *Token) []byte {
	if !r.Chat {
		return b
	}
	b = add(b, `data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}`, r.Head)
	return append(b, "}\n\n"...)
}

func (w llamacppWire) token(b []byte, r *Reply, t *Token) []byte {
	if t.Text == "" {
		return b
	}
	if r.Chat {
		b = add(b, `data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"`, t.Text, `"}}`)
	} else {
		b = add(b, `data: {"choices":[{"text":"`, t.Text, `","index":0,"logprobs":null,"finish_reason":null}`)
	}
	b = append(b, r.Head...)
	return append(b, "}\n\n"...)
}

func (w llamacppWire) end(b []byte, r *Reply, t *Token) []byte {
	if r.Chat {
		b = append(finish(append(b, `data: {"choices":[{"finish_reason":`...), t.Finish), `,"index":0,"delta":{}}`...)
	} else {
		b = append(finish(append(b, `data: {"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":`...), t.Finish), '}')
	}
	b = append(b, r.Head...)
	if r.Usage {
		b = append(b, "}\n\n"...)
		b = append(append(b, `data: {"choices":[`...), r.Head...)
		b = w.usage(append(b, `,"usage":`...), r, t)
	}
	b = w.timings(append(b, `,"timings":`...), r, t)
	return append(b, "}\n\n"...)
}

func (w llamacppWire) usage(b []byte, r *Reply, t *Token) []byte {
	b = number(b, `{"completion_tokens":`, t.Count)
	b = number(b, `,"prompt_tokens":`, r.Prompt)
	b = number(b, `,"total_tokens":`, r.Prompt+t.Count)
	if !w.old {
		b = append(number(b, `,"prompt_tokens_details":{"cached_tokens":`, t.Cached), '}')
	}
	return append(b, '}')
}

func (w llamacppWire) timings(b []byte, r *Reply, t *Token) []byte {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) / r.Scale }
	float := func(key string, v float64) {
		b = strconv.AppendFloat(append(b, key...), v, 'g', -1, 64)
	}
	rate := func(n int, ms float64) float64 { return float64(n) / max(ms, 1e-3) * 1e3 }
	prompt, computed := ms(t.First-t.Scheduled), max(1, r.Prompt-t.Cached)
	predicted := ms(t.Last - t.First)
	if w.old {
		b = number(b, `{"prompt_n":`, computed)
	} else {
		b = number(b, `{"cache_n":`, t.Cached)
		b = number(b, `,"prompt_n":`, computed)
	}
	float(`,"prompt_ms":`, prompt)
	float(`,"prompt_per_token_ms":`, prompt/float64(computed))
	float(`,"prompt_per_second":`, rate(computed, prompt))
	b = number(b, `,"predicted_n":`, t.N)
	float(`,"predicted_ms":`, predicted)
	float(`,"predicted_per_token_ms":`, predicted/float64(t.N))
	float(`,"predicted_per_second":`, rate(t.N, predicted))
	return append(b, '}')
}

func (w llamacppWire) whole(r *Reply, t *Token, text string) any {
	choice := object{"finish_reason": t.Finish, "index": 0}
	if r.Chat {
		choice["message"] = object{"role": "assistant", "content": text}
	} else {
		choice["text"], choice["logprobs"] = text, nil
	}
	return object{
		"choices": []any{choice}, "created": r.Created, "id": r.ID, "model": r.Model, "system_fingerprint": w.fingerprint, "object": r.Object(false),
		"usage": raw(w.usage(nil, r, t)), "timings": raw(w.timings(nil, r, t)),
	}
}

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/text"
)

// A frontend is Dynamo's: an OpenAI server that turns texts into tokens, has
// workers compute them, and turns their tokens into its own stream.
type frontend struct {
	opts     options
	board    *board
	log      *log.Logger
	client   *http.Client
	registry *registry
	router   router
	started  time.Time

	mu    sync.Mutex
	since map[string]time.Time // when a model was added
}

// runFrontend serves on l until ctx is done.
func runFrontend(ctx context.Context, o options, l net.Listener, log *log.Logger) error {
	files := []string{"dynamo-frontend"}
	if o.router == "kv" {
		files = append(files, "dynamo-kvrouter")
	}
	client := newClient()
	defer client.CloseIdleConnections()
	f := &frontend{
		opts: o, log: log, client: client, started: time.Now(), since: map[string]time.Time{},
		board:  boardOf(o.release, files, "worker", fmt.Sprintf("%x", newID()), "router", fmt.Sprint(newID())),
		router: router{kv: o.router == "kv"},
	}
	f.registry = &registry{urls: o.workers, dir: o.discovery, least: o.least, client: client, joined: f.joined, left: f.left}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { f.registry.run(ctx) })
	return serve(ctx, l, f.handler(), log)
}

// joined makes what a worker brings known.
func (f *frontend) joined(w *worker) {
	for _, m := range w.Models {
		f.board.fill("card", m, "model", strings.ToLower(m), "worker_type", workerType(w.Mode), "target", componentOf(w.Mode),
			"phase", w.Mode, "peer", fmt.Sprint(w.ID), "dp_rank", f.rank())
		if w.Mode == prefill {
			f.log.Printf("Prefill router target activated model_name=%s", m)
			continue
		}
		for name, v := range map[string]int{
			"context_length": w.Context, "kv_cache_block_size": w.BlockSize, "max_num_batched_tokens": w.MaxBatched,
			"max_num_seqs": w.MaxSeqs, "total_kv_blocks": w.Blocks, "ready": 1,
		} {
			f.board.get("dynamo_frontend_model_"+name, "card", m).set(float64(v))
		}
		f.mu.Lock()
		_, had := f.since[m]
		if !had {
			f.since[m] = time.Now()
		}
		f.mu.Unlock()
		if !had {
			f.log.Printf("added model model_name=%q", m)
		}
	}
	if f.router.kv {
		f.registered(w).set(1)
	}
}

func (f *frontend) registered(w *worker) *series {
	return f.board.get("dynamo_component_router_worker_registered", "dp_rank", f.rank(), "peer", fmt.Sprint(w.ID), "worker_type", workerType(w.Mode))
}

// left forgets it.
func (f *frontend) left(w *worker) {
	if f.router.kv {
		f.registered(w).set(0)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	still := f.registry.models()
	for m := range maps.Keys(f.since) {
		if !slices.Contains(still, m) {
			delete(f.since, m)
			f.board.get("dynamo_frontend_model_ready", "card", m).set(0)
		}
	}
}

// workerType returns how the router calls a mode: a worker that does both decodes.
func workerType(mode string) string {
	if mode == prefill {
		return prefill
	}
	return decode
}

func componentOf(mode string) string {
	if mode == prefill {
		return prefill
	}
	return "backend"
}

// rank returns the label dp_rank: only the KV router knows ranks.
func (f *frontend) rank() string {
	if f.router.kv {
		return "0"
	}
	return "none"
}

func (f *frontend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		dialect.WriteJSON(w, 200, map[string]string{"status": "live", "message": "Service is live"})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		endpoints, instances := []string{}, []any{}
		for _, worker := range f.registry.all() {
			c := componentOf(worker.Mode)
			if e := "dyn://dynamo." + c + ".generate"; !slices.Contains(endpoints, e) {
				endpoints = append(endpoints, e)
			}
			instances = append(instances, map[string]any{
				"namespace": "dynamo", "component": c, "endpoint": "generate", "instance_id": worker.ID,
				"transport": map[string]string{"tcp": strings.TrimPrefix(worker.url, "http://")},
			})
		}
		dialect.WriteJSON(w, 200, map[string]any{"status": "healthy", "endpoints": endpoints, "instances": instances})
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		data := []any{}
		for _, m := range f.registry.models() {
			f.mu.Lock()
			created := f.since[m]
			f.mu.Unlock()
			data = append(data, map[string]any{"id": m, "object": "model", "created": created.Unix(), "owned_by": "nvidia"})
		}
		dialect.WriteJSON(w, 200, map[string]any{"object": "list", "data": data})
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		f.board.get("dynamo_component_uptime_seconds").set(time.Since(f.started).Seconds())
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		f.board.write(w)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { f.complete(w, r, true) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { f.complete(w, r, false) })
	return mux
}

// A refusal is an error in Dynamo's shape, which is flat.
type refusal struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    int    `json:"code"`
}

func (e *refusal) Error() string { return e.Message }

func refuse(code int, format string, a ...any) *refusal {
	return &refusal{fmt.Sprintf(format, a...), http.StatusText(code), code}
}

// kind returns the label error_type.
func (e *refusal) kind() string {
	switch e.Code {
	case 404:
		return "not_found"
	case 503:
		return "overload"
	case 400:
		return "validation"
	}
	return "internal"
}

// body is a request; what is not here has no effect.
type body struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Prompt json.RawMessage `json:"prompt"`

	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`

	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	NvExt struct {
		ExtraFields []string `json:"extra_fields"`
	} `json:"nvext"`
}

// passed are the fields that go on to the worker as they are.
var passed = []string{"min_tokens", "ignore_eos", "stop", "seed", "temperature", "top_p", "n"}

// known are the fields that Dynamo takes beside those: OpenAI's, and the common
// ones of engines. Every other one is an error.
var known = strings.Fields(`model messages prompt max_tokens max_completion_tokens stream stream_options nvext
	audio best_of echo frequency_penalty function_call functions logit_bias logprobs metadata modalities
	parallel_tool_calls prediction presence_penalty reasoning_effort response_format service_tier store suffix
	tool_choice tools top_logprobs user web_search_options
	top_k min_p repetition_penalty length_penalty include_stop_str_in_output stop_token_ids skip_special_tokens
	guided_json guided_regex guided_grammar guided_choice guided_decoding_backend chat_template_args
	chat_template_kwargs add_special_tokens use_beam_search prompt_embeds mm_processor_kwargs`)

const bodyLimit = 45 << 20

// A call is a request that was understood.
type call struct {
	id        string // without prefix
	client    string // the id that the client gave, or ""
	chat      bool
	old       bool // events as the older release has them
	body      *body
	fields    map[string]json.RawMessage
	prompt    []uint32
	maxTokens int
	arrived   time.Time
	created   int64
	m         *meters
}

func (f *frontend) understand(w http.ResponseWriter, r *http.Request, chat bool) (*call, *refusal) {
	c := &call{old: f.opts.release == older, id: newUUID(), client: r.Header.Get("X-Request-Id"), chat: chat, body: &body{}, arrived: time.Now()}
	c.created = c.arrived.Unix()
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		return nil, refuse(400, "Failed to read the body: %v", err)
	}
	if err := json.Unmarshal(raw, &c.fields); err != nil {
		return nil, refuse(400, "Failed to parse the request body as JSON: %v", err)
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(c.fields)) {
		if !slices.Contains(known, name) && !slices.Contains(passed, name) {
			unknown = append(unknown, "`"+name+"`")
		}
	}
	if len(unknown) > 0 {
		return nil, refuse(400, "Validation: Unsupported parameter(s): %s", strings.Join(unknown, ", "))
	}
	if err := json.Unmarshal(raw, c.body); err != nil {
		return nil, refuse(400, "Failed to deserialize the JSON body into the target type: %v", err)
	}
	if !slices.Contains(f.registry.models(), c.body.Model) {
		return nil, refuse(404, "Model not found")
	}
	if c.prompt, err = c.body.tokens(chat); err != nil {
		return nil, refuse(400, "Validation: %v", err)
	}
	for _, m := range []*int{c.body.MaxTokens, c.body.MaxCompletionTokens} {
		if m != nil && *m < 1 {
			return nil, refuse(400, "Validation: max_tokens must be at least 1, got %d", *m)
		} else if m != nil {
			c.maxTokens = *m
		}
	}
	return c, nil
}

// tokens returns the prompt's.
func (b *body) tokens(chat bool) ([]uint32, error) {
	if chat {
		var list []text.Message
		for _, m := range b.Messages {
			content, err := contentText(m.Content)
			if err != nil {
				return nil, err
			}
			list = append(list, text.Message{Role: m.Role, Content: content})
		}
		if len(list) == 0 {
			return nil, errors.New("messages cannot be empty")
		}
		return text.Chat(list), nil
	}
	var one string
	var ids []uint32
	switch {
	case json.Unmarshal(b.Prompt, &one) == nil && one != "":
		return text.Tokenize(nil, one), nil
	case json.Unmarshal(b.Prompt, &ids) == nil && len(ids) > 0:
		return ids, nil
	}
	return nil, errors.New("prompt must be a text or a list of token ids that is not empty")
}

func contentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", errors.New("content is neither a string nor a list of parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("content of type %q is not simulated", p.Type)
		}
		s += p.Text
	}
	return s, nil
}

func newUUID() string {
	a, b := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&(1<<48-1))
}

// complete answers one request.
func (f *frontend) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	c, refused := f.understand(w, r, chat)
	if refused != nil {
		dialect.WriteJSON(w, refused.Code, refused)
		return
	}
	c.m = f.meters(c)
	status, reason := "success", ""
	err := f.answer(w, r, c)
	var e *refusal
	switch {
	case r.Context().Err() != nil:
		status, reason = "error", "cancelled"
		f.board.get("dynamo_frontend_disconnected_clients").add(1)
	case errors.As(err, &e):
		status, reason = "error", e.kind()
	case err != nil:
		status, reason = "error", "internal"
	}
	c.m.end(status, reason)
}

func (c *call) endpoint() string {
	if c.chat {
		return "chat_completions"
	}
	return "completions"
}

func (c *call) kind() string {
	if c.body.Stream {
		return "stream"
	}
	return "unary"
}

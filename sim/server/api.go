// Package server is vLLM's HTTP dialect in front of a simulated engine: its
// endpoints, chunks, errors and metrics, and what goes wrong with them on
// purpose.
package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
)

// Version is what the server calls itself at /version: the vLLM whose dialect
// it speaks.
const Version = "0.32.0+sim"

// A Config is what a server is, beside its engine.
type Config struct {
	Core   core.Config
	Model  string   // as asked for
	Served []string // the names that requests may use, at least one
	APIKey string   // that requests under /v1 must bear; "" is none

	PromptDetails   bool // cached tokens in usage
	ForceUsage      bool // usage in every stream
	DisableLogStats bool // no vllm: metrics

	// For cache_config_info and sim_info alone.
	KVDType        string
	BlocksOverride int
	TimeScale      float64

	Requests *RequestLog // may be nil
	Faults   Faults
	// End ends the program, for a fault that wants it to.
	End func(error)
}

// A Server is the HTTP side of an engine.
type Server struct {
	cfg    Config
	engine *live.Engine
	board  board

	arrived atomic.Int64 // requests for completions
	ended   atomic.Int64
	streams sync.WaitGroup // handlers of completions
}

// New makes the server of an engine.
func New(cfg Config, engine *live.Engine) *Server { return &Server{cfg: cfg, engine: engine} }

// Wait returns when no completion is under way any more. Those that are end
// with the context of their requests.
func (s *Server) Wait() { s.streams.Wait() }

// Handler serves everything that vLLM serves and a simulator can, and
// /sim/nvidia-smi.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, map[string]string{"version": Version}) })
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("GET /sim/nvidia-smi", s.nvidiaSMI)
	mux.HandleFunc("POST /tokenize", s.tokenize)
	mux.HandleFunc("POST /reset_prefix_cache", s.resetPrefixCache)
	mux.Handle("GET /v1/models", s.authorized(s.models))
	mux.Handle("POST /v1/chat/completions", s.authorized(func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, true) }))
	mux.Handle("POST /v1/completions", s.authorized(func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, false) }))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, 404, map[string]string{"detail": "Not Found"})
	})
	return mux
}

func (s *Server) authorized(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
			return
		}
		h(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// An apiError is a refusal in vLLM's shape.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func badRequest(param, format string, a ...any) *apiError {
	e := &apiError{Message: fmt.Sprintf(format, a...), Type: "BadRequestError", Code: 400}
	if param != "" {
		e.Param = &param
	}
	return e
}

func (e *apiError) write(w http.ResponseWriter) {
	writeJSON(w, e.Code, map[string]*apiError{"error": e})
}

// complete answers /v1/chat/completions and /v1/completions.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	s.streams.Add(1)
	defer s.streams.Done()
	n := int(s.arrived.Add(1))
	requestID := r.Header.Get("X-Request-Id")
	refuse := func(e *apiError) {
		s.cfg.Requests.write(Record{Event: "refused", N: n, ID: requestID, Path: r.URL.Path, Status: e.Code})
		e.write(w)
	}
	if n <= s.cfg.Faults.unavailable {
		refuse(&apiError{Message: "The server is overloaded. (simulated fault)", Type: "ServiceUnavailableError", Code: 503})
		return
	}
	b, refused := s.read(w, r)
	if refused != nil {
		refuse(refused)
		return
	}
	j, refused := s.understand(b, chat)
	if refused != nil {
		refuse(refused)
		return
	}
	j.n, j.requestID, j.path = n, requestID, r.URL.Path
	j.id = responseID(chat, requestID, s.cfg.Core.Seed, n)
	if s.cfg.ForceUsage && b.Stream && b.StreamOptions == nil {
		b.StreamOptions = &struct {
			IncludeUsage         bool `json:"include_usage"`
			ContinuousUsageStats bool `json:"continuous_usage_stats"`
		}{IncludeUsage: true}
	}
	s.cfg.Requests.write(Record{Event: "arrived", N: n, ID: requestID, Path: r.URL.Path, PromptTokens: j.prompt, MaxTokens: j.maxTokens})
	s.engine.Meter.Accept(j.maxTokens)

	c := live.NewCall(j.req)
	if j.req.Received > 0 {
		select {
		case <-time.After(s.transferTime(j.req.Received)):
		case <-r.Context().Done():
		}
	}
	s.engine.Submit(c)
	var tokens int
	var finish string
	if b.Stream {
		tokens, finish = s.stream(w, r, j, c)
	} else {
		tokens, finish = s.whole(w, r, j, c)
	}
	if finish == "" {
		finish = "abort"
		s.engine.Abort(c)
	}
	s.cfg.Requests.write(Record{Event: "ended", N: n, ID: requestID, PromptTokens: j.prompt, OutputTokens: tokens, FinishReason: finish})
	if f := &s.cfg.Faults; f.dieAfter > 0 && s.ended.Add(1) >= int64(f.dieAfter) {
		// The end of this answer is written when this handler has returned.
		time.AfterFunc(20*time.Millisecond, func() { s.cfg.End(f.death) })
	}
}

// responseID is the client's id with vLLM's prefix, or one drawn by the seed.
func responseID(chat bool, requestID string, seed uint64, n int) string {
	if requestID == "" {
		requestID = fmt.Sprintf("%016x", rand.New(rand.NewPCG(seed, uint64(n))).Uint64())
	}
	if chat {
		return "chatcmpl-" + requestID
	}
	return "cmpl-" + requestID
}

// whole waits for the end and answers once.
func (s *Server) whole(w http.ResponseWriter, r *http.Request, j *job, c *live.Call) (tokens int, finish string) {
	var text strings.Builder
	var outs []core.Output
	for {
		select {
		case <-c.Ready():
		case <-r.Context().Done():
			return tokens, ""
		}
		outs = c.Take(outs[:0])
		for _, o := range outs {
			text.WriteString(j.answer.Piece(tokens, text.Len()))
			tokens = o.N
			if o.Finish == core.Running {
				continue
			}
			writeJSON(w, 200, s.wholeBody(j, text.String(), o))
			return tokens, string(o.Finish)
		}
	}
}

func (s *Server) wholeBody(j *job, text string, o core.Output) any {
	type object = map[string]any
	choice := object{"index": 0, "logprobs": nil, "finish_reason": o.Finish, "stop_reason": j.stopReason(o.Finish), "token_ids": nil}
	out := object{
		"id": j.id, "created": j.created, "model": j.model, "choices": []any{choice},
		"service_tier": nil, "system_fingerprint": fingerprint, "usage": json.RawMessage(s.usage(nil, j, o)), "kv_transfer_params": nil,
	}
	if t := j.body.KVTransfer; t != nil && t.RemoteDecode {
		out["kv_transfer_params"] = object{"do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": []any{}, "remote_engine_id": "sim", "remote_host": "127.0.0.1", "remote_port": 5600}
	}
	if j.chat {
		out["object"] = "chat.completion"
		choice["message"] = object{"role": "assistant", "content": text, "refusal": nil, "annotations": nil, "audio": nil, "function_call": nil, "tool_calls": []any{}, "reasoning": nil}
		out["prompt_logprobs"], out["prompt_token_ids"] = nil, nil
	} else {
		out["object"] = "text_completion"
		choice["text"], choice["prompt_logprobs"], choice["prompt_token_ids"] = text, nil, nil
	}
	return out
}

func (j *job) stopReason(f core.Finish) any {
	if f == core.Stop && j.answer.Stop != "" {
		return j.answer.Stop
	}
	return nil
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type card struct {
		ID         string `json:"id"`
		Object     string `json:"object"`
		Created    int64  `json:"created"`
		OwnedBy    string `json:"owned_by"`
		Root       string `json:"root"`
		Parent     any    `json:"parent"`
		MaxLen     int    `json:"max_model_len"`
		Permission []any  `json:"permission"`
	}
	var data []card
	for _, name := range s.cfg.Served {
		data = append(data, card{name, "model", s.engine.Started.Unix(), "vllm", s.cfg.Model, nil, s.cfg.Core.MaxModelLen, []any{}})
	}
	writeJSON(w, 200, map[string]any{"object": "list", "data": data})
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	b, refused := s.read(w, r)
	if refused != nil {
		refused.write(w)
		return
	}
	t, refused := b.tokens(len(b.Messages) > 0)
	if refused != nil {
		refused.write(w)
		return
	}
	writeJSON(w, 200, map[string]any{"count": len(t), "max_model_len": s.cfg.Core.MaxModelLen, "tokens": t, "token_strs": nil})
}

// resetPrefixCache waits up to two seconds for the cache to be out of use:
// requests that were given up leave it at the end of a step.
func (s *Server) resetPrefixCache(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	for !s.engine.ResetCache(ctx) {
		select {
		case <-ctx.Done():
			(&apiError{Message: "The prefix cache is in use.", Type: "ServiceUnavailableError", Code: 503}).write(w)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	switch s.cfg.Faults.metrics {
	case "hang":
		<-r.Context().Done()
	case "garbage":
		fmt.Fprint(w, "<html>\x00{\"detail\": vllm:num_requests_running{engine=\"0\" 1.0.0\n# TYPE\n")
	case "huge":
		line := []byte(`vllm:garbage{engine="0",padding="` + strings.Repeat("x", 1<<10) + "\"} 1.0\n")
		for sent := 0; sent < 50<<20; sent += len(line) {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	case "gone":
		http.Error(w, "Not Found", http.StatusNotFound)
	default:
		s.writeMetrics(w)
	}
}

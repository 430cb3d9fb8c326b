// Package server is the HTTP side of a simulated engine, in the dialect of the
// engine that it plays: its endpoints, chunks, errors and metrics, and what
// goes wrong with them on purpose.
package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/metrics"
)

// A Config is what a server is, beside its engine.
type Config struct {
	Dialect  *dialect.Dialect
	Settings dialect.Settings
	Core     core.Config
	Model    string   // as asked for
	Served   []string // the names that requests may use, at least one
	APIKey   string   // that requests under /v1 must bear; "" is none

	Device string // name of the GPU; "" is the port and the seed

	PromptDetails bool // cached tokens in usage
	ForceUsage    bool // usage in every stream

	// For cache_config_info and sim_info alone.
	KVDType        string
	BlocksOverride int
	TimeScale      float64

	Requests *RequestLog // may be nil
	Faults   Faults
	Log      Lines
	// End ends the program, for a fault that wants it to.
	End func(error)
}

// A Server is the HTTP side of an engine.
type Server struct {
	cfg    Config
	api    *dialect.API
	engine *live.Engine
	board  board

	arrived  atomic.Int64 // requests for completions
	ended    atomic.Int64
	underWay atomic.Int64
	streams  sync.WaitGroup // handlers of completions

	mu      sync.Mutex
	cpu     float64           // seconds of this process before the beginning that it reports
	last    *metrics.Snapshot // of the scrape before
	traffic []metrics.Traffic
}

// New makes the server of an engine.
func New(cfg Config, engine *live.Engine) *Server {
	return &Server{cfg: cfg, api: &cfg.Dialect.API, engine: engine}
}

// Wait returns when no completion is under way any more. Those that are end
// with the context of their requests.
func (s *Server) Wait() { s.streams.Wait() }

// Handler serves what the engine serves and a simulator can, and
// its GPUs' tools under /sim/.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sim/nvidia-smi", s.nvidiaSMI)
	mux.HandleFunc("GET /sim/dcgm", s.dcgm)
	mux.HandleFunc("GET /sim/amd-smi", s.amdSMI)
	for _, r := range s.api.Routes {
		if r.If != nil && !r.If(&s.cfg.Settings) {
			continue
		}
		var h http.Handler = s.action(r)
		if !r.Open {
			h = s.authorized(h)
		}
		mux.Handle(r.Pattern, h)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		dialect.WriteJSON(w, 404, s.api.NotFound)
	})
	return mux
}

// Loading answers everything while the model of an engine is loaded that
// listens before.
func Loading(d *dialect.Dialect) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, body := d.API.Refuse(d.API.Loading)
		dialect.WriteJSON(w, status, body)
	})
}

func (s *Server) action(r dialect.Route) http.HandlerFunc {
	switch r.Do {
	case dialect.Models:
		return s.models
	case dialect.Chat:
		return func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, true) }
	case dialect.Complete:
		return func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, false) }
	case dialect.Tokenize:
		return s.tokenize
	case dialect.Flush:
		return s.resetPrefixCache
	case dialect.Generate:
		return s.generate
	case dialect.Metrics:
		return s.serveMetrics
	case dialect.Iterations:
		return s.iterations
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		if r.Say == nil {
			return
		}
		switch v := r.Say(s.state()).(type) {
		case string:
			_, _ = w.Write([]byte(v))
		default:
			dialect.WriteJSON(w, 200, v)
		}
	}
}

func (s *Server) state() *dialect.State {
	return &dialect.State{
		Dialect: s.cfg.Dialect, Settings: s.cfg.Settings, Core: s.cfg.Core, Model: s.cfg.Model, Served: s.cfg.Served,
		Started: s.engine.Started(), Stats: s.engine.Stats(),
	}
}

func (s *Server) authorized(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey {
			dialect.WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
			return
		}
		h.ServeHTTP(w, r)
	})
}

func badRequest(param, format string, a ...any) *dialect.Error {
	e := &dialect.Error{Message: fmt.Sprintf(format, a...), Type: "BadRequestError", Code: 400}
	if param != "" {
		e.Param = &param
	}
	return e
}

func (s *Server) refuse(w http.ResponseWriter, e *dialect.Error) int {
	status, body := s.api.Refuse(e)
	dialect.WriteJSON(w, status, body)
	return status
}

// complete answers /v1/chat/completions and /v1/completions.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	s.streams.Add(1)
	defer s.streams.Done()
	n := int(s.arrived.Add(1))
	requestID := r.Header.Get("X-Request-Id")
	answered := http.StatusOK
	defer func() { s.count(r, answered) }()
	refuse := func(e *dialect.Error) {
		status := s.refuse(w, e)
		answered = status
		s.cfg.Requests.write(Record{Event: "refused", N: n, ID: requestID, Path: r.URL.Path, Status: status})
	}
	if n <= s.cfg.Faults.unavailable {
		refuse(&dialect.Error{Message: "The server is overloaded. (simulated fault)", Type: "ServiceUnavailableError", Code: 503})
		return
	}
	defer s.underWay.Add(-1)
	if limit := s.cfg.Settings.Concurrent; s.underWay.Add(1) > int64(limit) && limit > 0 && s.api.Overloaded != nil {
		refuse(s.api.Overloaded)
		return
	}
	if f := &s.cfg.Faults; f.slowRead > 0 && f.hits(n) {
		r.Body = slowReader{r.Body, r.Context(), f.slowRead}
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
	j.n = n
	s.cfg.Faults.alter(j)
	j.reply.ID = s.responseID(chat, requestID, n)
	if full := s.api.QueueFull; full != nil && s.cfg.Settings.Queue > 0 && s.engine.Stats().Waiting >= s.cfg.Settings.Queue {
		if b.Stream { // the stream has begun before it knows
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(s.broken(full))
			s.cfg.Requests.write(Record{Event: "refused", N: n, ID: requestID, Path: r.URL.Path, Status: full.Code})
			return
		}
		refuse(full)
		return
	}
	s.cfg.Requests.write(Record{Event: "arrived", N: n, ID: requestID, Path: r.URL.Path, PromptTokens: j.prompt, MaxTokens: j.maxTokens})
	s.engine.Meter.Accept(j.maxTokens)
	s.cfg.Log.received(j)

	c := live.NewCall(j.req)
	if j.req.Received > 0 {
		s.cfg.Log.loads(j, b.KVTransfer)
		s.engine.Meter.Receive(j.req.Received)
		select {
		case <-time.After(s.transferTime(j.req.Received)):
		case <-r.Context().Done():
		}
		s.cfg.Log.moved(j)
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
	if j.reply.Remote {
		s.cfg.Log.sent(j)
	}
	f, ended := &s.cfg.Faults, s.ended.Add(1)
	if f.dieAfter > 0 && ended >= int64(f.dieAfter) {
		// The end of this answer is written when this handler has returned.
		time.AfterFunc(20*time.Millisecond, func() { s.cfg.End(f.death) })
	}
	if ended == int64(f.restart) {
		s.restart()
	}
}

// restart resets every counter and gauge, as a new process does.
func (s *Server) restart() {
	s.engine.Restart()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cpu, s.last, s.traffic = cpuSeconds(), nil, nil
}

// count notes a request by its path.
func (s *Server) count(r *http.Request, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.traffic, func(t metrics.Traffic) bool { return t.Path == r.URL.Path })
	if i < 0 {
		s.traffic = append(s.traffic, metrics.Traffic{Path: r.URL.Path})
		i = len(s.traffic) - 1
	}
	s.traffic[i].Requests[status/100]++
	s.traffic[i].Bytes += max(0, r.ContentLength)
}

// responseID returns the client's id with the engine's prefix, or one drawn by the
// seed.
func (s *Server) responseID(chat bool, requestID string, n int) string {
	if requestID == "" {
		requestID = fmt.Sprintf("%016x", rand.New(rand.NewPCG(s.cfg.Core.Seed, uint64(n))).Uint64())
	}
	switch {
	case s.api.ID != nil:
		return s.api.ID(chat, requestID)
	case chat:
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
			dialect.WriteJSON(w, 200, s.api.Whole(&j.reply, s.token(j, o, ""), text.String()))
			return tokens, string(o.Finish)
		}
	}
}

// token returns one output of the engine as a part of a reply.
func (s *Server) token(j *job, o core.Output, text string) *dialect.Token {
	t := &dialect.Token{Output: o, Text: text, Count: o.N}
	if o.Finish != core.Running && s.cfg.Faults.hits(j.n) {
		t.Count += s.cfg.Faults.wrongUsage
	}
	return t
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	var data []any
	state := s.state()
	for _, name := range s.cfg.Served {
		data = append(data, s.api.Card(state, name))
	}
	dialect.WriteJSON(w, 200, map[string]any{"object": "list", "data": data})
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	b, refused := s.read(w, r)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	t, refused := b.tokens(len(b.Messages) > 0)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	dialect.WriteJSON(w, 200, s.api.Count(s.state(), t))
}

// resetPrefixCache waits up to two seconds for the cache to be out of use:
// requests that were given up leave it at the end of a step.
func (s *Server) resetPrefixCache(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	for !s.engine.ResetCache(ctx) {
		select {
		case <-ctx.Done():
			s.refuse(w, s.api.Busy)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	_, _ = w.Write([]byte(s.api.Flushed))
}

// generate answers once a token has been computed.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	c := live.NewCall(core.Request{Prompt: []uint32{1}, MaxTokens: 1})
	s.engine.Submit(c)
	select {
	case <-c.Ready():
		_, _ = w.Write([]byte(s.api.Generated))
	case <-r.Context().Done():
		s.engine.Abort(c)
	}
}

// snapshot returns the engine for a scrape.
func (s *Server) snapshot() *metrics.Snapshot {
	stats := s.engine.Stats()
	now := &metrics.Snapshot{
		Stats: stats, Counts: s.engine.Meter.Counts(), Config: s.cfg.Core, Quiet: !s.cfg.Settings.Metrics,
		Model: s.cfg.Served[0], Started: s.engine.Started(), Now: time.Now(),
		CPU: cpuSeconds(), Busy: s.engine.Unscale(stats.Busy).Seconds(),
		KVDType: s.cfg.KVDType, BlocksOverride: s.cfg.BlocksOverride, TimeScale: s.cfg.TimeScale,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now.CPU -= s.cpu
	now.HTTP = slices.Clone(s.traffic)
	if s.last != nil {
		last := *s.last
		last.Last = nil
		now.Last = &last
	}
	s.last = now
	return now
}

// iterations writes the single steps since the last question; what was read is
// gone.
func (s *Server) iterations(w http.ResponseWriter, _ *http.Request) {
	list := []any{}
	if s.cfg.Settings.Iterations {
		list = metrics.TRTLLMIterations(&s.cfg.Core, s.engine.Meter.Iterations())
	}
	dialect.WriteJSON(w, 200, list)
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", s.api.Type)
	if s.cfg.Dialect.Name == "llamacpp" {
		w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(s.engine.Started().Unix(), 10))
	}
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
		now := s.snapshot()
		s.api.Expose(w, now)
		metrics.Simulated(w, now)
	}
}

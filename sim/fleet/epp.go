package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/sim/dialect"
)

// A picker is llm-d's endpoint picker: it watches the metrics of the servers and
// chooses one for each request, by what it has of the prompt, what waits there
// and how full its cache is, weighed 3, 2 and 2 as llm-d's default
// (https://github.com/llm-d/llm-d-router/blob/main/docs/architecture.md).
type picker struct {
	board  *board
	log    *log.Logger
	lines  *debugLog
	client *http.Client
	router router
	mode   string // one of pickers

	decoders, prefillers []*endpoint
	turn                 atomic.Uint64
	nextID               atomic.Uint64

	mu   sync.Mutex
	open map[uint64]*picked
}

// An endpoint is one server of the pool.
type endpoint struct {
	*worker
	host string // host:port
	port string
	pod  string

	mu      sync.Mutex
	up      bool
	waiting float64
	running float64
	kv      float64 // share of the cache in use
}

// A picked request is under way.
type picked struct {
	id      string // of the gateway
	model   string
	bytes   int
	turn    int // among all requests
	choices []*choice
}

const (
	scrapeEvery = 100 * time.Millisecond
	poolName    = "default"
	// hashBlock is the unit of the prefix index, in tokens.
	hashBlock = 16
	// hashBlocks is how many of them the index keeps of one server.
	hashBlocks = 31250
)

// runPicker serves on l until ctx is done.
func runPicker(ctx context.Context, o options, l net.Listener, log *log.Logger) error {
	if len(o.workers) == 0 {
		return errors.New("an endpoint picker has servers to pick: --worker-urls URLS")
	}
	client := newClient()
	defer client.CloseIdleConnections()
	p := &picker{
		board: newBoard([]string{"llm-d-epp"}, "pool", poolName), log: log, lines: newDebugLog(log.Writer(), o.verbose), client: client,
		mode: o.picker, decoders: endpoints(o.workers), prefillers: endpoints(o.prefillers), open: map[uint64]*picked{},
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { p.watch(ctx) })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sim/pick", p.pick)
	mux.HandleFunc("POST /sim/report", p.report)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
		p.board.write(w)
	})
	return serve(ctx, l, mux, log)
}

func endpoints(urls []string) (list []*endpoint) {
	for _, u := range urls {
		u, pod, _ := strings.Cut(u, "#")
		host := strings.TrimPrefix(u, "http://")
		_, port, _ := net.SplitHostPort(host)
		list = append(list, &endpoint{
			worker: &worker{url: u, card: card{BlockSize: hashBlock, Blocks: hashBlocks}, cached: map[uint64]struct{}{}},
			host:   host, port: port, pod: cmp.Or(pod, host),
		})
	}
	return list
}

// watch scrapes all servers until ctx is done.
func (p *picker) watch(ctx context.Context) {
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	for {
		for _, e := range slices.Concat(p.decoders, p.prefillers) {
			p.scrape(ctx, e)
		}
		if ctx.Err() == nil {
			p.pool()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *picker) scrape(ctx context.Context, e *endpoint) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	waiting, running, kv, ok := p.look(ctx, e.url)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.up, e.waiting, e.running, e.kv = ok, waiting, running, kv
}

// look reads the three gauges that the picker goes by.
func (p *picker) look(ctx context.Context, url string) (waiting, running, kv float64, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		return
	}
	e, err := exposition.Parse(body, true)
	if err != nil {
		return
	}
	// The real one too reads the first rank alone.
	return firstOf(e, "vllm:num_requests_waiting"), firstOf(e, "vllm:num_requests_running"), firstOf(e, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), true
}

// firstOf returns the first series of the first of these names that a body has, or 0.
func firstOf(e *exposition.Exposition, names ...string) float64 {
	for _, name := range names {
		if points := e.Named(name); len(points) > 0 {
			return points[0].Value
		}
	}
	return 0
}

// pool publishes the averages over the servers that are up.
func (p *picker) pool() {
	var n, waiting, running, kv float64
	for _, e := range slices.Concat(p.decoders, p.prefillers) {
		e.mu.Lock()
		if e.up {
			n++
			waiting += e.waiting
			running += e.running
			kv += e.kv
			p.both("per_endpoint_queue_size", "endpoint", e.host).set(e.waiting)
		}
		e.mu.Unlock()
	}
	for name, v := range map[string]float64{
		"average_kv_cache_utilization": kv / max(n, 1), "average_queue_size": waiting / max(n, 1),
		"average_running_requests": running / max(n, 1), "ready_endpoints": n,
	} {
		p.both(name).set(v)
	}
}

// legacy are the old names of series; both are exposed for a while.
var legacy = map[string]string{
	"request_total": "inference_objective_request_total", "request_error_total": "inference_objective_request_error_total",
	"request_duration_seconds": "inference_objective_request_duration_seconds", "request_size_bytes": "inference_objective_request_sizes",
	"response_size_bytes": "inference_objective_response_sizes", "request_input_tokens": "inference_objective_input_tokens",
	"request_output_tokens": "inference_objective_output_tokens", "request_cached_tokens": "inference_objective_prompt_cached_tokens",
	"request_running": "inference_objective_running_requests", "request_ntpot_seconds": "inference_objective_normalized_time_per_output_token_seconds",
	"average_kv_cache_utilization": "inference_pool_average_kv_cache_utilization", "average_queue_size": "inference_pool_average_queue_size",
	"average_running_requests": "inference_pool_average_running_requests", "ready_endpoints": "inference_pool_ready_pods",
	"per_endpoint_queue_size":        "inference_pool_per_pod_queue_size",
	"scheduler_e2e_duration_seconds": "inference_extension_scheduler_e2e_duration_seconds", "scheduler_attempts_total": "inference_extension_scheduler_attempts_total",
}

// A pair is a series under both its names.
type pair []*series

func (l pair) set(v float64) {
	for _, s := range l {
		s.set(v)
	}
}

func (l pair) add(v float64) {
	for _, s := range l {
		s.add(v)
	}
}

func (l pair) observe(v float64) {
	for _, s := range l {
		s.observe(v)
	}
}

func (p *picker) both(name string, given ...string) pair {
	l := pair{p.board.get("llm_d_epp_"+name, given...)}
	if old, ok := legacy[name]; ok {
		l = append(l, p.board.get(old, given...))
	}
	return l
}

// pick answers the gateway: any server for what is no completion.
func (p *picker) pick(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	path := r.Header.Get("X-Original-Path")
	ready := up(p.decoders)
	if len(ready) == 0 {
		http.Error(w, "no ready endpoints available", http.StatusServiceUnavailable)
		return
	}
	if !strings.HasSuffix(path, "/completions") {
		dialect.WriteJSON(w, http.StatusOK, pick{Destination: ready[0].host})
		return
	}
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		http.Error(w, "invalid request body", http.StatusBadRequest)
		return
	}
	// A prompt that cannot be read has no prefix, and its server will say so.
	prompt, _ := b.tokens(strings.HasSuffix(path, "/chat/completions"))
	req := &picked{id: r.Header.Get("X-Request-Id"), model: b.Model, bytes: len(raw), turn: int(p.turn.Add(1) - 1)} //nolint:gosec // far below 2^63
	p.lines.assembled(req)
	to := p.choose(req, ready, decode, prompt)
	out := pick{ID: p.nextID.Add(1), Destination: to.host}
	decision := "decode-only"
	if first := up(p.prefillers); len(first) > 0 {
		out.Prefiller = p.choose(req, first, prefill, prompt).host
		decision = "prefill-decode"
	}
	p.mu.Lock()
	p.open[out.ID] = req
	p.mu.Unlock()
	p.board.get("llm_d_inference_scheduler_disagg_decision_total", "decision", decision, "model", b.Model).add(1)
	p.both("request_total", "model", b.Model).add(1)
	p.both("request_running", "model", b.Model).add(1)
	p.both("scheduler_e2e_duration_seconds").observe(time.Since(start).Seconds())
	dialect.WriteJSON(w, http.StatusOK, out)
}

func up(list []*endpoint) []*endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e *endpoint) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return !e.up
	})
}

// choose takes the server with the best score; among equals they take turns.
func (p *picker) choose(req *picked, from []*endpoint, phase string, prompt []uint32) *endpoint {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	if p.router.n == nil {
		p.router.n = map[string]int{}
	}
	turn := p.router.n[phase]
	p.router.n[phase]++
	var most float64
	for _, e := range from {
		most = max(most, e.queue())
	}
	var best *endpoint
	var chosen *choice
	var score float64
	if fixed := p.fixed(req, phase); fixed >= 0 {
		from = []*endpoint{from[fixed%len(from)]}
	}
	for i := range from {
		e := from[(turn+i)%len(from)]
		c := weigh(e.worker, phase, prompt)
		queue := 1.0
		if most > 0 {
			queue = 1 - e.queue()/most
		}
		if s := 3*float64(c.overlap)/float64(c.held) + 2*queue + 2*(1-e.usage()); best == nil || s > score {
			best, chosen, score = e, c, s
		}
	}
	chosen.take(prompt)
	p.lines.picked(req, best, phase, score)
	req.choices = append(req.choices, chosen)
	p.both("scheduler_attempts_total", "status", "success", "model", req.model, "endpoint", best.host, "port", best.port).add(1)
	return best
}

// fixed returns which server takes a request whatever the scores say, or -1.
func (p *picker) fixed(req *picked, phase string) int {
	switch {
	case p.mode == maxScore:
		return -1
	case p.mode == everyPair && phase == prefill:
		return req.turn / max(len(up(p.decoders)), 1)
	default:
		return req.turn
	}
}

// queue returns what waits at a server, by its last scrape.
func (e *endpoint) queue() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiting
}

func (e *endpoint) usage() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kv
}

// report counts the end of a request.
func (p *picker) report(w http.ResponseWriter, r *http.Request) {
	var said report
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	req := p.open[said.ID]
	delete(p.open, said.ID)
	p.mu.Unlock()
	if req == nil {
		http.Error(w, "no such request", http.StatusNotFound)
		return
	}
	for _, c := range req.choices {
		c.release()
	}
	model := []string{"model", req.model}
	p.both("request_running", model...).add(-1)
	if said.Status >= 400 {
		p.both("request_error_total", append(model, "error_code", strconv.Itoa(said.Status))...).add(1)
		return
	}
	p.both("request_duration_seconds", model...).observe(said.Seconds)
	p.both("request_size_bytes", model...).observe(float64(req.bytes))
	p.both("response_size_bytes", model...).observe(float64(said.Bytes))
	p.both("request_cached_tokens", model...).observe(float64(said.Usage.Details.Cached))
	if said.Usage.Prompt > 0 {
		p.both("request_input_tokens", model...).observe(float64(said.Usage.Prompt))
	}
	if n := said.Usage.Completion; n > 0 {
		p.both("request_output_tokens", model...).observe(float64(n))
		p.both("request_ntpot_seconds", model...).observe(said.Seconds / float64(n))
		if said.Streaming && n > 1 {
			p.both("request_streaming_tpot_seconds", model...).observe((said.Seconds - said.First) / float64(n-1))
		}
	}
	if said.First > 0 {
		p.both("request_ttft_seconds", append(model, "streaming", strconv.FormatBool(said.Streaming))...).observe(said.First)
	}
	if said.Streaming {
		gaps := p.both("request_streaming_itl_seconds", model...)
		for _, g := range said.Gaps {
			gaps.observe(g)
		}
	}
}

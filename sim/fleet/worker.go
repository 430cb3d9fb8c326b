package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
)

// A dynamoWorker is an engine as a worker of Dynamo: completions of token ids
// at its own port, health and metrics there and at its system port.
type dynamoWorker struct {
	opts    options
	id      uint64
	started time.Time
	board   *board
	engine  atomic.Pointer[Engine] // nil until it serves
	label   []string               // of the series of its endpoint
}

// runWorker runs a worker until ctx is done.
func runWorker(ctx context.Context, o options, single Single, stderr io.Writer) int {
	w := &dynamoWorker{opts: o, id: newID(), started: time.Now()}
	known := []string{"component", o.component(), "worker", fmt.Sprintf("%x", w.id)}
	if o.mode() != decode { // a decode worker publishes no events of its cache
		known = append(known, "publisher", o.component(), "source", fmt.Sprintf("worker_kv_query_source_%x", w.id>>8))
	}
	w.board = boardOf(o.release, []string{"dynamo-worker"}, known...)
	w.label = []string{"dynamo_endpoint", "generate"}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil) // before the wait
	if o.systemPort > 0 {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(o.host, strconv.Itoa(o.systemPort)))
		if err != nil {
			fmt.Fprintf(stderr, "OSError: [Errno 98] Address already in use: %v\n", err)
			return 1
		}
		wg.Go(func() { _ = serve(ctx, l, w.system(http.NotFoundHandler()), newLog(stderr)) })
	}
	defer w.leave()
	return single(ctx, o.rest, &Inside{Metrics: o.publish, Wrap: func(e Engine) http.Handler {
		w.engine.Store(&e)
		w.board.fill("model", e.Served[0])
		if err := w.register(e.URL); err != nil {
			fmt.Fprintf(stderr, "WARNING cannot register: %v\n", err)
		}
		newLog(stderr).Printf("Registered endpoint 'dynamo.%s.generate' with shared TCP server", o.component())
		return w.system(w.count(e.Handler))
	}})
}

func (w *dynamoWorker) file() string {
	return filepath.Join(w.opts.discovery, fmt.Sprintf("%x.json", w.id))
}

// register tells the directory where this worker is.
func (w *dynamoWorker) register(url string) error {
	if w.opts.discovery == "" {
		return nil
	}
	if err := os.MkdirAll(w.opts.discovery, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		return err
	}
	// Renamed into place: no reader sees half of it.
	if err := os.WriteFile(w.file()+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(w.file()+".new", w.file())
}

func (w *dynamoWorker) leave() {
	if w.opts.discovery != "" {
		_ = os.Remove(w.file())
	}
}

// system answers what every process of Dynamo's does, and leaves the rest to next.
func (w *dynamoWorker) system(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /metrics", w.metrics)
	for _, path := range []string{"GET /health", "GET /live"} {
		mux.HandleFunc(path, func(out http.ResponseWriter, _ *http.Request) {
			status, word := http.StatusOK, "ready"
			if w.engine.Load() == nil {
				status, word = http.StatusServiceUnavailable, "notready"
			}
			uptime := time.Since(w.started)
			dialect.WriteJSON(out, status, map[string]any{
				"status": word, "endpoints": map[string]string{"generate": word},
				"uptime": map[string]int64{"secs": int64(uptime.Seconds()), "nanos": uptime.Nanoseconds() % 1e9},
			})
		})
	}
	mux.HandleFunc("GET /sim/card", func(out http.ResponseWriter, _ *http.Request) {
		e := w.engine.Load()
		if e == nil {
			http.Error(out, "loading", http.StatusServiceUnavailable)
			return
		}
		dialect.WriteJSON(out, http.StatusOK, cardOf(*e, w.id, w.opts.mode()))
	})
	return mux
}

func cardOf(e Engine, id uint64, mode string) card {
	return card{
		ID: id, Mode: mode, Models: e.Served,
		Context: e.Config.MaxModelLen, BlockSize: core.BlockSize, Blocks: e.Config.Blocks,
		MaxSeqs: e.Config.MaxSeqs, MaxBatched: e.Config.MaxBatchedTokens,
	}
}

// metrics writes Dynamo's own, and behind them those of the engine inside.
func (w *dynamoWorker) metrics(out http.ResponseWriter, r *http.Request) {
	inner := &recorder{header: http.Header{}, status: http.StatusOK}
	if e := w.engine.Load(); e != nil {
		r = r.Clone(r.Context())
		r.URL.Path = cmp.Or(metricsPaths[w.opts.inner], "/metrics")
		e.Handler.ServeHTTP(inner, r)
	}
	if inner.status == http.StatusNotFound && w.opts.inner != "vllm" {
		inner.body.Reset() // an engine that was not told to have metrics
	} else if inner.status != http.StatusOK {
		http.Error(out, http.StatusText(inner.status), inner.status)
		return
	}
	w.board.get("dynamo_component_uptime_seconds").set(time.Since(w.started).Seconds())
	if w.opts.release == older {
		w.kvStats(inner.body.Bytes())
	}
	out.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.board.write(out)
	for line := range bytes.Lines(inner.body.Bytes()) {
		words := bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("# HELP ")), []byte("# TYPE "))
		if slices.ContainsFunc(passedOn, func(prefix string) bool { return bytes.HasPrefix(words, []byte(prefix)) }) {
			_, _ = out.Write(line)
		}
	}
}

// kvStats writes the engine's gauges once more, under Dynamo's older names. A worker
// of SGLang leaves all of them at 0.
func (w *dynamoWorker) kvStats(body []byte) {
	engine, e := w.engine.Load(), &exposition.Exposition{}
	if parsed, err := exposition.Parse(body, true); err == nil {
		e = parsed
	}
	usage := firstOf(e, "vllm:kv_cache_usage_perc", "trtllm_kv_cache_utilization")
	hits, queries := firstOf(e, "vllm:prefix_cache_hits_total"), firstOf(e, "vllm:prefix_cache_queries_total")
	blocks := 0.0
	if engine != nil && len(e.Named("sglang:token_usage")) == 0 {
		blocks = float64(engine.Config.Blocks)
	}
	for name, v := range map[string]float64{
		"total_blocks": blocks, "active_blocks": math.Round(usage * blocks),
		"gpu_cache_usage_percent": usage, "gpu_prefix_cache_hit_rate": hits / max(queries, 1),
	} {
		w.board.get("dynamo_component_kvstats_" + name).set(v)
	}
}

// passedOn are the namespaces of engines, and the simulator's own: an engine's
// other metrics, of its process and its HTTP, do not exist in a worker.
var passedOn = []string{"vllm:", "sglang:", "trtllm_", "sim_"}

// metricsPaths are where engines have them that do not at /metrics.
var metricsPaths = map[string]string{"trtllm": "/prometheus/metrics"}

// A recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// sentAt is the header that says when the frontend sent a request, in
// nanoseconds of the clock of this machine.
const sentAt = "X-Sim-Sent-At"

// count puts the work handler's metrics around completions.
func (w *dynamoWorker) count(next http.Handler) http.Handler {
	of := func(name string) *series { return w.board.get(name, w.label...) }
	var (
		requests  = of("dynamo_component_requests_total")
		inflight  = of("dynamo_component_inflight_requests")
		received  = of("dynamo_component_request_bytes_total")
		sent      = of("dynamo_component_response_bytes_total")
		duration  = of("dynamo_component_request_duration_seconds")
		cancelled = of("dynamo_component_cancellation_total")
		tasks     = w.board.get("dynamo_work_handler_pool_active_tasks")
		engine    = w.board.get("dynamo_engine_request")
		transit   = w.board.get("dynamo_work_handler_network_transit_seconds")
		permit    = w.board.get("dynamo_work_handler_permit_wait_seconds")
		first     = w.board.get("dynamo_work_handler_time_to_first_response_seconds")
	)
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "completions") {
			next.ServeHTTP(out, r)
			return
		}
		start := time.Now()
		if ns, err := strconv.ParseInt(r.Header.Get(sentAt), 10, 64); err == nil {
			transit.observe(max(0, start.Sub(time.Unix(0, ns)).Seconds()))
		}
		permit.observe(0)
		requests.add(1)
		received.add(float64(max(0, r.ContentLength)))
		up := []*series{inflight, tasks, engine}
		for _, s := range up {
			s.add(1)
		}
		counted := &counter{ResponseWriter: out, start: start, first: first}
		defer func() {
			for _, s := range up {
				s.add(-1)
			}
			sent.add(float64(counted.bytes))
			duration.observe(time.Since(start).Seconds())
			if r.Context().Err() != nil {
				cancelled.add(1)
			}
		}()
		next.ServeHTTP(counted, r)
	})
}

// A counter counts what is answered.
type counter struct {
	http.ResponseWriter
	start time.Time
	first *series // of the time until the head
	bytes int
	begun bool
}

func (c *counter) begin() {
	if !c.begun {
		c.begun = true
		c.first.observe(time.Since(c.start).Seconds())
	}
}

func (c *counter) WriteHeader(status int) {
	c.begin()
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(b []byte) (int, error) {
	c.begin()
	n, err := c.ResponseWriter.Write(b)
	c.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// serve serves until ctx is done, and ends what is under way then.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *log.Logger) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var handlers sync.WaitGroup
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		h.ServeHTTP(w, r)
	})
	failed := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { failed <- s.Serve(l) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	_ = s.Close()
	wg.Wait()
	handlers.Wait()
	return err
}

// modes of a role.
var roleModes = map[string]string{"worker": aggregated, "prefill": prefill, "decode": decode}

func (o *options) mode() string { return roleModes[o.role] }

// component returns what Dynamo calls the role: what answers is the backend.
func (o *options) component() string {
	switch {
	case o.role == "prefill":
		return "prefill"
	case o.release == older && o.inner == "trtllm":
		return "tensorrt_llm"
	}
	return "backend"
}

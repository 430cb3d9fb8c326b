package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// target returns a server on loopback for a test.
func target(t *testing.T, role, tier string, m *engine.Metrics, handler http.HandlerFunc) collectors.Target {
	t.Helper()
	all, asked := counted(handler)
	server := httptest.NewServer(all)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return collectors.Target{Role: role, Tier: tier, Host: &place{url: server.URL, asked: asked}, Metrics: m}
}

// several returns one whole session of these targets, of so many requests to the first
// at the least.
func several(t *testing.T, p *engine.Profile, requests int64, targets ...collectors.Target) (result.Row, *sink, error) {
	t.Helper()
	c, err := New(Config{Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := new(sink)
	session, err := c.Start(t.Context(), collectors.Trial{Targets: targets, Profile: p, Anchor: result.NewAnchor()}, s)
	if err != nil {
		t.Fatal(err)
	}
	if first, ok := targets[0].Host.(*place); ok {
		asked := first.asked.Load() // in earlier sessions
		wait(t, first.asked, asked+requests)
	}
	row, err := session.Finish(t.Context())
	return row, s, err
}

func TestSession_roles(t *testing.T) {
	worker := &engine.Metrics{Path: "/metrics", Series: map[string][]engine.Series{
		engine.GenerationTokens: {{Name: "w_tokens_total"}}, engine.RequestsRunning: {{Name: "w_running"}},
	}}
	front := &engine.Metrics{Path: "/metrics", Series: map[string][]engine.Series{
		engine.GenerationTokens: {{Name: "f_tokens_total"}}, engine.RequestsRunning: {{Name: "f_running"}}, engine.RequestsWaiting: {{Name: "f_queued"}},
	}}
	// They answer when all three are asked, or not at all.
	var waiting, answered atomic.Int64
	together := func(w http.ResponseWriter, r *http.Request, body string) {
		waiting.Add(1)
		turn := answered.Load() / 3
		polltest.Within(polltest.Patience, func() bool { return waiting.Load() >= 3*(turn+1) || r.Context().Err() != nil })
		if waiting.Load() < 3*(turn+1) {
			waiting.Add(-1)
			return
		}
		answered.Add(1)
		_, _ = io.WriteString(w, body)
	}
	var n atomic.Int64
	row, s, err := several(t, roles("frontend", "worker"), 5,
		target(t, "frontend", engine.TierFrontend, front, func(w http.ResponseWriter, r *http.Request) {
			together(w, r, fmt.Sprintf("f_tokens_total %d\nf_running 9\nf_queued 4\n", 1000*n.Add(1)))
		}),
		target(t, "worker", "", worker, func(w http.ResponseWriter, r *http.Request) {
			together(w, r, fmt.Sprintf("w_tokens_total %d\nw_running 2\n", 10*n.Load()))
		}),
		target(t, "worker", engine.TierEngine, worker, func(w http.ResponseWriter, r *http.Request) {
			together(w, r, "w_tokens_total 5\nw_running 3\nhttp_requests_total 7\npython_info 1\n")
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	checkRow(t, row, result.Row{
		"mean_requests_running": 5.0, "max_requests_running": 5.0, "worker_max_requests_running": 5.0,
		"frontend_max_requests_running": 9.0, "max_requests_waiting": 4.0, "worker_max_requests_waiting": nil,
		"metric_lines": int64(9), "metric_names": int64(7), "worker_metric_names": int64(4),
	})
	if got := row["server_output_tokens"].(int64); got <= 0 || got >= 1000 {
		t.Errorf("%d tokens, want the workers'", got)
	}
	seen := map[string]bool{}
	for _, v := range s.samples {
		seen[fmt.Sprint(v.Role, v.Replica, v.Name)] = true
	}
	for _, want := range []string{"frontend0requests_running", "worker0w_running", "worker0http_requests_total"} {
		if !seen[want] {
			t.Errorf("no sample %s: %v", want, seen)
		}
	}
	if seen["worker0python_info"] {
		t.Error("what Python says of itself is a sample")
	}
	if len(s.artifacts) == 0 || len(s.codes) != 0 {
		t.Errorf("%d artifacts, findings %v", len(s.artifacts), s.codes)
	}
}

// One that hangs costs what is of all together, and its own; not the others'
// time.
func TestSession_oneHangs(t *testing.T) {
	t.Parallel()
	m := &profile(t, "vllm").Metrics
	var n atomic.Int64
	good := func(w http.ResponseWriter, _ *http.Request) { counting(w, n.Add(1)) }
	begun := time.Now()
	row, s, err := several(t, roles("prefill", "decode"), 5,
		target(t, "prefill", engine.TierEngine, m, good),
		target(t, "decode", engine.TierEngine, m, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
	)
	if err == nil || !strings.Contains(err.Error(), "no complete answer") {
		t.Errorf("error: %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	checkRow(t, row, result.Row{
		"server_output_tokens": nil, "max_requests_running": nil, "metric_lines": nil,
		"decode_server_output_tokens": nil, "prefill_metric_lines": int64(3),
	})
	if row["prefill_server_output_tokens"] == nil || row["prefill_max_requests_running"] == nil {
		t.Errorf("nothing of the one that answers: %v", row)
	}
	if !slices.Contains(s.codes, finding.MetricsMissing) {
		t.Errorf("findings: %v", s.codes)
	}
}

// Where the metrics are is found once; iteration statistics beside them are
// read once a look.
func TestSession_pathsAndIterations(t *testing.T) {
	m := &engine.Metrics{
		Path: "/prometheus/metrics", Fallback: []string{"/other"}, Iterations: "/metrics",
		Series:   map[string][]engine.Series{engine.GenerationTokens: {{Name: "trtllm_tokens_total"}}},
		Settings: map[string][]engine.Series{"max-batch-size": {{Name: "trtllm_max_batch"}}},
	}
	var missed, metrics, iterated atomic.Int64
	at := target(t, "server", engine.TierEngine, m, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "trtllm_tokens_total %d\ntrtllm_max_batch 2048\n", 10*metrics.Add(1))
		case "/metrics":
			n := iterated.Add(1)
			_ = json.NewEncoder(w).Encode([]map[string]any{
				{"numActiveRequests": 2 * n, "numQueuedRequests": 1, "kvCacheStats": map[string]any{"maxNumBlocks": 10, "usedNumBlocks": 5, "tokensPerBlock": 32}},
				{"numActiveRequests": 4 * n},
			})
		default:
			missed.Add(1)
			http.NotFound(w, r)
		}
	})
	at.Args = map[string]any{"max_batch_size": 64}
	var row result.Row
	var s *sink
	var bodies [][]byte
	for range 10 { // until the end of a session cuts off no look
		missed.Store(0)
		metrics.Store(0)
		iterated.Store(0)
		var err error
		if row, s, err = several(t, roles("server"), 10, at); err != nil {
			t.Fatal(err)
		}
		bodies = readArchive(t, s.artifacts["scrapes/server-0.prom.zst"])
		if n := metrics.Load(); n == iterated.Load() && n == int64(len(bodies)) {
			break
		}
	}
	if missed.Load() != 1 || metrics.Load() != iterated.Load() || metrics.Load() < 3 {
		t.Errorf("%d asked in vain, %d metrics, %d iterations", missed.Load(), metrics.Load(), iterated.Load())
	}
	looks := metrics.Load()
	checkRow(t, row, result.Row{
		"server_output_tokens": 10 * (looks - 1), "max_requests_running": float64(4 * (looks - 1)),
		"max_kv_cache_usage": 0.5, "kv_cache_tokens": int64(320),
	})
	if !slices.Equal(s.codes, []finding.Code{finding.SettingDiffers}) {
		t.Errorf("findings: %v", s.codes)
	}
	if len(bodies) != int(looks) {
		t.Errorf("%d bodies of %d looks", len(bodies), looks)
	}
}

// An argument that the plan gives one role alone is no deviation from the plan.
func TestSession_settingsOfRoles(t *testing.T) {
	m := &engine.Metrics{Path: "/metrics", Settings: map[string][]engine.Series{"max-num-seqs": {{Name: "seqs"}}}}
	runsWith := func(role string, seqs, plan int) collectors.Target {
		at := target(t, role, engine.TierEngine, m, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "seqs %d\n", seqs) })
		at.Args = map[string]any{"max_num_seqs": int64(plan)}
		return at
	}
	for name, want := range map[string][]finding.Code{"as given": {finding.PDUnknown}, "others": {finding.SettingDiffers, finding.PDUnknown}} {
		other := 32
		if len(want) > 1 {
			other = 16
		}
		_, s, err := several(t, roles("prefill", "decode"), 0, runsWith("prefill", 8, 8), runsWith("decode", other, 32))
		if err != nil || !slices.Equal(s.codes, want) {
			t.Errorf("%s: %v, findings %v", name, err, s.codes)
		}
	}
}

// The metrics of a role can be on a port of their own, seen from there.
func TestSession_ownPort(t *testing.T) {
	m := &profile(t, "vllm").Metrics
	real := target(t, "server", engine.TierEngine, m, func(w http.ResponseWriter, _ *http.Request) { counting(w, 1) })
	dialled := make(chan string, 100)
	elsewhere := collectors.Target{
		Role: "server", Tier: engine.TierEngine, Metrics: m, MetricsAddr: "10.9.8.7:8081",
		Host: &inside{place: &place{url: "http://127.0.0.1:1"}, to: strings.TrimPrefix(real.Host.URL(), "http://"), dialled: dialled},
	}
	row, _, err := several(t, roles("server"), 0, elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if row["server_output_tokens"] != int64(0) {
		t.Errorf("row: %v", row)
	}
	if got := <-dialled; got != "10.9.8.7:8081" {
		t.Errorf("dialled %s", got)
	}
}

// inside is a host in a network of its own.
type inside struct {
	*place
	to      string
	dialled chan<- string
}

func (h *inside) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	h.dialled <- addr
	return new(net.Dialer).DialContext(ctx, network, h.to)
}

// The statistics of iterations of a given server are left to its owner, and every
// request to it is counted.
func TestSession_given(t *testing.T) {
	for _, given := range []bool{false, true} {
		m := &engine.Metrics{Path: "/prometheus/metrics", Iterations: "/metrics", Series: map[string][]engine.Series{engine.GenerationTokens: {{Name: "tokens_total"}}}}
		var metrics, iterated, asked atomic.Int64
		at := target(t, "server", engine.TierEngine, m, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/moved":
				fmt.Fprintf(w, "tokens_total %d\n", metrics.Add(1))
			case "/prometheus/metrics":
				metrics.Add(1)
				http.Redirect(w, r, "/moved", http.StatusFound)
			default:
				iterated.Add(1)
				fmt.Fprint(w, "[]")
			}
		})
		c, err := New(Config{Interval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		session, err := c.Start(t.Context(), collectors.Trial{
			Targets: []collectors.Target{at}, Profile: roles("server"), Anchor: result.NewAnchor(),
			Given: given, Asked: func() { asked.Add(1) },
		}, new(sink))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if read := iterated.Load() > 0; read == given || asked.Load() != metrics.Load()+iterated.Load() {
			t.Errorf("given %v: %d metrics and %d statistics, and %d were counted", given, metrics.Load(), iterated.Load(), asked.Load())
		}
	}
}

package prom

import (
	gocmp "cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/collectors/quantities"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// seen returns a source that answered all of these bodies, the first and the last
// at rest; "" is a look that failed.
func seen(t *testing.T, role, tier string, m *engine.Metrics, bodies ...string) *server {
	t.Helper()
	s := &server{Source: quantities.Source{Role: role, Tier: tier, Windows: []*quantities.Window{quantities.NewWindow(m)}, Apart: 10}}
	for i, src := range bodies {
		loaded := i > 0 && i < len(bodies)-1
		if src == "" {
			continue
		}
		e := parse(t, src)
		s.Windows[0].Observe(quantities.Body{Exposition: e, Round: i, Loaded: loaded, Whole: true})
		s.lines = nil
		if loaded {
			s.Answered = append(s.Answered, i)
		} else {
			s.lines = count(e)
		}
	}
	s.Bracketed = len(bodies) > 1 && bodies[0] != "" && bodies[len(bodies)-1] != ""
	return s
}

func roles(names ...string) *engine.Profile {
	p := &engine.Profile{}
	for _, n := range names {
		p.Roles = append(p.Roles, engine.Role{Name: n})
	}
	return p
}

// Two replicas: counters and requests are added up, of a share the mean by the
// size of the cache and the fullest count.
func TestMerge_replicas(t *testing.T) {
	m := &profile(t, "vllm").Metrics
	at := func(running, usage float64, tokens, blocks, hits, queries int) string {
		return fmt.Sprintf(`vllm:num_requests_running %v
vllm:kv_cache_usage_perc %v
vllm:generation_tokens_total %d
vllm:cache_config_info{num_gpu_blocks="%d",block_size="16"} 1
vllm:prefix_cache_hits_total %d
vllm:prefix_cache_queries_total %d
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="1"} %[3]d
vllm:time_to_first_token_seconds_bucket{le="+Inf"} %[3]d
vllm:time_to_first_token_seconds_sum %[3]d
vllm:time_to_first_token_seconds_count %[3]d
`, running, usage, tokens, blocks, hits, queries)
	}
	sources := []*server{
		seen(t, "server", engine.TierEngine, m, at(0, 0, 100, 300, 0, 0), at(4, 0.4, 110, 300, 0, 0), at(6, 0.8, 120, 300, 0, 0), at(0, 0, 130, 300, 90, 100)),
		seen(t, "server", engine.TierEngine, m, at(0, 0, 0, 100, 0, 0), at(1, 0.8, 5, 100, 0, 0), at(3, 0.0, 8, 100, 0, 0), at(0, 0, 10, 100, 0, 900)),
	}
	checkRow(t, makeRow(roles("server"), sources), result.Row{
		"mean_requests_running":   7.0, // 5 and 9
		"max_requests_running":    9.0, // never 6 + 3 of other moments
		"mean_kv_cache_usage":     0.55,
		"max_kv_cache_usage":      0.8,
		"kv_cache_blocks":         int64(400),
		"kv_cache_tokens":         int64(6400),
		"server_output_tokens":    int64(40),
		"server_throughput_tok_s": 4.0,
		"prefix_cache_hit_rate":   0.09, // 90 of 1000, not the mean of 0.9 and 0
		"mean_server_ttft_ms":     1000.0,
		"p50_server_ttft_ms":      nil,
		"metric_lines":            int64(20),
		"metric_names":            int64(9),
		"metric_lines_vllm":       int64(20),
		"metric_names_vllm":       int64(9),
		"metric_lines_sglang":     int64(0),

		"server_percentile_bounds": "p50_server_ttft_ms < 1000, p95_server_ttft_ms < 1000, p99_server_ttft_ms < 1000",
	})

	// Of one of them nothing is known: then nothing is of both together.
	gone := seen(t, "server", engine.TierEngine, m, "", "", "")
	checkRow(t, makeRow(roles("server"), []*server{sources[0], gone}), result.Row{
		"mean_requests_running": nil, "max_requests_running": nil, "max_kv_cache_usage": nil,
		"server_output_tokens": nil, "mean_server_ttft_ms": nil, "kv_cache_blocks": nil, "metric_lines": nil,
		"metric_lines_vllm": nil, "metric_names_sglang": nil, "server_percentile_bounds": nil,
	})
	// It failed at the end: what its gauges showed counts all the same.
	late := seen(t, "server", engine.TierEngine, m, at(0, 0, 0, 100, 0, 0), at(1, 0, 5, 100, 0, 0), "", "")
	checkRow(t, makeRow(roles("server"), []*server{sources[0], late}), result.Row{
		"mean_requests_running": 5.0, // of the one round that both answered
		"server_output_tokens":  nil,
	})
}

// A frontend's count of the same requests is never added to the engines' counts,
// and is used only if they report none.
func TestMerge_tiers(t *testing.T) {
	worker := &engine.Metrics{Path: "/metrics", Series: map[string][]engine.Series{
		engine.GenerationTokens: {{Name: "w_tokens_total"}},
		engine.RequestsFinished: {{Name: "w_requests_total"}},
		engine.TransportUp:      {{Name: "w_state"}},
		engine.Uptime:           {{Name: "w_uptime"}},
	}}
	front := &engine.Metrics{Path: "/metrics", Series: map[string][]engine.Series{
		engine.GenerationTokens: {{Name: "f_tokens_total"}},
		engine.RequestsWaiting:  {{Name: "f_queued"}},
		engine.E2E:              {{Name: "f_duration_seconds"}},
	}}
	p := roles("frontend", "prefill", "decode-worker")
	p.Totals = map[string][]string{engine.RequestsFinished: {"decode-worker"}}
	at := func(tokens, requests, state, uptime int) string {
		return fmt.Sprintf("w_tokens_total %d\nw_requests_total %d\nw_state %d\nw_uptime %d\n", tokens, requests, state, uptime)
	}
	frontAt := func(tokens, n int) string {
		return fmt.Sprintf("f_tokens_total %d\nf_queued %d\n# TYPE f_duration_seconds histogram\nf_duration_seconds_bucket{le=\"+Inf\"} %[2]d\nf_duration_seconds_sum %[2]d\n", tokens, n)
	}
	sources := []*server{
		seen(t, "frontend", engine.TierFrontend, front, frontAt(0, 0), frontAt(50, 2), frontAt(101, 4)),
		seen(t, "prefill", engine.TierEngine, worker, at(0, 0, 1, 10), at(2, 2, 1, 15), at(4, 4, 1, 20)),
		seen(t, "decode-worker", engine.TierEngine, worker, at(0, 0, 1, 40), at(50, 2, 2, 45), at(100, 4, 1, 50)),
	}
	row := makeRow(p, sources)
	checkRow(t, row, result.Row{
		"server_output_tokens":               int64(104), // both workers, no frontend
		"server_requests":                    int64(4),   // as the profile says
		"max_requests_waiting":               2.0,        // the frontend's: no engine has one
		"mean_server_e2e_ms":                 1000.0,
		"transport_up":                       false, // one look saw it reconnect
		"engine_uptime_s":                    20.0,  // the youngest
		"frontend_server_output_tokens":      int64(101),
		"frontend_transport_up":              nil,
		"prefill_server_output_tokens":       int64(4),
		"prefill_max_requests_waiting":       nil,
		"prefill_transport_up":               true,
		"decode_worker_server_output_tokens": int64(100),
		"decode_worker_engine_uptime_s":      50.0,
		"metric_lines":                       int64(12),
		"metric_names":                       int64(8),
		"prefill_metric_lines":               int64(4),
	})
	for name := range emptyRow(p) {
		if _, ok := row[name]; !ok {
			t.Errorf("the row lacks %s", name)
		}
	}
	types := make(map[string]result.Type)
	for _, c := range result.Columns(result.Extra{Roles: []string{"frontend", "prefill", "decode-worker"}}) {
		types[c.Name] = c.Type
	}
	for name := range row {
		if types[name] == "" {
			t.Errorf("%s is no column of the cells table", name)
		}
	}
}

// Every column of the server is one of this collector, but for those of a stack's pods.
func TestRow_registry(t *testing.T) {
	row := emptyRow(roles("a", "b"))
	for _, c := range result.Columns(result.Extra{Roles: []string{"a", "b"}}) {
		if base, ok := strings.CutPrefix(c.Name, "a_"); ok && base != col.Pods && base != col.PodRestarts {
			for _, name := range []string{c.Name, base, "b_" + base} {
				if _, ok := row[name]; !ok {
					t.Errorf("the row lacks %s", name)
				}
			}
		}
	}
	const once = 3 // of prefill and decode together
	if n := len(emptyRow(roles("a"))); 3*(n-once) != len(row)-once {
		t.Errorf("a single role has %d columns, two have %d", n, len(row))
	}
}

func TestRow_counters(t *testing.T) {
	m := &engine.Metrics{Path: "/metrics", Series: map[string][]engine.Series{
		engine.SpecDrafted:     {{Name: "drafted_total"}},
		engine.SpecAccepted:    {{Name: "accepted_total"}},
		engine.SpecAcceptRate:  {{Name: "rate"}},
		engine.KVTransfer:      {{Name: "transfer_ms", Scale: 0.001}},
		engine.KVTransferred:   {{Name: "moved_mb_sum", Scale: 1e6}},
		engine.RequestsFailed:  {{Name: "requests_total", Not: map[string][]string{"reason": {"stop", "length"}}}},
		engine.RequestsRunning: {{Name: "running"}},

		engine.GenerationPerSecond: {{Name: "throughput"}},
		engine.DecodePreallocQueue: {{Name: "prealloc"}},
		engine.TransportErrors:     {{Name: "errors_total"}},
	}}
	at := func(n int, running, throughput float64) string {
		return fmt.Sprintf(`drafted_total %d
accepted_total %d
rate 0.9
# TYPE transfer_ms histogram
transfer_ms_bucket{le="10"} %[2]d
transfer_ms_bucket{le="20"} %[1]d
transfer_ms_bucket{le="+Inf"} %[1]d
transfer_ms_sum %[3]d
# TYPE moved_mb histogram
moved_mb_bucket{le="+Inf"} %[1]d
moved_mb_sum %[1]d
requests_total{reason="stop"} 100
requests_total{reason="abort"} %[2]d
running %[4]v
throughput %[5]v
prealloc %[1]d
`, 2*n, n, 20*n, running, throughput)
	}
	s := seen(t, "server", engine.TierEngine, m, at(0, 0, 0), at(1, 2, 400), at(2, 2, 0), at(3, 2, 500), at(4, 0, 500), at(10, 0, 500))
	checkRow(t, makeRow(roles("server"), []*server{s}), result.Row{
		"spec_accept_rate":                 0.5, // counted, not what the gauge claims
		"mean_kv_transfer_ms":              10.0,
		"p95_kv_transfer_ms":               19.0,
		"kv_transfer_bytes":                int64(20e6),
		"server_requests_failed":           int64(10),
		"max_decode_prealloc_queue":        8.0,
		"transport_errors":                 nil,
		"server_reported_throughput_tok_s": 450.0, // while it was at work
	})
}

func TestDiffering(t *testing.T) {
	m := &engine.Metrics{Prefixes: []string{"vllm:", "vllm_"}, Settings: map[string][]engine.Series{
		"block-size":             {{Name: "vllm:cache_config_info", Label: "block_size"}},
		"gpu-memory-utilization": {{Name: "vllm:cache_config_info", Label: "gpu_memory_utilization"}},
		"enable-prefix-caching":  {{Name: "vllm:cache_config_info", Label: "enable_prefix_caching"}},
		"kv-cache-dtype":         {{Name: "vllm:cache_config_info", Label: "cache_dtype"}},
		"max-num-seqs":           {{Name: "max_num_seqs"}},
	}}
	e := parse(t, `vllm_cache_config_info{block_size="128",gpu_memory_utilization="0.90",enable_prefix_caching="True",cache_dtype="auto"} 1
max_num_seqs{model="a"} 256
max_num_seqs{model="b"} 256
`)
	for _, tt := range []struct {
		args map[string]any
		want []string
	}{
		{map[string]any{"block_size": 128, "gpu-memory-utilization": 0.9, "enable-prefix-caching": true, "kv-cache-dtype": "fp8", "max-num-seqs": uint64(256)}, nil},
		{map[string]any{"block-size": "auto", "other": 1}, nil},
		{map[string]any{"block-size": "1K"}, nil}, // not comparable
		{map[string]any{"enable-prefix-caching": "true", "max-num-seqs": 256.0}, nil},
		{map[string]any{"block-size": 16, "enable-prefix-caching": false, "max-num-seqs": int64(64)}, []string{
			"block-size is 128, the plan says 16", "enable-prefix-caching is True, the plan says false", "max-num-seqs is 256, the plan says 64",
		}},
	} {
		if diff := cmp.Diff(tt.want, differing(m, tt.args, e)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.args, diff)
		}
	}
}

// trtllm-serve's queue of iterations: every entry counts, and what was in the
// queue before the trial does not.
func TestIterations(t *testing.T) {
	entry := func(active, queued, used, reused, missed int) string {
		return fmt.Sprintf(`{"iter":7,"timestamp":"08-01-2026 12:00:00","numActiveRequests":%d,"numQueuedRequests":%d,"kvCacheStats":{"maxNumBlocks":100,"usedNumBlocks":%d,"tokensPerBlock":32,"reusedBlocks":%d,"missedBlocks":%d}}`, active, queued, used, reused, missed)
	}
	w := quantities.NewWindow(&iterations)
	take := func(round int, loaded bool, src string) {
		t.Helper()
		entries, err := parseIterations([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			w.Observe(quantities.Body{Exposition: e, Round: round, Loaded: loaded, Whole: true})
		}
	}
	take(1, false, "["+entry(0, 0, 0, 100, 100)+"]")
	take(2, true, "["+entry(2, 0, 10, 110, 110)+","+entry(4, 3, 30, 120, 110)+"]")
	take(3, true, "["+entry(6, 0, 20, 130, 120)+"]")
	take(4, true, "[]")
	take(5, false, "["+entry(0, 0, 0, 160, 120)+"]")
	s := &server{Source: quantities.Source{
		Role: "server", Tier: engine.TierEngine,
		Windows: []*quantities.Window{quantities.NewWindow(&engine.Metrics{}), w}, Bracketed: true, Apart: 1, Answered: []int{2, 3, 4},
	}}
	checkRow(t, makeRow(roles("server"), []*server{s}), result.Row{
		"mean_requests_running": 4.5, // 3 and 6
		"max_requests_running":  6.0,
		"max_requests_waiting":  3.0,
		"max_kv_cache_usage":    0.3,
		"kv_cache_blocks":       int64(100),
		"kv_cache_tokens":       int64(3200),
		"prefix_cache_hit_rate": 0.75,
	})
	for _, bad := range []string{"", "{}", "<html>", `[1]`, "vllm:x 1\n"} {
		if _, err := parseIterations([]byte(bad)); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

// A restart of one of several servers is seen.
func TestMerge_restart(t *testing.T) {
	m := &profile(t, "vllm").Metrics
	at := func(n int) string { return fmt.Sprintf("vllm:generation_tokens_total %d\n", n) }
	s := seen(t, "server", engine.TierEngine, m, at(5), at(9), at(3))
	if s.Windows[0].Restarted == "" {
		t.Error("nobody says that it restarted")
	}
	checkRow(t, makeRow(roles("server"), []*server{s}), result.Row{"server_output_tokens": int64(7)})
}

// The start of a process is its uptime where the engine does not say that.
func TestWindow_uptime(t *testing.T) {
	m := &profile(t, "vllm").Metrics
	w := quantities.NewWindow(m)
	w.Observe(quantities.Body{Exposition: parse(t, "process_start_time_seconds 1700000000\n"), Whole: true, Now: 1700000042})
	s := &server{Source: quantities.Source{Role: "server", Tier: engine.TierEngine, Windows: []*quantities.Window{w}, Bracketed: true, Apart: 1}}
	checkRow(t, makeRow(roles("server"), []*server{s}), result.Row{"engine_uptime_s": 42.0})
}

// Dynamo's frontend, prefill and decode workers each saw the same seven requests in
// this recording. The merged count is seven and not twenty-one.
func TestMerge_recordedDynamo(t *testing.T) {
	p := profile(t, "dynamo-disagg")
	var servers []*server
	for _, r := range p.Roles {
		src := recordtest.Read(t, "recorded__dynamo-1.6.1-disagg__"+r.Name+"-metrics.txt")
		servers = append(servers, seen(t, r.Name, gocmp.Or(r.Tier, engine.TierEngine), p.MetricsOf(r.Name), "nothing_yet 0\n", string(src)))
	}
	row := makeRow(p, servers)
	checkRow(t, row, result.Row{
		"server_requests":               int64(7),
		"decode_server_requests":        int64(7),
		"prefill_server_requests":       int64(7), // without what the router asked it
		"frontend_server_requests":      int64(7),
		"decode_server_request_bytes":   int64(10673),
		"prefill_server_request_bytes":  int64(9189),
		"decode_server_response_bytes":  int64(12953),
		"decode_engine_uptime_s":        39.438556413,
		"prefill_engine_uptime_s":       39.429159142,
		"engine_uptime_s":               39.429159142,
		"frontend_server_output_tokens": int64(75),
		"frontend_server_input_tokens":  int64(668),
		"frontend_max_requests_running": nil, // no look under load
		"decode_mean_server_tpot_ms":    nil,
		"server_output_tokens":          int64(75),
		"server_input_tokens":           int64(668),
		"prefill_server_output_tokens":  nil,
		"decode_prefix_cache_hit_rate":  nil,
		"transport_errors":              int64(0),
		"frontend_metric_lines":         int64(806),
		"decode_metric_lines":           int64(153),
		"metric_lines":                  int64(1062),
	})
}

// The metrics of one of two replicas never count for both.
func TestMerge_oneOfTwo(t *testing.T) {
	m := &profile(t, "vllm").Metrics
	at := func(running, tokens int) string {
		return fmt.Sprintf("vllm:num_requests_running %d\nvllm:generation_tokens_total %d\n", running, tokens)
	}
	ttft := func(n int, bounds ...string) string {
		s := fmt.Sprintf("# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_sum %d\nvllm:time_to_first_token_seconds_count %[1]d\n", n)
		for _, le := range append(bounds, "+Inf") {
			s += fmt.Sprintf("vllm:time_to_first_token_seconds_bucket{le=%q} %d\n", le, n)
		}
		return s
	}
	good := seen(t, "server", engine.TierEngine, m, at(0, 100)+ttft(0, "1", "2"), at(4, 110), at(4, 120), at(0, 130)+ttft(10, "1", "2"))
	for name, c := range map[string]struct {
		bodies []string
		want   result.Row
	}{
		"it begins again": {
			[]string{at(0, 100), at(2, 110), at(2, 5), at(0, 8)},
			result.Row{"server_output_tokens": int64(30 + 10 + 8), "mean_requests_running": 6.0},
		},
		"it answers late": {
			[]string{"", "", at(2, 5), at(0, 8)},
			result.Row{"server_output_tokens": nil, "mean_requests_running": 6.0},
		},
		"it tells late": { // it had nothing to count before
			[]string{"up 1\n", "up 1\n", at(2, 5), at(0, 8)},
			result.Row{"server_output_tokens": int64(38), "mean_requests_running": 5.0},
		},
		"a look without its gauge": {
			[]string{at(2, 0), at(2, 5), "vllm:generation_tokens_total 6\n", at(0, 8)},
			result.Row{"server_output_tokens": int64(38), "mean_requests_running": 6.0},
		},
		"other bounds": {
			[]string{at(0, 0) + ttft(0, "1", "4"), at(2, 5), at(2, 6), at(0, 8) + ttft(10, "1", "4")},
			result.Row{"mean_server_ttft_ms": 1000.0, "p50_server_ttft_ms": nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := seen(t, "server", engine.TierEngine, m, c.bodies...)
			checkRow(t, makeRow(roles("server"), []*server{good, other}), c.want)
			checkRow(t, makeRow(roles("server"), []*server{other, good}), c.want)
		})
	}
}

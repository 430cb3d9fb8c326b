package prom

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sweep.dev/sweep/collectors/quantities"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/result"
)

func profile(t *testing.T, name string) *engine.Profile {
	t.Helper()
	p, ok := engine.Lookup(name)
	if !ok {
		t.Fatalf("no profile %q", name)
	}
	return p
}

func parse(t *testing.T, body string) *exposition.Exposition {
	t.Helper()
	e, err := exposition.Parse([]byte(body), true)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// through returns a window that saw bodies: the first and the last at rest, the
// others under load.
func through(t *testing.T, engineName string, bodies ...string) *quantities.Window {
	t.Helper()
	w := quantities.NewWindow(&profile(t, engineName).Metrics)
	for i, b := range bodies {
		w.Observe(quantities.Body{Exposition: parse(t, b), Round: i, Loaded: i > 0 && i < len(bodies)-1, Whole: true})
	}
	return w
}

// rowOf returns that of a single server.
func rowOf(w *quantities.Window, bracketed bool, apart time.Duration) result.Row {
	s := &server{Source: quantities.Source{
		Role: "server", Tier: engine.TierEngine, Windows: []*quantities.Window{w}, Bracketed: bracketed, Apart: apart.Seconds(),
	}}
	for i := 1; i < w.Bodies-1; i++ {
		s.Answered = append(s.Answered, i)
	}
	return makeRow(&engine.Profile{}, []*server{s})
}

func checkRow(t *testing.T, row, want result.Row) {
	t.Helper()
	got := result.Row{}
	for name := range want {
		v, ok := row[name]
		if !ok {
			t.Errorf("the row lacks %s", name)
		}
		got[name] = v
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWindow_vllm(t *testing.T) {
	body := func(tokens, ttftSum, hits int, running float64) string {
		return fmt.Sprintf(`# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0"} %d
vllm:generation_tokens_total{engine="1"} 10
vllm:num_preemptions_total{engine="0"} 2
vllm:prefix_cache_queries_total{engine="0"} %d
vllm:prefix_cache_hits_total{engine="0"} %d
vllm:num_requests_running{engine="0"} %v
vllm:num_requests_running{engine="1"} 1
vllm:kv_cache_usage_perc{engine="0"} %v
vllm:kv_cache_usage_perc{engine="1"} 0.5
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} %d
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.2"} %d
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} %d
vllm:time_to_first_token_seconds_sum{engine="0"} %d
vllm:time_to_first_token_seconds_count{engine="0"} %d
`, tokens, 100+2*hits, hits, running, running/10, hits, 2*hits, 2*hits, ttftSum, 2*hits)
	}
	w := through(t, "vllm", body(100, 1, 10, 0), body(150, 1, 10, 4), body(180, 2, 10, 8), body(200, 4, 20, 0))
	checkRow(t, rowOf(w, true, 2*time.Second), result.Row{
		"server_output_tokens":    int64(100),
		"server_throughput_tok_s": 50.0,
		"preemptions":             int64(0),
		"prefix_cache_hit_rate":   0.5,
		"mean_requests_running":   7.0, // 5 and 9, both engines
		"max_requests_running":    9.0,
		"mean_requests_waiting":   nil,
		"mean_kv_cache_usage":     0.55, // (0.4 and 0.5), (0.8 and 0.5)
		"max_kv_cache_usage":      0.8,
		// 10 gained up to 0.1, 10 more up to 0.2, mean 3 s / 20
		"mean_server_ttft_ms": 150.0,
		"p50_server_ttft_ms":  nil, // of a bucket that begins at 0
		"p95_server_ttft_ms":  190.0,
		"p99_server_ttft_ms":  198.0,
		"p50_server_e2e_ms":   nil,

		"server_percentile_bounds": "p50_server_ttft_ms < 100",
	})
	if w.Restarted != "" || w.Vanished != "" {
		t.Errorf("restarted %q, vanished %q", w.Restarted, w.Vanished)
	}
	// Without both ends only the gauges mean something.
	checkRow(t, rowOf(w, false, 0), result.Row{
		"server_output_tokens": nil, "p50_server_ttft_ms": nil, "prefix_cache_hit_rate": nil, "preemptions": nil,
		"max_requests_running": 9.0,
	})
}

// The recorded metrics of each engine have the series that every release has.
func TestWindow_recorded(t *testing.T) {
	basics := []string{engine.RequestsRunning, engine.RequestsWaiting, engine.PromptTokens, engine.GenerationTokens, engine.PrefixHits, engine.PrefixQueries}
	histograms := []string{engine.TTFT, engine.ITL, engine.TPOT, engine.E2E, engine.Queue, engine.Prefill, engine.Decode}
	full := slices.Concat(basics, histograms, []string{engine.KVCacheUsage, engine.Preemptions, engine.RequestsFinished, engine.ProcessStart})
	for _, tt := range []struct {
		engine, file string
		want         []string
	}{
		{"vllm", "vllm-0.32.0", full},
		{"sim", "vllm-0.32.0", full},
		{"llamacpp", "llamacpp-b11549", append(basics, engine.GenerationPerSecond)},
	} {
		src := recordtest.Read(t, "recorded__"+tt.file+"__metrics.txt")
		w := quantities.NewWindow(&profile(t, tt.engine).Metrics)
		w.Observe(quantities.Body{Exposition: parse(t, string(src)), Loaded: true, Whole: true})
		for _, name := range tt.want {
			if !w.Has(name) {
				t.Errorf("%s: no %s", tt.file, name)
			}
		}
	}
}

// Engines expose 0 for what they do not know. Lines as SGLang 0.5 without
// speculation and Dynamo's workers print them.
func TestWindow_unmeasuredZeros(t *testing.T) {
	speculation := func(rate, length float64) string {
		return fmt.Sprintf("# TYPE sglang:spec_accept_rate gauge\nsglang:spec_accept_rate{model_name=\"m\",tp_rank=\"0\"} %g\n"+
			"# TYPE sglang:spec_accept_length gauge\nsglang:spec_accept_length{model_name=\"m\",tp_rank=\"0\"} %g\n", rate, length)
	}
	kvstats := func(blocks, usage, hits float64) string {
		const labels = `{dynamo_component="backend",dynamo_namespace="dynamo"}`
		return fmt.Sprintf("dynamo_component_kvstats_total_blocks%[1]s %[2]g\ndynamo_component_kvstats_gpu_cache_usage_percent%[1]s %[3]g\n"+
			"dynamo_component_kvstats_gpu_prefix_cache_hit_rate%[1]s %[4]g\n", labels, blocks, usage, hits)
	}
	for _, tt := range []struct {
		name, engine, role, body string
		want                     result.Row
		hitRate                  bool
	}{
		{"no speculation", "sglang", "", speculation(0, 0), result.Row{"spec_accept_rate": nil, "spec_accept_length": nil}, false},
		{"speculation that accepts nothing", "sglang", "", speculation(0, 1), result.Row{"spec_accept_rate": 0.0, "spec_accept_length": 1.0}, false},
		{"a KV cache in percent", "vllm", "", "vllm:kv_cache_usage_perc 87.58\n", result.Row{"mean_kv_cache_usage": nil, "max_kv_cache_usage": nil}, false},
		{"a rate above 1", "sglang", "", speculation(1.7, 2.5), result.Row{"spec_accept_rate": nil, "spec_accept_length": 2.5}, false},
		{"a worker of SGLang in Dynamo", "dynamo-sglang", "worker", kvstats(0, 0, 0), result.Row{"kv_cache_blocks": nil, "mean_kv_cache_usage": nil, "max_kv_cache_usage": nil}, false},
		{"a worker that fills them, at rest", "dynamo", "worker", kvstats(800, 0, 0), result.Row{"kv_cache_blocks": int64(800), "mean_kv_cache_usage": 0.0}, true},
		{"a hit rate of vLLM V0 without the cache", "vllm", "", "vllm:gpu_prefix_cache_hit_rate -1\n", result.Row{}, false},
		{"a hit rate of vLLM V0", "vllm", "", "vllm:gpu_prefix_cache_hit_rate 0\n", result.Row{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := quantities.NewWindow(profile(t, tt.engine).MetricsOf(tt.role))
			for i := range 3 {
				w.Observe(quantities.Body{Exposition: parse(t, tt.body), Round: i, Loaded: i == 1, Whole: true})
			}
			checkRow(t, rowOf(w, true, time.Second), tt.want)
			if w.Has(engine.PrefixHitRate) != tt.hitRate {
				t.Errorf("prefix_cache_hit_rate is known: %v", !tt.hitRate)
			}
		})
	}
}

// Lines of the servers that count by other names, or not before something happens.
func TestWindow_counted(t *testing.T) {
	const sglang = "sglang:prompt_tokens_total{model_name=\"m\"} %d\nsglang:num_requests_total{model_name=\"m\"} %d\n" +
		"sglang:realtime_tokens_total{mode=\"prefill_compute\",model_name=\"m\"} %d\nsglang:realtime_tokens_total{mode=\"prefill_cache\",model_name=\"m\"} %d\n"
	spec := func(accepted, drafted, drafts int) string {
		return fmt.Sprintf("vllm:spec_decode_num_accepted_tokens_total %d\nvllm:spec_decode_num_draft_tokens_total %d\nvllm:spec_decode_num_drafts_total %d\n", accepted, drafted, drafts)
	}
	prefix := func(hits, queries int) string {
		return fmt.Sprintf("vllm:prefix_cache_hits_total %d\nvllm:prefix_cache_queries_total %d\n", hits, queries)
	}
	for _, tt := range []struct {
		name, engine, role string
		bodies             []string
		want               result.Row
	}{
		{"SGLang without a hit, or a failure", "sglang", "", []string{
			fmt.Sprintf(sglang, 10, 1, 10, 0), fmt.Sprintf(sglang, 60, 6, 60, 0),
		}, result.Row{"prefix_cache_hit_rate": 0.0, "server_requests_failed": int64(0)}},
		{"SGLang with its first hits and failures", "sglang", "", []string{
			fmt.Sprintf(sglang, 10, 1, 10, 0),
			fmt.Sprintf(sglang, 60, 6, 40, 20) + "sglang:cached_tokens_total{model_name=\"m\"} 20\nsglang:num_aborted_requests_total{model_name=\"m\"} 2\n",
		}, result.Row{"prefix_cache_hit_rate": 0.4, "server_requests_failed": int64(2)}},
		{"SGLang after them", "sglang", "", []string{
			fmt.Sprintf(sglang, 10, 1, 5, 5) + "sglang:cached_tokens_total{model_name=\"m\"} 5\n",
			fmt.Sprintf(sglang, 60, 6, 45, 15) + "sglang:cached_tokens_total{model_name=\"m\"} 15\n",
		}, result.Row{"prefix_cache_hit_rate": 0.2}},
		{"vLLM V0 without a failure", "vllm", "", []string{
			"vllm:request_success_total{finished_reason=\"stop\"} 1\n", "vllm:request_success_total{finished_reason=\"stop\"} 3\n",
		}, result.Row{"server_requests": int64(2), "server_requests_failed": int64(0)}},
		{"vLLM with speculation", "vllm", "", []string{spec(10, 30, 10), spec(70, 90, 30)}, result.Row{"spec_accept_rate": 1.0, "spec_accept_length": 4.0}},
		{"vLLM with speculation that accepts nothing", "vllm", "", []string{spec(0, 0, 0), spec(0, 60, 20)}, result.Row{"spec_accept_rate": 0.0, "spec_accept_length": 1.0}},
		{"vLLM without speculation", "vllm", "", []string{spec(0, 0, 0), spec(0, 0, 0)}, result.Row{"spec_accept_rate": nil, "spec_accept_length": nil}},
		{"more accepted than proposed", "vllm", "", []string{spec(0, 0, 0), spec(90, 60, 30)}, result.Row{"spec_accept_rate": nil, "spec_accept_length": 4.0}},
		{"more found than looked up", "vllm", "", []string{prefix(0, 0), prefix(9, 6)}, result.Row{"prefix_cache_hit_rate": nil}},
		{"endpoints of a Dynamo worker", "dynamo", "worker", []string{
			"dynamo_component_nats_service_active_endpoints{service_name=\"a\"} 2\n", "dynamo_component_nats_service_active_endpoints{service_name=\"a\"} 3\n",
		}, result.Row{"active_endpoints": int64(3)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := quantities.NewWindow(profile(t, tt.engine).MetricsOf(tt.role))
			for i, b := range tt.bodies {
				w.Observe(quantities.Body{Exposition: parse(t, b), Round: i, Whole: true})
			}
			checkRow(t, rowOf(w, true, time.Second), tt.want)
		})
	}
}

// Counts in blocks, of TensorRT-LLM and of vLLM before 0.9, are not called tokens, neither
// in the samples nor in the text.
func TestWindow_units(t *testing.T) {
	for _, tt := range []struct{ engine, body, want string }{
		{"vllm", "vllm:prefix_cache_hits_total 3\n", "tokens"},
		{"vllm", "vllm:gpu_prefix_cache_hits_total 3\n", "blocks"},
		{"trtllm", "trtllm_kv_cache_reused_blocks_total 3\n", "blocks"},
	} {
		e := parse(t, tt.body)
		x := Explain([]*engine.Profile{profile(t, tt.engine)}, e, true)
		if got := x.Families[0].Readings[0]; got.Unit != tt.want {
			t.Errorf("%s: %+v", tt.body, got)
		}
		sink := &sink{}
		s := &session{sink: sink}
		w := &watch{server: server{Source: quantities.Source{Windows: []*quantities.Window{quantities.NewWindow(&profile(t, tt.engine).Metrics)}}}, names: make(map[string]bool)}
		w.Windows[0].Observe(quantities.Body{Exposition: e, Whole: true})
		s.samples(w, &scrape{exposition: e})
		if len(sink.samples) == 0 || sink.samples[0].Name != engine.PrefixHits && sink.samples[0].Name != engine.PrefixQueries || sink.samples[0].Unit != tt.want {
			t.Errorf("%s: %+v", tt.body, sink.samples)
		}
	}
}

func TestWindow_llamacppHitRate(t *testing.T) {
	body := func(computed, cached int) string {
		return fmt.Sprintf("# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total %d\n# TYPE llamacpp:prompt_tokens_cached_total counter\nllamacpp:prompt_tokens_cached_total %d\n", computed, cached)
	}
	w := through(t, "llamacpp", body(100, 0), body(130, 10))
	checkRow(t, rowOf(w, true, time.Second), result.Row{"prefix_cache_hit_rate": 0.25})
}

func TestWindow_restarts(t *testing.T) {
	tests := []struct {
		name   string
		bodies []string
		want   string // in how it was seen
		gain   any
	}{
		{"none", []string{"vllm:generation_tokens_total 5\n", "vllm:generation_tokens_total 5\n", "vllm:generation_tokens_total 9\n"}, "", int64(4)},
		{"a counter fell and passed itself again", []string{"vllm:generation_tokens_total 5\n", "vllm:generation_tokens_total 2\n", "vllm:generation_tokens_total 9\n"}, "fell", int64(9)},
		{"process start", []string{"process_start_time_seconds 1700000000\n", "process_start_time_seconds 1700000100\n"}, "process started", nil},
		{"the same start in other digits", []string{"process_start_time_seconds 1.70000000012e9\n", "process_start_time_seconds 1.7e9\n"}, "", nil},
		{"created", []string{"vllm:generation_tokens_total 5\nvllm:generation_tokens_created 100\n", "vllm:generation_tokens_total 9\nvllm:generation_tokens_created 200\n"}, "_created moved", int64(4)},
		{"a histogram fell", []string{"vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} 5\n", "vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} 3\n"}, "fell", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := through(t, "vllm", tt.bodies...)
			if (w.Restarted == "") != (tt.want == "") || !strings.Contains(w.Restarted, tt.want) {
				t.Errorf("restarted: %q, want %q", w.Restarted, tt.want)
			}
			checkRow(t, rowOf(w, true, time.Second), result.Row{"server_output_tokens": tt.gain})
		})
	}
}

// A series that shows up later began at zero, but only if it cannot have been
// missed before.
func TestWindow_lazySeries(t *testing.T) {
	const other = "vllm:num_requests_running 1\n"
	tests := []struct {
		name  string
		first string
		whole bool
		want  any
	}{
		{"complete first body", other, true, int64(7)},
		{"a first body that nobody vouches for", other, false, nil},
		{"a first body with a bad line", other + "vllm:generation_tokens_total 1_000\n", true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := quantities.NewWindow(&profile(t, "vllm").Metrics)
			w.Observe(quantities.Body{Exposition: parse(t, tt.first), Whole: tt.whole})
			w.Observe(quantities.Body{Exposition: parse(t, other+"vllm:generation_tokens_total 7\n"), Whole: true})
			checkRow(t, rowOf(w, true, time.Second), result.Row{"server_output_tokens": tt.want})
		})
	}
}

func TestWindow_vanished(t *testing.T) {
	w := through(t, "vllm",
		"vllm:generation_tokens_total{engine=\"0\"} 5\nvllm:generation_tokens_total{engine=\"1\"} 5\n",
		"vllm:generation_tokens_total{engine=\"0\"} 9\n")
	if w.Vanished == "" {
		t.Error("a series vanished and nobody says so")
	}
	checkRow(t, rowOf(w, true, time.Second), result.Row{"server_output_tokens": nil})
}

func TestWindow_headerStart(t *testing.T) {
	w := quantities.NewWindow(&profile(t, "llamacpp").Metrics)
	w.Observe(quantities.Body{Exposition: parse(t, "llamacpp:tokens_predicted_total 1\n"), Whole: true, ProcessStart: 1700000000})
	w.Observe(quantities.Body{Exposition: parse(t, "llamacpp:tokens_predicted_total 2\n"), Whole: true, ProcessStart: 1700000060})
	if w.Restarted == "" {
		t.Error("a new process was not noticed")
	}
}

// Of two names for one thing only one counts, and always the same.
func TestWindow_names(t *testing.T) {
	w := through(t, "vllm",
		"vllm:kv_cache_usage_perc 0\n",
		"vllm:kv_cache_usage_perc 0.5\nvllm:gpu_cache_usage_perc 0.5\n",
		"vllm:gpu_cache_usage_perc 0.9\n", "vllm:kv_cache_usage_perc 0\n")
	checkRow(t, rowOf(w, true, time.Second), result.Row{"mean_kv_cache_usage": 0.5, "max_kv_cache_usage": 0.5})
}

func TestHistogram_differentBounds(t *testing.T) {
	body := func(n int) string {
		return fmt.Sprintf(`# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="1"} %[1]d
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf"} %[1]d
vllm:e2e_request_latency_seconds_sum{engine="0"} %[1]d
vllm:e2e_request_latency_seconds_bucket{engine="1",le="2"} %[1]d
vllm:e2e_request_latency_seconds_bucket{engine="1",le="+Inf"} %[1]d
vllm:e2e_request_latency_seconds_sum{engine="1"} %[1]d
`, n)
	}
	w := through(t, "vllm", body(0), body(10))
	checkRow(t, rowOf(w, true, time.Second), result.Row{"mean_server_e2e_ms": 1000.0, "p50_server_e2e_ms": nil})
}

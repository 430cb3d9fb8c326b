package fleet_test

import (
	"bufio"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/recordtest"
)

// An aggregated deployment: one frontend, two workers, found by a directory.
func aggregated(t *testing.T, more ...string) (frontend *process, workers []*process) {
	dir := t.TempDir()
	frontend = dynamo(t, "frontend", append([]string{"--discovery=" + dir}, more...)...)
	for range 2 {
		workers = append(workers, dynamo(t, "worker", "--discovery="+dir))
	}
	serving(t, frontend)
	until(t, "both workers are known", frontend, func() bool { _, b := get(t, frontend.url+"/health"); return strings.Count(b, "instance_id") == 2 })
	return frontend, workers
}

func TestDynamo_withoutWorkers(t *testing.T) {
	f := dynamo(t, "frontend", "--worker-urls=http://127.0.0.1:1")
	until(t, "the frontend answers", f, func() bool { code, _ := get(t, f.url+"/live"); return code == 200 })
	if code, body := get(t, f.url+"/health"); code != 200 || !strings.Contains(body, `"status":"healthy"`) || !strings.Contains(body, `"instances":[]`) {
		t.Errorf("/health: %d %s", code, body)
	}
	if code, body := get(t, f.url+"/v1/models"); code != 200 || body != `{"data":[],"object":"list"}` {
		t.Errorf("/v1/models: %d %s", code, body)
	}
	if status, _ := post(t, f.url+"/v1/chat/completions", fmt.Sprintf(chat, "x", 1)); status != 404 {
		t.Errorf("a model that nobody serves: %d", status)
	}
	if strings.Contains(f.log.String(), "added model") {
		t.Error("a model was added without a worker")
	}
}

func TestDynamo_stream(t *testing.T) {
	f, workers := aggregated(t)
	profile, _ := engine.Lookup("dynamo")
	if !regexp.MustCompile(profile.Ready.Line).MatchString(f.log.String()) {
		t.Errorf("log:\n%s", f.log)
	}
	a := ask(t, f.url, fmt.Sprintf(chat, "hello", 12))
	if got, want := keySets(a.chunks), keySets(recordedChunks(t, "recorded__dynamo-1.6.1__chat.sse")); !slices.Equal(got, want) {
		t.Errorf("events are\n%s\nrecorded\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if u := a.usage(t); u["completion_tokens"] != 12.0 || !a.done || len(a.chunks) != 14 {
		t.Errorf("%d events, %v, done %v", len(a.chunks), u, a.done)
	}
	// An answer of a worker is the same through the frontend.
	alone := start(t, append([]string{"--engine=vllm"}, engineArgs...)...)
	until(t, "the engine answers", alone, func() bool { code, _ := get(t, alone.url+"/health"); return code == 200 })
	if b := ask(t, alone.url, fmt.Sprintf(chat, "hello", 12)); b.text != a.text {
		t.Errorf("%q, alone %q", a.text, b.text)
	}
	ask(t, f.url, fmt.Sprintf(chat, "hello again", 12))
	for i, w := range workers { // round robin
		if n := value(t, w, "dynamo_component_requests_total", "dynamo_endpoint", "generate"); n != 1 {
			t.Errorf("worker %d had %v requests", i, n)
		}
		if n := value(t, w, "vllm:generation_tokens_total"); n != 12 {
			t.Errorf("worker %d made %v tokens", i, n)
		}
	}
	if code, body := get(t, workers[0].url+"/health"); code != 200 || !strings.Contains(body, `"status":"ready"`) {
		t.Errorf("a worker's /health: %d %s", code, body)
	}
}

func TestDynamo_metrics(t *testing.T) {
	f, workers := aggregated(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { ask(t, f.url, fmt.Sprintf(chat, fmt.Sprint("request ", i), 12)) })
	}
	wg.Wait()
	// A request is counted a moment after the client has read its end.
	until(t, "all requests are counted", f, func() bool {
		n := valueIn(t, metricsOf(t, f), "dynamo_frontend_request_duration_seconds_count")
		for _, w := range workers {
			n += valueIn(t, metricsOf(t, w), "dynamo_component_request_duration_seconds_count")
		}
		return n == 12
	})
	_, body := get(t, f.url+"/metrics")
	compare(t, "recorded__dynamo-1.6.1__frontend-metrics.txt", body)
	for name, want := range map[string]float64{
		"dynamo_frontend_requests_total": 6, "dynamo_frontend_requests_started_total": 6, "dynamo_frontend_output_tokens_total": 72,
		"dynamo_frontend_inflight_requests": 0, "dynamo_frontend_active_requests": 0, "dynamo_frontend_queued_requests": 0,
		"dynamo_frontend_time_to_first_token_seconds_count": 6, "dynamo_frontend_inter_token_latency_seconds_count": 66,
		"dynamo_frontend_output_sequence_tokens_sum": 72, "dynamo_frontend_request_duration_seconds_count": 6,
		"dynamo_frontend_model_ready": 1, "dynamo_component_router_requests_total": 6,
		"dynamo_frontend_stage_duration_seconds_count": 18,
	} {
		if got := valueIn(t, body, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := valueIn(t, body, "dynamo_frontend_requests_total", "status", "success", "error_type", "", "request_type", "stream", "endpoint", "chat_completions"); got != 6 {
		t.Errorf("%v successes", got)
	}
	sums := map[string]float64{}
	for _, w := range workers {
		_, body := get(t, w.url+"/metrics")
		// The recorded worker is the mocker, which has only some of vLLM's series,
		// and one that vLLM dropped.
		compare(t, "recorded__dynamo-1.6.1__worker-metrics.txt", body, "vllm:", "sim_")
		for _, name := range []string{
			"dynamo_component_requests_total", "dynamo_component_request_duration_seconds_count", "vllm:generation_tokens_total",
			"dynamo_work_handler_network_transit_seconds_count", "dynamo_work_handler_time_to_first_response_seconds_count", "vllm:time_to_first_token_seconds_count",
		} {
			sums[name] += valueIn(t, body, name)
		}
		for _, name := range []string{"dynamo_component_request_bytes_total", "dynamo_component_response_bytes_total", "dynamo_component_uptime_seconds"} {
			if valueIn(t, body, name) <= 0 {
				t.Errorf("%s is not above 0", name)
			}
		}
		for _, name := range []string{"vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_preemptions_total", "vllm:inter_token_latency_seconds_sum"} {
			valueIn(t, body, name) // is there
		}
	}
	for name, got := range sums {
		want := 6.0
		if name == "vllm:generation_tokens_total" {
			want = 72
		}
		if got != want {
			t.Errorf("the workers' %s is %v together, want %v", name, got, want)
		}
	}
}

func TestDynamo_refuses(t *testing.T) {
	f, _ := aggregated(t)
	for _, c := range []struct {
		path, body string
		code       int
		say        string
	}{
		{"/v1/chat/completions", `{"model":"sweep/tiny","messages":[{"role":"user","content":"x"}],"reasoning":1,"foo":2}`, 400, "{\"message\":\"Validation: Unsupported parameter(s): `foo`, `reasoning`\",\"type\":\"Bad Request\",\"code\":400}"},
		{"/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"x"}]}`, 404, `{"message":"Model not found","type":"Not Found","code":404}`},
		{"/v1/chat/completions", `{"model":"sweep/tiny","messages":[]}`, 400, "Validation: messages cannot be empty"},
		{"/v1/chat/completions", `{"model":`, 400, "Failed to parse"},
		{"/v1/completions", `{"model":"sweep/tiny","prompt":"x","max_tokens":0}`, 400, "Validation: max_tokens must be at least 1, got 0"},
		{"/v1/completions", `{"model":"sweep/tiny","prompt":"x","max_tokens":10000000}`, 400, "Validation: This model's maximum context length"},
	} {
		status, answer := post(t, f.url+c.path, c.body)
		if text := readAll(t, answer); status != c.code || !strings.Contains(text, c.say) {
			t.Errorf("%s: %d %s, want %d %s", c.body, status, text, c.code, c.say)
		}
	}
}

// A request that is not a stream, completions, and Dynamo's extension.
func TestDynamo_unary(t *testing.T) {
	f, _ := aggregated(t)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"sweep/tiny","messages":[{"role":"user","content":"x"}],"max_tokens":3,"ignore_eos":true,"nvext":{"extra_fields":["timing","worker_id"]}}`,
		"/v1/completions":      `{"model":"sweep/tiny","prompt":"x","max_tokens":3,"ignore_eos":true,"nvext":{"extra_fields":["timing","worker_id"]}}`,
	} {
		status, answer := post(t, f.url+path, body)
		text := readAll(t, answer)
		for _, want := range []string{`"completion_tokens":3`, `"finish_reason":"length"`, `"decode_worker_id":`, `"kv_hit_rate":0`, `"ttft_ms":`} {
			if status != 200 || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s has no %s", path, status, text, want)
			}
		}
	}
}

// A failure of a worker in the middle of a stream is an event named error.
func TestDynamo_midStream(t *testing.T) {
	dir := t.TempDir()
	f := dynamo(t, "frontend", "--discovery="+dir)
	dynamo(t, "worker", "--discovery="+dir, "--fault=cut-after=4")
	serving(t, f)
	a := ask(t, f.url, fmt.Sprintf(chat, "x", 12))
	if a.status != 200 || a.done || len(a.chunks) != 4 || !strings.HasSuffix(a.raw, "event: error\n: stream ended before generation completed\n\n") {
		t.Errorf("%d, done %v, %d events\n%s", a.status, a.done, len(a.chunks), a.raw)
	}
	until(t, "the error is counted", f, func() bool {
		return strings.Contains(metricsOf(t, f), `error_type="internal",model="sweep/tiny",request_type="stream",status="error"} 1`)
	})
}

// The frontend relays each chunk at once, not when more comes: if a worker falls
// silent, the client has all that the worker sent.
func TestDynamo_relaysAtOnce(t *testing.T) {
	dir := t.TempDir()
	f := dynamo(t, "frontend", "--discovery="+dir)
	dynamo(t, "worker", "--discovery="+dir, "--fault=hang-after=4")
	serving(t, f)
	_, stream := post(t, f.url+"/v1/chat/completions", fmt.Sprintf(chat, "x", 12))
	in := bufio.NewScanner(stream)
	for n := 0; n < 4; {
		if !in.Scan() {
			t.Fatal(in.Err())
		}
		if strings.HasPrefix(in.Text(), "data: {") {
			n++
		}
	}
}

// A worker that goes away is not asked any more; with the last of them goes the
// model.
func TestDynamo_workersGoAway(t *testing.T) {
	f, workers := aggregated(t)
	workers[0].stop()
	until(t, "one worker is left", f, func() bool { _, b := get(t, f.url+"/health"); return strings.Count(b, "instance_id") == 1 })
	for range 4 {
		if a := ask(t, f.url, fmt.Sprintf(chat, "x", 2)); !a.done {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	workers[1].stop()
	until(t, "the model is gone", f, func() bool { _, b := get(t, f.url+"/v1/models"); return !strings.Contains(b, "tiny") })
}

// The KV router sends what begins alike to the same worker.
func TestDynamo_kvAffinity(t *testing.T) {
	f, workers := aggregated(t, "--router-mode=kv")
	long := [2]string{strings.Repeat("alpha beta ", 300), strings.Repeat("gamma delta ", 300)}
	for i := range 6 {
		if a := ask(t, f.url, fmt.Sprintf(chat, long[i%2]+fmt.Sprint(i), 2)); !a.done {
			t.Fatal(a.raw)
		}
	}
	for i, w := range workers {
		if n := value(t, w, "dynamo_component_requests_total", "dynamo_endpoint", "generate"); n != 3 {
			t.Errorf("worker %d had %v requests, want 3", i, n)
		}
		if hits, queries := value(t, w, "vllm:prefix_cache_hits_total"), value(t, w, "vllm:prefix_cache_queries_total"); hits < queries/2 {
			t.Errorf("worker %d found %v of %v tokens", i, hits, queries)
		}
	}
	if n := value(t, f, "dynamo_component_router_kv_hit_rate_count"); n != 6 {
		t.Errorf("%v hit rates", n)
	}
}

// Prefill first, decode after, each in its own worker.
func TestDynamo_disaggregated(t *testing.T) {
	p, d := dynamo(t, "prefill"), dynamo(t, "decode")
	f := dynamo(t, "frontend", "--worker-urls="+p.url+","+d.url, "--router-mode=kv")
	serving(t, f)
	until(t, "prefill", f, func() bool { return strings.Contains(f.log.String(), "Prefill router target activated") })
	prompt := strings.Repeat("some words ", 100)
	for i := range 6 {
		if a := ask(t, f.url, fmt.Sprintf(chat, prompt+fmt.Sprint(i), 10)); a.usage(t)["completion_tokens"] != 10.0 {
			t.Error(a.raw)
		}
	}
	_, body := get(t, f.url+"/metrics")
	compare(t, "recorded__dynamo-1.6.1-disagg__frontend-metrics.txt", body)
	_, body = get(t, p.url+"/metrics")
	compare(t, "recorded__dynamo-1.6.1-disagg__prefill-metrics.txt", body, "vllm:", "sim_")
	if n, made := valueIn(t, body, "dynamo_component_requests_total", "dynamo_component", "prefill", "dynamo_endpoint", "generate"), valueIn(t, body, "vllm:generation_tokens_total"); n != 6 || made != 6 {
		t.Errorf("prefill: %v requests, %v tokens", n, made)
	}
	_, body = get(t, d.url+"/metrics")
	compare(t, "recorded__dynamo-1.6.1-disagg__decode-metrics.txt", body, "vllm:", "sim_")
	if n, made := valueIn(t, body, "dynamo_component_requests_total", "dynamo_component", "backend"), valueIn(t, body, "vllm:generation_tokens_total"); n != 6 || made != 60 {
		t.Errorf("decode: %v requests, %v tokens", n, made)
	}

	// The log says who served what, line by line as the recorded one does.
	recorded := recordtest.Read(t, "recorded__dynamo-1.6.1-disagg__frontend.log")
	shape := func(log, which string) (string, int) {
		var first string
		n := 0
		for line := range strings.Lines(log) {
			if strings.Contains(line, "Selected worker") && strings.Contains(line, "worker_type="+which) {
				if n++; n == 1 {
					first = regexp.MustCompile(`[0-9a-f.:-]+`).ReplaceAllString(line[strings.Index(line, "INFO"):], "#")
				}
			}
		}
		return first, n
	}
	for _, which := range []string{"prefill", "decode"} {
		want, _ := shape(string(recorded), which)
		if got, n := shape(f.log.String(), which); got != want || n != 6 {
			t.Errorf("%s: %d lines\n%swant\n%s", which, n, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, say string }{
		{"--engine=dynamo --role=wheel", "invalid choice"},
		{"--engine=llm-d --role=epp --picker=best", "choose from max-score, every-pair, same-pair"},
		{"--engine=vllm --role=worker", "has no roles"},
		{"--engine=dynamo --role=frontend --max-num-seqs=3", "unrecognized arguments: --max-num-seqs=3"},
		{"--engine=dynamo --role=frontend --router-mode=random", "--router-mode"},
		{"--engine=dynamo --role=frontend --port", "expected one argument"},
		{"--engine=dynamo --role=frontend --port=x", "no port number"},
		{"--engine=dynamo --role=frontend --worker-urls=ftp://x", "no http URL"},
		{"--engine=dynamo --role=worker --model=sweep/tiny --gpu=l4 --no-such-flag", "unrecognized arguments: --no-such-flag"},
	} {
		log := &logbook{}
		if code := simMain(t, log, strings.Fields(c.args)...); code != 2 || !strings.Contains(log.String(), c.say) {
			t.Errorf("%s: %d %s", c.args, code, log)
		}
	}
}

// The engine inside a worker is told by its own series, where it has them.
func TestDynamo_inner(t *testing.T) {
	for _, c := range []struct{ args, series string }{
		{"--inner=sglang --enable-metrics", "sglang:num_running_reqs"},
		{"--inner=sglang", ""},
		{"--inner=trtllm --publish-events-and-metrics", "trtllm_time_to_first_token_seconds_count"},
		{"--inner=trtllm", ""},
	} {
		w := dynamo(t, "worker", strings.Fields(c.args)...)
		f := dynamo(t, "frontend", "--worker-urls="+w.url)
		serving(t, f)
		a := ask(t, f.url, fmt.Sprintf(chat, "x", 5))
		if got, want := keySets(a.chunks), keySets(recordedChunks(t, "recorded__dynamo-1.6.1__chat.sse")); !slices.Equal(got, want) || a.usage(t)["completion_tokens"] != 5.0 {
			t.Errorf("%s: the stream is not Dynamo's:\n%s", c.args, a.raw)
		}
		_, body := get(t, w.url+"/metrics")
		if valueIn(t, body, "dynamo_component_requests_total", "dynamo_endpoint", "generate") != 1 {
			t.Errorf("%s: not one request", c.args)
		}
		if engine := strings.Contains(body, "\nsglang:") || strings.Contains(body, "\ntrtllm_"); engine != (c.series != "") || !strings.Contains(body, c.series) {
			t.Errorf("%s: series of the engine: %v", c.args, engine)
		}
	}
}

// The older release has older names, and says in each event what is null.
func TestDynamo_older(t *testing.T) {
	const old = "--dynamo-version=2026-01"
	w := dynamo(t, "worker", old, "--inner=trtllm", "--publish-events-and-metrics")
	f := dynamo(t, "frontend", old, "--worker-urls="+w.url)
	serving(t, f)
	a := ask(t, f.url, fmt.Sprintf(chat, "x", 4))
	const delta = " choices.[].delta choices.[].delta.content choices.[].delta.function_call choices.[].delta.reasoning_content choices.[].delta.refusal choices.[].delta.role choices.[].delta.tool_calls"
	const rest = " created id model object service_tier system_fingerprint usage"
	want := []string{
		"choices" + delta + " choices.[].index choices.[].logprobs" + rest,
		"choices" + delta + " choices.[].finish_reason choices.[].index choices.[].logprobs" + rest,
		"choices" + rest + " usage.completion_tokens usage.prompt_tokens usage.prompt_tokens_details usage.prompt_tokens_details.cached_tokens usage.total_tokens",
	}
	if got := keySets(a.chunks); !slices.Equal(got, want) || !a.done || a.usage(t)["completion_tokens"] != 4.0 {
		t.Errorf("events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	_, body := get(t, w.url+"/metrics")
	if blocks := valueIn(t, body, "dynamo_component_kvstats_total_blocks", "dynamo_component", "tensorrt_llm"); blocks <= 0 {
		t.Errorf("%v blocks", blocks)
	}
	until(t, "the request is counted", f, func() bool {
		return strings.Contains(metricsOf(t, f), `request_type="stream",status="success"} 1`)
	})
	// The captures of that release are not ours to copy.
	for file, body := range map[string]string{"dynamo__frontend__2026-01.txt": "", "dynamo__worker_trtllm__2026-01.txt": body} {
		text := recordtest.Read(t, file)
		if body == "" {
			_, body = get(t, f.url+"/metrics")
		}
		got, want := shapes(t, body), shapes(t, string(text))
		for name, shape := range want {
			if strings.HasPrefix(name, "dynamo_") && !maps.Equal(shape, got[name]) {
				t.Errorf("%s: %s is %v, captured %v", file, name, got[name], shape)
			}
		}
		for name := range got {
			if strings.HasPrefix(name, "dynamo_") && want[name] == nil {
				t.Errorf("%s: %s is not in it", file, name)
			}
		}
	}
}

// The system port is there before the engine is.
func TestDynamo_systemPort(t *testing.T) {
	port := freePort(t)
	system := &process{url: fmt.Sprint("http://127.0.0.1:", port), log: &logbook{}}
	w := dynamo(t, "worker", fmt.Sprint("--system-port=", port), "--start-delay=1h")
	until(t, "the system port answers", w, func() bool { code, _ := get(t, system.url+"/health"); return code == 503 })
	if _, body := get(t, system.url+"/health"); !strings.Contains(body, `"status":"notready"`) {
		t.Errorf("/health: %s", body)
	}
	if up := value(t, system, "dynamo_component_uptime_seconds"); up <= 0 {
		t.Errorf("up for %v s", up)
	}
	if code, _ := get(t, w.url+"/health"); code != 0 {
		t.Errorf("the engine's port answers %d", code)
	}
}

package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/collectors/prom"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/openai"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/dialect"
)

// A speaker is one release of one engine, started with what its profile adds.
type speaker struct{ engine, release string }

func (s speaker) String() string { return s.engine + " " + s.release }

// speakers returns all of them.
func speakers() (list []speaker) {
	for _, name := range Engines() {
		for _, release := range dialect.Releases(name) {
			list = append(list, speaker{name, release})
		}
	}
	return list
}

func (s speaker) start(t testing.TB, more ...string) *instance {
	t.Helper()
	args := []string{"--engine", s.engine, "--engine-version", s.release}
	switch s.engine {
	case "sglang":
		args = append(args, "--enable-metrics")
	case "llamacpp":
		args = append(args, "--metrics")
	case "trtllm":
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte("return_perf_metrics: true\nenable_iter_perf_stats: true\nkv_cache_config:\n  enable_block_reuse: true\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	return start(t, append(args, more...)...)
}

// profile returns what sweep knows of the engine.
func (s speaker) profile(t testing.TB) *engine.Profile {
	t.Helper()
	p, ok := engine.Lookup(s.engine)
	if !ok {
		t.Fatalf("no profile %s", s.engine)
	}
	return p
}

// drive sends requests with sweep's own driver, as the profile has it send them.
func drive(t *testing.T, in *instance, p *engine.Profile, chat bool, requests int, deadline time.Duration) []result.Request {
	t.Helper()
	d, err := openai.New(wire.Config{
		BaseURL: in.url, Model: "sweep/tiny", Chat: chat, Stream: true, IncludeUsage: p.API.IncludeUsage,
		ContinuousUsage: p.API.ContinuousUsage, IgnoreEOS: p.API.IgnoreEOS, MinTokens: p.API.MinTokens,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	src, err := source.New(source.Config{
		Seed: 1, Cell: "c", Trial: 1, Concurrency: 2, Requests: requests, MaxTokens: 8,
		Deadline: deadline, Prompts: source.Prompts{InputTokens: 40},
	})
	if err != nil {
		t.Fatal(err)
	}
	var rec loadtest.Kept
	if _, err := d.Run(t.Context(), src, &rec, load.Options{Anchor: result.NewAnchor()}); err != nil {
		t.Fatal(err)
	}
	return rec.All()
}

// TestDialects_streamToTheDriver: sweep's own client reads every engine's
// stream, and finds all tokens and the first one.
func TestDialects_streamToTheDriver(t *testing.T) {
	for _, s := range speakers() {
		t.Run(s.String(), func(t *testing.T) {
			in, p := s.start(t), s.profile(t)
			for _, chat := range []bool{true, false} {
				rows := drive(t, in, p, chat, 6, 20*time.Second)
				if len(rows) != 6 {
					t.Fatalf("%d requests recorded", len(rows))
				}
				for _, r := range rows {
					if r.Status != result.Completed || r.CompletionTokens != 8 || r.TokenSource != "usage" || r.FinishReason != "length" {
						t.Errorf("chat %v: %s %s: %s; %d tokens by %q, %s", chat, r.Status, r.ErrorClass, r.Error, r.CompletionTokens, r.TokenSource, r.FinishReason)
					}
					if r.FirstToken == result.Never || r.LastToken < r.FirstToken || r.PromptTokens < 20 {
						t.Errorf("chat %v: first token at %v, last at %v, %d prompt tokens", chat, r.FirstToken, r.LastToken, r.PromptTokens)
					}
					sum := int32(0)
					for _, n := range r.ChunkTokens {
						sum += n
					}
					if p.API.ContinuousUsage && sum != 8 {
						t.Errorf("chat %v: the chunks have %v tokens", chat, r.ChunkTokens)
					}
				}
			}
		})
	}
}

// TestDialects_failuresToTheDriver: what breaks a stream, and what is refused,
// has the class that sweep gives it for the real engine.
func TestDialects_failuresToTheDriver(t *testing.T) {
	broken := map[string]string{"trtllm": result.ErrReset} // it drops the connection
	rejected := map[string]string{"tgi": "HTTP 422"}
	for _, name := range Engines() {
		s := speaker{name, ""}
		t.Run(name, func(t *testing.T) {
			in := s.start(t, "--fault", "error-after=2")
			want := broken[name]
			if want == "" {
				want = result.ErrServer
			}
			for _, r := range drive(t, in, s.profile(t), true, 2, 20*time.Second) {
				if r.Status != result.Failed || r.ErrorClass != want || r.FirstToken == result.Never {
					t.Errorf("%s, class %s, want %s: %s", r.Status, r.ErrorClass, want, r.Error)
				}
			}
			in = s.start(t, "--fault", "unavailable=2", map[string]string{
				"vllm": "--max-model-len=64", "sglang": "--context-length=64", "trtllm": "--max_seq_len=64", "llamacpp": "-c=32", "tgi": "--max-total-tokens=64",
			}[name])
			for _, r := range drive(t, in, s.profile(t), true, 2, 20*time.Second) {
				if r.ErrorClass != result.ErrOverload {
					t.Errorf("busy: class %s: %s", r.ErrorClass, r.Error)
				}
			}
			status := "HTTP 400"
			if rejected[name] != "" {
				status = rejected[name]
			}
			for _, r := range drive(t, in, s.profile(t), true, 1, 20*time.Second) {
				if name != "llamacpp" && r.Status == result.Completed {
					continue // 40 tokens and the template may fit
				}
				if r.ErrorClass != result.ErrRejected || !strings.HasPrefix(r.Error, status) {
					t.Errorf("too long: class %s: %s", r.ErrorClass, r.Error)
				}
			}
		})
	}
}

// absent are quantities that a profile knows and a single server without load
// of that kind does not show, by release; * is every one.
var absent = map[string][]string{
	"vllm *":          {engine.SpecDrafted, engine.SpecAccepted, engine.SpecDrafts, engine.KVTransfer, engine.KVTransferred, engine.KVFailures, engine.SpecAcceptRate, engine.SpecAcceptLen},
	"vllm 0.32.0":     {engine.GenerationPerSecond}, // gone with V0
	"vllm 0.8.5":      {engine.GenerationPerSecond, engine.TPOT, engine.KVReceived},
	"sglang *":        {engine.KVTransfer, engine.KVTransferred, engine.SpecAcceptRate, engine.SpecAcceptLen}, // zeros without speculation
	"sglang 0.4.5":    {engine.PrefillBootstrapQueue, engine.PrefillInflightQueue, engine.DecodePreallocQueue, engine.DecodeTransferQueue, engine.Preemptions, engine.KVCacheTokens, engine.KVCacheBlocks, engine.PrefixHits, engine.Queue, engine.Prefill, engine.Decode},
	"llamacpp b11549": {engine.KVCacheUsage}, // since 2025-05
	"llamacpp b5000":  {engine.PrefixQueries, engine.PrefixHits, engine.SpecDrafted, engine.SpecAccepted, engine.SpecDrafts},
}

// TestDialects_metricsMeanSomething: each quantity that an engine's profile
// claims is found in what the simulated one exposes, with the right count.
func TestDialects_metricsMeanSomething(t *testing.T) {
	for _, s := range speakers() {
		t.Run(s.String(), func(t *testing.T) {
			in, p := s.start(t), s.profile(t)
			const n = 3
			for range n {
				in.do("POST", p.API.Chat, chat(strings.Repeat("count me ", 20), `,"max_tokens":10,"stop":["zzz"]`))
			}
			body := in.scrape(p)
			e, err := exposition.Parse([]byte(body), true)
			if err != nil || e.Dropped > 0 || e.Duplicates > 0 {
				t.Fatalf("%v, %d dropped, %d twice", err, e.Dropped, e.Duplicates)
			}
			found := map[string]prom.Reading{}
			for _, f := range prom.Explain([]*engine.Profile{p}, e, true).Families {
				for _, r := range f.Readings {
					found[r.Quantity] = r
				}
			}
			if s.String() == "trtllm 1.0.0" { // five names
				want := []string{engine.E2E, engine.Queue, engine.RequestsFinished, engine.TPOT, engine.TTFT}
				for _, q := range want {
					if _, ok := found[q]; !ok {
						t.Errorf("no %s", q)
					}
				}
				return
			}
			missing := append(slices.Clone(absent[s.engine+" *"]), absent[s.String()]...)
			for q := range p.Metrics.Series {
				_, ok := found[q]
				if none := slices.Contains(missing, q); ok == none {
					t.Errorf("%s: found %v, absent %v", q, ok, none)
				}
			}
			value := func(q string, want float64) {
				r, ok := found[q]
				v := r.Value
				if r.Count != nil {
					v = r.Count
				}
				if ok && (v == nil || *v != want) {
					t.Errorf("%s is %+v, want %v", q, r, want)
				}
			}
			value(engine.RequestsFinished, n)
			value(engine.GenerationTokens, n*10)
			value(engine.RequestsRunning, 0)
			value(engine.E2E, n)
			value(engine.TTFT, n)
			value(engine.ITL, n*9)
			value(engine.TPOT, n)
			if r := found[engine.PromptTokens]; r.Value == nil || *r.Value < 40 {
				t.Errorf("prompt tokens: %+v", r)
			}
		})
	}
}

// scrape returns the body of the metrics, without what only the simulator has.
func (in *instance) scrape(p *engine.Profile) string {
	in.t.Helper()
	status, body := in.do("GET", p.Metrics.Path, "")
	if status != 200 {
		in.t.Fatalf("%s: %d %s", p.Metrics.Path, status, body)
	}
	var own strings.Builder
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "sim_") {
			own.WriteString(line)
		}
	}
	return own.String()
}

// TestDialects_startFailures: what does not fit ends with the engine's own
// text, and sweep finds the cause in it.
func TestDialects_startFailures(t *testing.T) {
	for _, c := range []struct {
		engine, args string
		status       int
		class, text  string
	}{
		{"sglang", "--model meta-llama/Llama-3.1-8B-Instruct --gpu rtx-2000-ada", 1, "oom.cuda", "torch.OutOfMemoryError"},
		{"sglang", "--model Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada --mem-fraction-static 0.1", 1, "oom.kv_startup", "mem_fraction_static=0.1"},
		{"sglang", "--model Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada --mem-fraction-static 0.95", 1, "oom.warmup", "Capture cuda graph failed"},
		{"sglang", "--model nobody/nothing", 1, "model", "is not a valid model identifier"},
		{"sglang", "--model sweep/tiny --max-num-seqs 4", 2, "args", "launch_server.py: error: unrecognized arguments: --max-num-seqs 4"},
		{"trtllm", "--model meta-llama/Llama-3.1-8B-Instruct --gpu rtx-2000-ada", 1, "oom.cuda", "torch.OutOfMemoryError"},
		{"trtllm", "--model Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada --free_gpu_memory_fraction 0.00001", 1, "oom.kv_startup", "could not be created: KV cache"},
		{"trtllm", "--model Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada --free_gpu_memory_fraction 0.05 --max_seq_len 32768", 1, "oom.kv_startup", "maxTokensInPagedKvCache"},
		{"trtllm", "sweep/tiny --mem-fraction-static 0.5", 2, "args", "Error: No such option: --mem-fraction-static"},
		{"llamacpp", "-m meta-llama/Llama-3.1-8B-Instruct --gpu rtx-2000-ada", 1, "oom.cuda", "cudaMalloc failed: out of memory"},
		{"llamacpp", "-m Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada -c 2000000", 1, "oom.kv_startup", "failed to allocate buffer for kv cache"},
		{"llamacpp", "-m nothing.gguf", 1, "model", "failed to open GGUF file"},
		{"llamacpp", "-m sweep/tiny --warp 9", 1, "args", "error: invalid argument: --warp"},
		{"tgi", "--model-id meta-llama/Llama-3.1-8B-Instruct --gpu rtx-2000-ada", 1, "oom.cuda", "ShardCannotStart"},
		{"tgi", "--model-id Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada --max-batch-prefill-tokens 400000", 1, "oom.warmup", "400000 prefill tokens. You need to decrease `--max-batch-prefill-tokens`"},
		{"tgi", "--model-id sweep/tiny --max-num-seqs 4", 2, "args", "error: unexpected argument '--max-num-seqs' found"},
	} {
		p := speaker{c.engine, ""}.profile(t)
		status, out := program(t, append([]string{"--engine", c.engine, "--port", "0"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(out, c.text) {
			t.Errorf("%s %s: status %d, want %d and %q in\n%s", c.engine, c.args, status, c.status, c.text, out)
			continue
		}
		if got := p.Classify(strings.Split(out, "\n"), failure.End{Exited: true, Code: status}); c.class != "" && got.Class != c.class {
			t.Errorf("%s %s: class %s, want %s: %s", c.engine, c.args, got.Class, c.class, got.Line)
		}
	}
}

// TestDialects_saySimulated: none can be taken for the real engine.
func TestDialects_saySimulated(t *testing.T) {
	for name, path := range map[string]string{"vllm": "/version", "sglang": "/server_info", "trtllm": "/version", "llamacpp": "/props", "tgi": "/info"} {
		for _, release := range dialect.Releases(name) {
			s := speaker{name, release}
			if _, said := s.start(t).do("GET", path, ""); !strings.Contains(said, `"`+release+dialect.Mark+`"`) {
				t.Errorf("%s at %s: %s", s, path, said)
			}
			if _, said := s.start(t, "--time-scale", "0.5").do("GET", path, ""); !strings.Contains(said, `"`+release+dialect.Mark+`.x0.5"`) {
				t.Errorf("%s does not say its time scale at %s: %s", s, path, said)
			}
		}
	}
}

// TestDialects_ready: the profile's conditions hold.
func TestDialects_ready(t *testing.T) {
	for _, s := range speakers() {
		in, p := s.start(t), s.profile(t)
		if status, said := in.do("GET", p.Ready.Health, ""); status != 200 {
			t.Errorf("%s: health is %d %s", s, status, said)
		}
		if _, said := in.do("GET", p.Ready.Models, ""); !strings.Contains(said, `"id":"sweep/tiny"`) {
			t.Errorf("%s: models are %s", s, said)
		}
		if p.Ready.Line != "" && !regexp.MustCompile(p.Ready.Line).MatchString(in.log.String()) {
			t.Errorf("%s: no line %q in\n%s", s, p.Ready.Line, in.log)
		}
		if p.API.CacheReset != "" {
			if status, said := in.do("POST", p.API.CacheReset, ""); status != 200 {
				t.Errorf("%s: %s is %d %s", s, p.API.CacheReset, status, said)
			}
		}
	}
}

// TestLlamaCpp_answersWhileItLoads: unlike the others, which do not listen.
func TestLlamaCpp_answersWhileItLoads(t *testing.T) {
	// A free port, so that the address is known before the log names it.
	l, err := listen(t.Context(), &flags{host: "127.0.0.1", dialect: must(dialect.New("llamacpp", ""))})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	_ = l.Close()
	loading := make(chan bool, 1)
	go func() {
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		status := 0
		polltest.Within(polltest.Patience, func() bool {
			resp, err := c.Get("http://127.0.0.1:" + port + "/health")
			if err != nil {
				return false
			}
			status = resp.StatusCode
			_ = resp.Body.Close()
			return true
		})
		loading <- status == http.StatusServiceUnavailable
	}()
	in := start(t, "--engine", "llamacpp", "--port", port, "--start-delay", "300ms")
	if !<-loading {
		t.Error("no 503 before the 200")
	}
	if _, said := in.do("GET", "/health", ""); said != `{"status":"ok"}` {
		t.Errorf("health: %s", said)
	}
	_, said := in.do("GET", "/slots", "")
	if strings.Count(said, `"n_ctx"`) != 4 {
		t.Errorf("slots: %s", said)
	}
}

func must(d *dialect.Dialect, err error) *dialect.Dialect {
	if err != nil {
		panic(err)
	}
	return d
}

// TestTRTLLM_iterations: statistics are there until they are read.
func TestTRTLLM_iterations(t *testing.T) {
	in := speaker{"trtllm", ""}.start(t)
	in.do("POST", "/v1/chat/completions", chat("one", `,"max_tokens":5,"ignore_eos":true`))
	_, said := in.do("GET", "/metrics", "")
	if n := strings.Count(said, `"iterLatencyMS"`); n != 5 || !strings.Contains(said, `"kvCacheStats":{`) {
		t.Errorf("%d iterations: %s", n, said)
	}
	if _, said := in.do("GET", "/metrics", ""); said != "[]" {
		t.Errorf("read again: %s", said)
	}
	status, said := in.do("POST", "/v1/chat/completions", chat("one", `,"max_tokens":5,"no_such_field":1`))
	if status != 400 || !strings.Contains(said, "Extra inputs are not permitted") {
		t.Errorf("an unknown field: %d %s", status, said)
	}
	bare := start(t, "--engine", "trtllm")
	if status, _ := bare.do("GET", "/prometheus/metrics", ""); status != 404 {
		t.Errorf("metrics that nobody switched on: %d", status)
	}
}

// TestDialects_wire holds what each engine writes, byte for byte: a chat and a
// completion as a stream, a whole answer, and a refusal.
func TestDialects_wire(t *testing.T) {
	float := regexp.MustCompile(`(_ms|_per_second|_per_token_ms)":[0-9.e+-]+`)
	for _, name := range Engines()[1:] {
		in := speaker{name, ""}.start(t, "--seed", "1", map[string]string{"sglang": "--context-length=512", "trtllm": "--max_seq_len=512", "llamacpp": "-c=512", "tgi": "--max-total-tokens=512"}[name])
		var b strings.Builder
		say := func(path, body string) {
			status, said := in.do("POST", path, body)
			said = created.ReplaceAllString(said, `"created":0`)
			said = float.ReplaceAllString(said, `$1":0`)
			fmt.Fprintf(&b, "POST %s %s\n%d\n%s\n\n", path, body, status, strings.TrimSuffix(said, "\n\n"))
		}
		const options = `,"stream":true,"max_tokens":2,"stream_options":{"include_usage":true}`
		say("/v1/chat/completions", chat("Say something about water", options))
		say("/v1/completions", `{"model":"sweep/tiny","prompt":"Once upon a time"`+options+`}`)
		say("/v1/chat/completions", chat("Say something about water", `,"max_tokens":2`))
		say("/v1/completions", `{"model":"sweep/tiny","prompt":"Once upon a time","max_tokens":600}`)
		say("/v1/chat/completions", chat(strings.Repeat("a ", 5), `,"max_tokens":0`))
		golden(t, name+".txt", b.String())
	}
}

// TestDialects_ignoredFields: what an engine does not know has no effect, and
// what it knows has one.
func TestDialects_ignoredFields(t *testing.T) {
	for name, want := range map[string]string{"vllm": "length 3000", "sglang": "length 3000", "trtllm": "length 3000", "llamacpp": "length 3000", "tgi": "stop"} {
		in := speaker{name, ""}.start(t, "--time-scale", "20")
		_, said := in.do("POST", "/v1/chat/completions", chat("x", `,"max_tokens":3000,"ignore_eos":true`))
		reason, tokens := "stop", ""
		if strings.Contains(said, `"finish_reason":"length"`) {
			reason = "length"
			if strings.Contains(said, `"completion_tokens":3000`) {
				tokens = " 3000"
			}
		}
		if got := reason + tokens; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestPing: a stream that is silent for long has comments in it.
func TestPing(t *testing.T) {
	t.Parallel()
	in := start(t, "--engine", "llamacpp", "--sse-ping-interval", "1", "--time-scale", "0.0001")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("x", `,"stream":true,"max_tokens":4`)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := in.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 3)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != ":\n\n" {
		t.Errorf("%q, %v", first, err)
	}
}

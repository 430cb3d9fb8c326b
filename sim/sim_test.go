package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/sim/server"
	"sweep.dev/sweep/sim/text"
)

// With SIM_MAIN set the test binary is the program, for what ends a process.
func TestMain(m *testing.M) {
	if os.Getenv("SIM_MAIN") != "" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	// The race detector has every process wait a second before it exits.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

// syncBuffer is a buffer that a server writes while a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// An instance is a running server.
type instance struct {
	t      testing.TB
	url    string
	log    *syncBuffer
	stop   context.CancelFunc
	status chan int
	client *http.Client
}

var listening = regexp.MustCompile(`(?:server 0 on|running on|listening on|Listening on) (http://\S+)`)

// start runs the program with a tiny model on a fast GPU and waits for it to listen.
func start(t testing.TB, args ...string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{t: t, log: &syncBuffer{}, stop: cancel, status: make(chan int, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	args = append([]string{"--port", "0", "--model", "sweep/tiny", "--gpu", "h100", "--jitter", "0"}, args...)
	go func() { in.status <- Main(ctx, args, io.Discard, in.log) }()
	t.Cleanup(func() {
		in.client.CloseIdleConnections()
		cancel()
		if in.status != nil {
			<-in.status
		}
	})
	in.url = listens(t, in.log)
	return in
}

// attach is a client of a program that somebody else started.
func attach(t testing.TB, log *syncBuffer) *instance {
	in := &instance{t: t, log: log, client: &http.Client{Transport: &http.Transport{}}, url: listens(t, log)}
	t.Cleanup(in.client.CloseIdleConnections)
	return in
}

// listens waits for the address in a log.
func listens(t testing.TB, log *syncBuffer) string {
	t.Helper()
	var m []string
	if !polltest.Within(polltest.Patience, func() bool {
		m = listening.FindStringSubmatch(log.String())
		return m != nil
	}) {
		t.Fatalf("does not listen:\n%s", log)
	}
	return m[1]
}

// do sends a request and reads the whole answer.
func (in *instance) do(method, path, body string) (int, string) {
	in.t.Helper()
	status, text, err := in.try(method, path, body)
	if err != nil {
		in.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, text
}

func (in *instance) try(method, path, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, in.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-Request-Id", "fixed")
	resp, err := in.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// metric is the value of one series, found by the start of its line.
func (in *instance) metric(prefix string) float64 {
	in.t.Helper()
	_, text := in.do("GET", "/metrics", "")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:len(line)-1], 64)
			if err != nil {
				in.t.Fatal(err)
			}
			return v
		}
	}
	in.t.Fatalf("no series %s", prefix)
	return 0
}

func chat(text string, more string) string {
	return fmt.Sprintf(`{"model":"sweep/tiny","messages":[{"role":"user","content":%q}]%s}`, text, more)
}

var created = regexp.MustCompile(`"created":\d+`)

func TestStream_hasVLLMsShape(t *testing.T) {
	in := start(t)
	status, got := in.do("POST", "/v1/chat/completions", chat("Say something about water", `,"stream":true,"max_tokens":3,"ignore_eos":true,"stream_options":{"include_usage":true}`))
	if status != 200 {
		t.Fatalf("%d %s", status, got)
	}
	golden(t, "chat.sse", created.ReplaceAllString(got, `"created":0`))
	_, got = in.do("POST", "/v1/completions", `{"model":"sweep/tiny","prompt":"Once upon a time","stream":true,"max_tokens":2,"ignore_eos":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
	golden(t, "completions.sse", created.ReplaceAllString(got, `"created":0`))
	_, got = in.do("POST", "/v1/chat/completions", chat("Say something about water", `,"max_tokens":3,"ignore_eos":true`))
	golden(t, "chat.json", created.ReplaceAllString(got, `"created":0`)+"\n")
}

// TestStream_isTheRecordedShape holds the keys of every chunk, in their order,
// against a recording of the real engine.
func TestStream_isTheRecordedShape(t *testing.T) {
	recorded, err := os.ReadFile("testdata/recorded__vllm-0.32.0__chat.sse")
	if err != nil {
		t.Fatal(err)
	}
	in := start(t, "--no-enable-prompt-tokens-details")
	_, got := in.do("POST", "/v1/chat/completions", chat("Hello", `,"stream":true,"max_tokens":12,"ignore_eos":true,"stream_options":{"include_usage":true}`))
	if d := cmp.Diff(shape(string(recorded)), shape(got)); d != "" {
		t.Errorf("recorded (-) and simulated (+) differ:\n%s", d)
	}
}

// shape is the stream with its strings and numbers as values blanked out.
func shape(sse string) []string {
	value := regexp.MustCompile(`:("(?:[^"\\]|\\.)*"|\d+)`)
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(sse), "\n") {
		lines = append(lines, value.ReplaceAllString(strings.TrimSpace(line), ":_"))
	}
	return lines
}

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func TestAnswer_dependsOnTheRequestAlone(t *testing.T) {
	content := func(in *instance, body string) string {
		_, text := in.do("POST", "/v1/chat/completions", body)
		var a struct {
			Choices []struct {
				Message      struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
			Usage struct {
				CompletionTokens int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) == 0 {
			t.Fatalf("%v: %s", err, text)
		}
		return fmt.Sprint(a)
	}
	one, two, other := start(t, "--seed", "5"), start(t, "--seed", "5"), start(t, "--seed", "6")
	a := content(one, chat("What is rain?", ""))
	content(two, chat("Something else first", ""))
	if b := content(two, chat("What is rain?", "")); a != b {
		t.Errorf("the same request, two answers:\n%s\n%s", a, b)
	}
	if b := content(other, chat("What is rain?", "")); a == b {
		t.Error("another seed, the same answer")
	}
	if b := content(one, chat("What is rain?", `,"seed":9`)); a == b {
		t.Error("another seed in the request, the same answer")
	}
}

func TestLengths(t *testing.T) {
	in := start(t, "--time-scale", "20")
	get := func(body string) (tokens int, finish, said string, stop any) {
		status, answer := in.do("POST", "/v1/chat/completions", body)
		var a struct {
			Choices []struct {
				Message      struct{ Content string }
				FinishReason string `json:"finish_reason"`
				StopReason   any    `json:"stop_reason"`
			}
			Usage struct {
				CompletionTokens int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(answer), &a); err != nil || status != 200 {
			t.Fatalf("%d %v %s", status, err, answer)
		}
		return a.Usage.CompletionTokens, a.Choices[0].FinishReason, a.Choices[0].Message.Content, a.Choices[0].StopReason
	}
	// Exact.
	n, finish, said, _ := get(chat("x", `,"max_tokens":50,"ignore_eos":true`))
	if n != 50 || finish != "length" || len(text.Tokenize(nil, said)) != 50 {
		t.Errorf("%d tokens, %s, %d tokens of text", n, finish, len(text.Tokenize(nil, said)))
	}
	// Natural: the lengths differ and have the stated median.
	var sum float64
	lengths := map[int]bool{}
	const tries = 60
	for i := range tries {
		n, finish, said, _ := get(chat(fmt.Sprint("question ", i), `,"max_tokens":4000`))
		if finish != "stop" || len(text.Tokenize(nil, said)) != n-1 {
			t.Fatalf("%d tokens, %s, %d tokens of text; one is the end of sequence", n, finish, len(text.Tokenize(nil, said)))
		}
		lengths[n] = true
		sum += math.Log(float64(n))
	}
	if got := math.Exp(sum / tries); got < text.StopMedian*0.75 || got > text.StopMedian*1.33 || len(lengths) < tries/2 {
		t.Errorf("%d natural lengths with geometric mean %.0f, want about %d", len(lengths), got, text.StopMedian)
	}
	if n, finish, _, _ := get(chat("x", `,"max_tokens":4000,"min_tokens":1500`)); n < 1500 || finish != "stop" {
		t.Errorf("min_tokens: %d tokens, %s", n, finish)
	}
	// A stop string ends the text before it.
	_, _, whole, _ := get(chat("stop me", `,"max_tokens":60,"ignore_eos":true`))
	word := strings.Fields(whole)[20]
	at := strings.Index(whole, " "+word)
	n, finish, said, stop := get(chat("stop me", fmt.Sprintf(`,"max_tokens":60,"ignore_eos":true,"stop":[" %s"]`, word)))
	if finish != "stop" || stop != " "+word || said != whole[:at] || n >= 60 {
		t.Errorf("stop %q: %d tokens, %s, stop_reason %v, text %q; want %q", word, n, finish, stop, said, whole[:at])
	}
}

func TestRefusals(t *testing.T) {
	in := start(t, "--max-model-len", "512", "--api-key", "k")
	send := func(path, body, key string) (int, string) {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", in.url+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := in.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	long := strings.Repeat("word ", 500)
	for _, c := range []struct {
		name, path, body, key string
		status                int
		want                  string
	}{
		{"key", "/v1/chat/completions", chat("x", ""), "", 401, `{"error":"Unauthorized"}`},
		{"model", "/v1/chat/completions", `{"model":"gpt","messages":[{"role":"user","content":"x"}]}`, "k", 404, `{"error":{"message":"The model ` + "`gpt`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`},
		{"too long", "/v1/chat/completions", chat(long, `,"max_tokens":100`), "k", 400, `"message":"This model's maximum context length is 512 tokens. However, you requested 100 output tokens and your prompt contains 509 input tokens, for a total of 609 tokens.`},
		{"json", "/v1/completions", `{"model":`, "k", 400, `JSON decode error`},
		{"no prompt", "/v1/completions", `{"model":"sweep/tiny"}`, "k", 400, `"param":"prompt"`},
		{"no messages", "/v1/chat/completions", `{"model":"sweep/tiny"}`, "k", 400, `"param":"messages"`},
		{"max_tokens", "/v1/chat/completions", chat("x", `,"max_tokens":0`), "k", 400, `max_tokens must be at least 1, got 0.`},
		{"options", "/v1/chat/completions", chat("x", `,"stream_options":{"include_usage":true}`), "k", 400, "Stream options can only be defined when `stream=True`."},
		{"n", "/v1/chat/completions", chat("x", `,"n":2`), "k", 400, `"param":"n"`},
		{"path", "/v1/nothing", "", "k", 404, `{"detail":"Not Found"}`},
	} {
		if status, text := send(c.path, c.body, c.key); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s\nwant %d %s", c.name, status, text, c.status, c.want)
		}
	}
}

func TestEndpoints(t *testing.T) {
	in := start(t, "--served-model-name", "a,b", "--max-model-len", "1024")
	if status, said := in.do("GET", "/health", ""); status != 200 || said != "" {
		t.Errorf("health: %d %q", status, said)
	}
	if _, said := in.do("GET", "/version", ""); said != `{"version":"0.32.0+sim"}` {
		t.Errorf("version: %s", said)
	}
	_, said := in.do("GET", "/v1/models", "")
	if !strings.Contains(said, `"id":"a"`) || !strings.Contains(said, `"id":"b"`) || !strings.Contains(said, `"max_model_len":1024`) {
		t.Errorf("models: %s", said)
	}
	_, said = in.do("POST", "/tokenize", `{"model":"b","prompt":"four little words here"}`)
	if !strings.Contains(said, `"count":4`) {
		t.Errorf("tokenize: %s", said)
	}
	_, said = in.do("POST", "/tokenize", `{"model":"b","messages":[{"role":"user","content":"four little words here"}]}`)
	if want := 4 + text.MessageTokens + text.ReplyTokens; !strings.Contains(said, fmt.Sprintf(`"count":%d`, want)) {
		t.Errorf("tokenize a chat: %s, want %d", said, want)
	}
}

func TestPrefixCache_overHTTP(t *testing.T) {
	in := start(t)
	prompt := strings.Repeat("all good things come again ", 40)
	cached := func() int {
		_, text := in.do("POST", "/v1/chat/completions", chat(prompt, `,"max_tokens":2`))
		var a struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		return a.Usage.Details.Cached
	}
	if n := cached(); n != 0 {
		t.Errorf("%d tokens cached at first", n)
	}
	if n := cached(); n < 190 {
		t.Errorf("%d tokens cached the second time, of about 208", n)
	}
	if in.metric("vllm:prefix_cache_hits_total{") < 190 {
		t.Error("no hits in the metrics")
	}
	if status, text := in.do("POST", "/reset_prefix_cache", ""); status != 200 {
		t.Errorf("reset: %d %s", status, text)
	}
	if n := cached(); n != 0 {
		t.Errorf("%d tokens cached after a reset", n)
	}
}

func TestMetrics(t *testing.T) {
	in := start(t)
	for range 3 {
		in.do("POST", "/v1/chat/completions", chat("count me", `,"max_tokens":10,"ignore_eos":true`))
	}
	_, said := in.do("GET", "/metrics", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"vllm:generation_tokens_total": 30, "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
		"vllm:kv_cache_usage_perc": 0, "vllm:num_preemptions_total": 0, "vllm:prompt_tokens_total": 3 * (2 + text.MessageTokens + text.ReplyTokens),
	} {
		f := families[name]
		if f == nil {
			t.Errorf("no %s", name)
			continue
		}
		if got := f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]uint64{
		"vllm:time_to_first_token_seconds": 3, "vllm:inter_token_latency_seconds": 27, "vllm:request_time_per_output_token_seconds": 3,
		"vllm:e2e_request_latency_seconds": 3, "vllm:request_queue_time_seconds": 3, "vllm:request_prefill_time_seconds": 3,
		"vllm:request_decode_time_seconds": 3, "vllm:request_prompt_tokens": 3, "sim_timer_error_seconds": 30,
	} {
		f := families[name]
		if f == nil {
			t.Errorf("no %s", name)
			continue
		}
		h := f.Metric[0].GetHistogram()
		if h.GetSampleCount() != want || h.Bucket[len(h.Bucket)-1].GetCumulativeCount() != want {
			t.Errorf("%s has %d samples, want %d", name, h.GetSampleCount(), want)
		}
	}
	if s := families["process_start_time_seconds"].Metric[0].GetGauge().GetValue(); math.Abs(s-float64(time.Now().Unix())) > 300 {
		t.Errorf("started at %v", s)
	}
	if i := families["vllm:cache_config_info"]; i == nil || !strings.Contains(said, `num_gpu_blocks="`) || !strings.Contains(said, `block_size="16"`) {
		t.Error("no cache_config_info")
	}
}

// TestMetrics_areTheRecordedOnes: every series that is simulated exists under
// the same name, type and buckets at the real engine.
func TestMetrics_areTheRecordedOnes(t *testing.T) {
	recorded, err := os.ReadFile("testdata/recorded__vllm-0.32.0__metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	// The recording's model is 4096 tokens long and takes 2048 in a step.
	in := start(t, "--max-model-len", "4096")
	_, text := in.do("GET", "/metrics", "")
	known := map[string]bool{}
	series := regexp.MustCompile(`^(vllm:\S+?)\{(?:.*?le="([^"]+)")?`)
	keys := func(s string) (list []string) {
		for line := range strings.Lines(s) {
			if strings.HasPrefix(line, "# TYPE vllm:") {
				list = append(list, strings.TrimSpace(line))
			}
			if m := series.FindStringSubmatch(line); m != nil {
				list = append(list, m[1]+" "+m[2])
			}
		}
		return list
	}
	for _, k := range keys(string(recorded)) {
		known[k] = true
	}
	n := 0
	for _, k := range keys(text) {
		n++
		if !known[k] {
			t.Errorf("the real engine has no %q", k)
		}
	}
	if n < 150 {
		t.Errorf("only %d series", n)
	}
}

func TestRequestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	in := start(t, "--request-log", path)
	in.do("POST", "/v1/chat/completions", chat("one", `,"max_tokens":4,"ignore_eos":true`))
	in.do("POST", "/v1/chat/completions", `{"model":"none"}`)
	// One that its client gives up.
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("two", `,"stream":true,"max_tokens":8000,"ignore_eos":true`)))
	resp, err := in.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	var got []string
	polltest.Within(polltest.Patience, func() bool {
		f, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for s := bufio.NewScanner(bytes.NewReader(f)); s.Scan(); {
			var r server.Record
			if err := json.Unmarshal(s.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s", err, s.Text())
			}
			if r.Event == "ended" && r.FinishReason == "abort" {
				r.OutputTokens = -1 // however far it came
			}
			got = append(got, fmt.Sprintf("%s %d %s %d %d %s", r.Event, r.N, r.ID, r.Status, r.OutputTokens, r.FinishReason))
		}
		return len(got) >= 5
	})
	want := []string{"arrived 1 fixed 0 0 ", "ended 1 fixed 0 4 length", "refused 2 fixed 404 0 ", "arrived 3  0 0 ", "ended 3  0 -1 abort"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// The abort is carried out at the end of a step.
	polltest.Until(t, "the end of the request that was given up", func() bool { return in.metric("vllm:num_requests_running{") == 0 })
}

func TestNvidiaSMI(t *testing.T) {
	in := start(t, "--tensor-parallel-size", "2", "--gpu", "l40s", "--gpu-memory-utilization", "0.5", "--time-scale", "0.2")
	get := func(query string) string {
		_, text := in.do("GET", "/sim/nvidia-smi?query="+query, "")
		return text
	}
	rows := strings.Split(strings.TrimSpace(get("index,name,memory.total,utilization.gpu,power.draw,pstate")), "\n")
	if len(rows) != 2 || rows[1] != "1, NVIDIA L40S, 46068, 0, 34.00, P8" {
		t.Errorf("idle: %q", rows)
	}
	uuids := strings.Split(strings.TrimSpace(get("uuid")), "\n")
	if !regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(uuids[0]) || uuids[0] == uuids[1] {
		t.Errorf("uuids: %q", uuids)
	}
	used, _ := strconv.Atoi(strings.Split(strings.TrimSpace(get("memory.used")), "\n")[0])
	if used < 20000 || used > 46068/2 {
		t.Errorf("%d MiB used with half of 46068 to use", used)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		r, _ := http.NewRequestWithContext(ctx, "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("two", `,"stream":true,"max_tokens":8000,"ignore_eos":true`)))
		if resp, err := in.client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	defer wg.Wait()
	defer cancel()
	if !polltest.Within(polltest.Patience, func() bool {
		var util int
		var power float64
		_, err := fmt.Sscanf(get("utilization.gpu,power.draw"), "%d, %f", &util, &power)
		return err == nil && util > 90 && power > 50
	}) {
		t.Errorf("under load: %s", get("utilization.gpu,power.draw"))
	}
	_, text := in.do("GET", "/sim/nvidia-smi?query=index,memory.used&format=csv", "")
	if !strings.HasPrefix(text, "index, memory.used [MiB]\n0, "+strconv.Itoa(used)+" MiB\n") {
		t.Errorf("with header and units: %q", text)
	}
	if status, text := in.do("GET", "/sim/nvidia-smi?query=index,nonsense", ""); status != 400 || !strings.Contains(text, `Field "nonsense" is not a valid field to query.`) {
		t.Errorf("unknown field: %d %q", status, text)
	}
}

func TestNvidiaSMI_isNotThereOnAMD(t *testing.T) {
	in := start(t, "--gpu", "mi300x")
	if status, _ := in.do("GET", "/sim/nvidia-smi?query=index", ""); status != 404 {
		t.Errorf("status %d", status)
	}
}

func TestFaults_ofStreams(t *testing.T) {
	body := chat("x", `,"stream":true,"max_tokens":5,"ignore_eos":true,"stream_options":{"include_usage":true}`)
	for _, c := range []struct {
		fault string
		check func(text string, err error) bool
	}{
		{"cut-after=2", func(s string, err error) bool {
			return err == nil && strings.Count(s, `"content"`) == 3 && !strings.Contains(s, "[DONE]")
		}},
		{"reset-after=2", func(s string, err error) bool { return err != nil }},
		{"error-after=2", func(s string, err error) bool {
			return err == nil && strings.Contains(s, `data: {"error":{"message":"`) && strings.HasSuffix(s, "data: [DONE]\n\n")
		}},
		{"malformed-after=2", func(s string, err error) bool { return strings.HasSuffix(s, `"content":`+"\n\n") }},
		{"long-line-after=2", func(s string, err error) bool { return len(s) > 2<<20 }},
		{"no-done", func(s string, err error) bool {
			return err == nil && strings.Contains(s, `"usage"`) && !strings.Contains(s, "[DONE]")
		}},
		{"wrong-usage=3", func(s string, err error) bool { return strings.Contains(s, `"completion_tokens":8`) }},
		{"trickle=10us", func(s string, err error) bool { return err == nil && strings.HasSuffix(s, "[DONE]\n\n") }},
	} {
		t.Run(c.fault, func(t *testing.T) {
			in := start(t, "--fault", c.fault, "--fault", "every=2")
			if _, s := in.do("POST", "/v1/chat/completions", body); !strings.HasSuffix(s, "[DONE]\n\n") || !strings.Contains(s, `"completion_tokens":5`) {
				t.Errorf("the first request is hit too: %s", s)
			}
			if _, s, err := in.try("POST", "/v1/chat/completions", body); !c.check(s, err) {
				t.Errorf("%v: %.600s", err, s)
			}
		})
	}
}

func TestFaults_hang(t *testing.T) {
	in := start(t, "--fault", "hang-after=2")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("x", `,"stream":true,"max_tokens":5,"ignore_eos":true`)))
	resp, err := in.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil || strings.Count(string(b), `"content"`) != 3 {
		t.Errorf("%v: %s", err, b)
	}
}

func TestFaults_ofTheServer(t *testing.T) {
	in := start(t, "--fault", "unavailable=2,metrics=gone")
	for i, want := range []int{503, 503, 200} {
		if status, text := in.do("POST", "/v1/chat/completions", chat("x", `,"max_tokens":1`)); status != want {
			t.Errorf("request %d: %d %s", i, status, text)
		}
	}
	if status, _ := in.do("GET", "/metrics", ""); status != 404 {
		t.Errorf("metrics: %d", status)
	}
	huge := start(t, "--fault", "metrics=huge")
	if _, text := huge.do("GET", "/metrics", ""); len(text) < 50<<20 {
		t.Errorf("huge metrics are %d bytes", len(text))
	}
	dies := start(t, "--fault", "die-after=2:7")
	for range 2 {
		dies.do("POST", "/v1/chat/completions", chat("x", `,"max_tokens":1`))
	}
	if status := <-dies.status; status != 7 {
		t.Errorf("exit status %d, want 7", status)
	}
	dies.status = nil
}

// program runs the program as a process of its own.
func program(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "SIM_MAIN=1")
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestProgram_startFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   []string
	}{
		{
			"out of memory",
			[]string{"--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "rtx-2000-ada"},
			1,
			[]string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "RuntimeError: Engine core initialization failed. See root cause above."},
		},
		{
			"type",
			[]string{"--model", "Qwen/Qwen2.5-1.5B-Instruct", "--gpu", "t4", "--dtype", "bfloat16"},
			1,
			[]string{"Bfloat16 is only supported on GPUs with compute capability of at least 8.0"},
		},
		{"unknown model", []string{"--model", "nobody/nothing"}, 1, []string{"is not a valid model identifier"}},
		{"unknown flags", []string{"--model", "tiny", "--foo", "bar", "--baz"}, 2, []string{"error: unrecognized arguments: --foo bar --baz"}},
		{"unknown gpu", []string{"--model", "tiny", "--gpu", "h300"}, 2, []string{"error: argument --gpu: invalid choice: 'h300' (choose from 't4', 'rtx-2000-ada'"}},
		{"bad value", []string{"--model", "tiny", "--max-num-seqs", "many"}, 2, []string{`invalid value "many"`}},
		{"no model", nil, 2, []string{"error: the following arguments are required: --model"}},
		{"bad fault", []string{"--model", "tiny", "--fault", "nonsense=1"}, 2, []string{`no fault "nonsense"`}},
		{"exit at start", []string{"--port", "0", "--model", "tiny", "--fault", "die-at-start=3"}, 3, []string{"fault: exit status 3"}},
		{"signal at start", []string{"--port", "0", "--model", "tiny", "--fault", "die-at-start=kill"}, -1, nil},
		{"help", []string{"--help"}, 0, []string{"Usage: sweep sim", "--[no-]enable-prefix-caching", "die-after=N:D", "EXIT STATUS"}},
	} {
		status, out := program(t, c.args...)
		if status != c.status {
			t.Errorf("%s: status %d, want %d\n%s", c.name, status, c.status, out)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, out)
			}
		}
	}
}

func TestProgram_addressInUse(t *testing.T) {
	in := start(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(in.url, "http://"), ":")
	status, out := program(t, "--model", "tiny", "--port", port)
	if status != 1 || !strings.Contains(out, "Address already in use") {
		t.Errorf("%d %s", status, out)
	}
}

// TestPace: the pacer keeps the virtual clock. A decode of n steps takes n
// times a step in real time, and the client's clock agrees with the server's.
// A busy machine only delays an answer, so the soonest of several is judged.
func TestPace(t *testing.T) {
	in := start(t, "--gpu", "rtx-2000-ada", "--model", "google/gemma-3-270m", "--served-model-name", "sweep/tiny")
	var took, e2e, before float64
	for range 20 {
		begin := time.Now()
		in.do("POST", "/v1/chat/completions", chat("x", `,"max_tokens":200,"ignore_eos":true`))
		took = time.Since(begin).Seconds()
		sum := in.metric("vllm:e2e_request_latency_seconds_sum{")
		e2e, before = sum-before, sum
		if e2e < 0.4 || took < e2e*0.999 {
			break // 200 steps of about 2.8 ms
		}
		if took <= e2e*1.2+0.1 {
			return
		}
	}
	t.Errorf("the server says %.3f s, the client saw %.3f s", e2e, took)
}

// A busy machine only delays an answer, so the scale is judged by the soonest of
// several.
func TestTimeScale(t *testing.T) {
	slow, fast := start(t, "--gpu", "t4"), start(t, "--gpu", "t4", "--time-scale", "10")
	body := chat("x", `,"max_tokens":200,"ignore_eos":true`)
	sum := func(in *instance) float64 { return in.metric("vllm:e2e_request_latency_seconds_sum{") }
	soonest := map[*instance]float64{slow: math.Inf(1), fast: math.Inf(1)}
	for range 100 {
		for in := range soonest {
			before := sum(in)
			in.do("POST", "/v1/chat/completions", body)
			soonest[in] = min(soonest[in], sum(in)-before)
		}
		if r := soonest[slow] / soonest[fast]; r > 9 && r < 11 {
			return
		}
	}
	t.Errorf("%.4f s at scale 1, %.4f s at scale 10", soonest[slow], soonest[fast])
}

func TestConcurrentStreams(t *testing.T) {
	in := start(t, "--max-num-seqs", "8", "--gpu", "rtx-2000-ada")
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			status, text, err := in.try("POST", "/v1/chat/completions", chat(fmt.Sprint("stream ", i), `,"stream":true,"max_tokens":40,"ignore_eos":true,"stream_options":{"include_usage":true}`))
			if err != nil || status != 200 || strings.Count(text, `"content"`) != 41 || !strings.Contains(text, `"completion_tokens":40`) {
				t.Errorf("stream %d: %d %v, %d chunks", i, status, err, strings.Count(text, `"content"`))
			}
		})
	}
	wg.Wait()
	if n := in.metric("vllm:generation_tokens_total{"); n != 24*40 {
		t.Errorf("%v tokens generated", n)
	}
}

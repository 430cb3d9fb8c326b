package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/sim/server"
	"sweep.dev/sweep/sim/text"
)

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
	recorded := recordtest.Read(t, "recorded__vllm-0.32.0__chat.sse")
	in := start(t, "--no-enable-prompt-tokens-details")
	_, got := in.do("POST", "/v1/chat/completions", chat("Hello", `,"stream":true,"max_tokens":12,"ignore_eos":true,"stream_options":{"include_usage":true}`))
	if d := cmp.Diff(shape(string(recorded)), shape(got)); d != "" {
		t.Errorf("recorded (-) and simulated (+) differ:\n%s", d)
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
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("x", `,"stream":true,"max_tokens":5,"ignore_eos":true`)))
	resp, err := in.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for n := 0; n < 3; {
		if !lines.Scan() {
			t.Fatalf("%d tokens, then %v", n, lines.Err())
		}
		n += strings.Count(lines.Text(), `"content"`)
	}
	defer time.AfterFunc(300*time.Millisecond, cancel).Stop()
	for lines.Scan() {
		if lines.Text() != "" {
			t.Errorf("goes on with %q", lines.Text())
		}
	}
	if lines.Err() == nil {
		t.Error("the stream ends")
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

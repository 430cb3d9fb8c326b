package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result"
)

// A givenServer is an OpenAI-compatible server of somebody else that writes down
// every request by its method and path; completions that are not streamed apart.
// Each word is one token, and its template adds 7.
type givenServer struct {
	*httptest.Server
	tokenizer string        // what the text is called in a request to /tokenize; "" has no such path
	split     int           // a word is one token and one more for each so many letters; 0 is one
	mute      bool          // answers have no usage
	caches    bool          // answers say how much of the prompt was known
	metrics   string        // body of /metrics
	delay     time.Duration // before a completion

	mu      sync.Mutex
	version string
	seen    map[string]int
	known   map[string]bool // beginnings of prompts
}

const givenTemplate = 7 // tokens

func newGivenServer(t *testing.T, change func(*givenServer)) *givenServer {
	t.Helper()
	s := &givenServer{version: "1.0", seen: map[string]int{}, known: map[string]bool{}}
	change(s)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *givenServer) count(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		n++
		if s.split > 0 {
			n += len(word) / s.split
		}
	}
	return n
}

func (s *givenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model, Prompt, Content string
		Messages               []struct{ Content string }
		MaxTokens              int `json:"max_tokens"`
		Stream                 bool
	}
	if r.Method == http.MethodPost && r.ContentLength > 0 {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	key := r.Method + " " + r.URL.Path
	if r.URL.Path == "/v1/chat/completions" && !body.Stream {
		key += " whole"
	}
	s.mu.Lock()
	s.seen[key]++
	s.mu.Unlock()
	switch r.URL.Path {
	case "/health", "/reset_prefix_cache", "/flush_cache":
	case "/v1/models":
		fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
	case "/version", "/server_info":
		s.mu.Lock()
		version := s.version
		s.mu.Unlock()
		fmt.Fprintf(w, `{"version":%q}`, version)
	case "/props":
		fmt.Fprint(w, `{"build_info":"b1"}`)
	case "/metrics":
		if s.metrics == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, s.metrics)
	case "/tokenize":
		text, ok := map[string]string{"prompt": body.Prompt, "content": body.Content}[s.tokenizer]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"count": s.count(text), "tokens": make([]int, s.count(text))})
	case "/v1/chat/completions":
		time.Sleep(s.delay)
		prompt, cached := givenTemplate, 0
		for _, m := range body.Messages {
			prompt += s.count(m.Content)
			cached += s.remember(m.Content)
		}
		s.complete(w, body.Stream, prompt, cached, max(1, body.MaxTokens))
	default:
		http.NotFound(w, r)
	}
}

// remember returns the prefix cache: how many words of a text were known from its
// beginning on.
func (s *givenServer) remember(text string) (cached int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := strings.Fields(text)
	for i := range words {
		prefix := strings.Join(words[:i+1], " ")
		if s.known[prefix] {
			cached = i + 1
		}
		s.known[prefix] = true
	}
	return cached
}

func (s *givenServer) complete(w http.ResponseWriter, stream bool, prompt, cached, tokens int) {
	usage := ""
	if !s.mute && s.caches {
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, prompt, tokens, prompt+tokens, cached)
	} else if !s.mute {
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, prompt, tokens, prompt+tokens)
	}
	if !stream {
		fmt.Fprintf(w, `{"model":"m","choices":[{"index":0,"message":{"content":"w"},"finish_reason":"length"}]%s}`, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range tokens {
		finish := "null"
		if i == tokens-1 {
			finish = `"length"`
		}
		fmt.Fprintf(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w \"},\"finish_reason\":%s}]}\n\n", finish)
	}
	if usage != "" {
		fmt.Fprintf(w, "data: {\"model\":\"m\",\"choices\":[]%s}\n\n", usage)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// upgrade gives the server another version.
func (s *givenServer) upgrade(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// got returns everything that was asked until now.
func (s *givenServer) got() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seen)
}

// onGiven runs a plan against a given server and returns its rows and what was said.
func onGiven(t *testing.T, s *givenServer, engine, backend, load string, codes ...int) ([]result.Row, ran) {
	t.Helper()
	dir := t.TempDir()
	path, out := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "run")
	write(t, path, fmt.Sprintf(`version: 1
name: given
model: m
matrix: {engine: %s, concurrency: [2, 4]}
backend: {kind: endpoint, url: %q%s}
load: %s
`, engine, s.URL, backend, load))
	args := append(append([]string{"run", "--calibrate", "never", "-o", out}, rehearsal...), path)
	got := sweep(t, t.TempDir(), nil, args...)
	if !slices.Contains(codes, got.code) {
		t.Fatalf("exit %d, want %v\n%s\n%s", got.code, codes, got.stdout, got.stderr)
	}
	return rowsOf(t, out), got
}

const givenLoad = `{requests: 24, warmup: {requests: 2}, max_tokens: 4, prompts: {input_tokens: 20}}`

// TestGiven_requests: every request that a server of somebody else gets is the
// load's, or is counted; none of them changes it; and there are no more than
// the start of the run says.
func TestGiven_requests(t *testing.T) {
	t.Parallel()
	const completions, whole = "POST /v1/chat/completions", "POST /v1/chat/completions whole"
	for _, c := range []struct {
		engine, tokenizer, backend string
		metrics                    string
		want                       map[string]int // beside the load, and looks at metrics
		counting                   int            // completions of one token to count tokens
	}{
		{"generic-openai", "", "", "", map[string]int{"GET /v1/models": 1}, 4},
		{"vllm", "prompt", "", "vllm:num_requests_running 0\n", map[string]int{"GET /v1/models": 2, "GET /version": 1, "POST /tokenize": 16}, 2},
		{"vllm", "", "", "", map[string]int{"GET /v1/models": 2, "GET /version": 1, "POST /tokenize": 1}, 4},
		{"vllm", "prompt", ", reset_cache: between_trials", "", map[string]int{"GET /v1/models": 2, "GET /version": 1, "POST /tokenize": 16, "POST /reset_prefix_cache": 2}, 2},
		{"sglang", "prompt", "", "", map[string]int{"GET /v1/models": 2, "GET /server_info": 1, "POST /tokenize": 16}, 2},
		{"sglang", "prompt", ", reset_cache: between_trials", "", map[string]int{"GET /v1/models": 2, "GET /server_info": 1, "POST /tokenize": 16, "POST /flush_cache": 2}, 2},
		{"llamacpp", "content", "", "", map[string]int{"GET /v1/models": 2, "GET /props": 1, "POST /tokenize": 16}, 2},
		{"trtllm", "", "", "", map[string]int{"GET /v1/models": 2, "GET /version": 1}, 4},
	} {
		t.Run(strings.Join([]string{c.engine, c.tokenizer, c.backend}, " "), func(t *testing.T) {
			s := newGivenServer(t, func(s *givenServer) { s.tokenizer, s.metrics = c.tokenizer, c.metrics })
			rows, said := onGiven(t, s, c.engine, c.backend, givenLoad, exitOK)
			got := s.got()
			all := 0
			for key, n := range got {
				all += n
				if strings.HasPrefix(key, "GET ") && strings.Contains(key, "/metrics") {
					delete(got, key) // as many as the trials are long
				}
			}
			want := maps.Clone(c.want)
			want[completions] = 1 + 2*(24+2) + 6 // the first of each worker; the first of all shows that the server is ready
			want[whole] = c.counting
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			requests, extra, computed := int64(0), int64(0), int64(0)
			for _, row := range rows {
				requests += row["requests"].(int64)
				extra += row["extra_requests"].(int64)
				computed += row["extra_completions"].(int64)
				if row["prompt_length_error"] != 0.0 || row["findings"] != nil && strings.Contains(row["findings"].(string), "prompt_length") {
					t.Errorf("prompts are off by %v, findings %v", row["prompt_length_error"], row["findings"])
				}
			}
			if requests != 54 || extra != int64(all)-54 || computed != int64(1+c.counting+4) {
				t.Errorf("%d requests, %d more, %d of them completions; the server got %d", requests, extra, computed, all)
			}
			if !strings.Contains(said.stderr, c.engine+": up to ") {
				t.Errorf("the start of the run does not say what is sent beyond the load:\n%s", said.stderr)
			}
		})
	}
}

// TestGiven_counting: what a server does not say, or says otherwise, costs it no more.
func TestGiven_counting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*givenServer)
		finding string
		whole   int     // completions that are not streamed
		off     float64 // most that prompts may be off; -1 is not known
	}{
		"no usage":         {func(s *givenServer) { s.mute = true }, "prompt_length_unknown", 1, -1},
		"parts of words":   {func(s *givenServer) { s.split = 4 }, "prompt_length_inexact", 4, 0.15},
		"letters in pairs": {func(s *givenServer) { s.split = 2 }, "prompt_length_inexact", 4, 0.15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newGivenServer(t, c.change)
			rows, _ := onGiven(t, s, "generic-openai", "", strings.Replace(givenLoad, "20}", "200}", 1), exitOK, exitIncomplete)
			if n := s.got()["POST /v1/chat/completions whole"]; n != c.whole {
				t.Errorf("%d completions of one token, want %d", n, c.whole)
			}
			for _, row := range rows {
				if findings, _ := row["findings"].(string); !strings.Contains(findings, c.finding) {
					t.Errorf("findings %q, want %s", findings, c.finding)
				}
				if off, ok := row["prompt_length_error"].(float64); ok != (c.off >= 0) || off > c.off && ok {
					t.Errorf("prompts are off by %v, want at most %g", row["prompt_length_error"], c.off)
				}
			}
		})
	}
}

// TestGiven_twice: a plan that is run twice on a server that keeps its cache is as
// valid the second time, if its prompts are made up; given prompts are known by
// then, which the row says.
func TestGiven_twice(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 60 {
		texts = append(texts, fmt.Sprintf("%q", fmt.Sprintf("%d ", i)+strings.Repeat("alpha beta gamma ", 10)))
	}
	given := func(more string) string {
		return `{requests: 24, warmup: {requests: 2}, max_tokens: 4, prompts: {kind: inline, texts: [` + strings.Join(texts, ", ") + `]` + more + `}}`
	}
	for name, c := range map[string]struct {
		load    string
		caches  bool
		invalid any  // of the second run
		unknown bool // both runs have the finding
	}{
		"made up":                      {givenLoad, true, nil, false},
		"given":                        {given(""), true, "cache_state", false},
		"given, with markers":          {given(", cache_bust: true"), true, nil, false},
		"given, of which nothing said": {given(""), false, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newGivenServer(t, func(s *givenServer) { s.caches = c.caches })
			for run := range 2 {
				rows, _ := onGiven(t, s, "generic-openai", "", c.load, exitOK, exitIncomplete)
				for _, row := range rows {
					findings, _ := row["findings"].(string)
					if strings.Contains(findings, "cache_unknown") != c.unknown {
						t.Errorf("run %d: findings %q, cache_unknown: want %v", run+1, findings, c.unknown)
					}
					if invalid := row["invalid_reasons"]; run == 0 && invalid != nil || run == 1 && invalid != c.invalid {
						t.Errorf("run %d: INVALID by %v, want %v", run+1, invalid, c.invalid)
					}
				}
			}
		})
	}
}

// TestGiven_plan: sweep plan says what a given server will get, for people and for
// programs.
func TestGiven_plan(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.yaml")
	write(t, path, `version: 1
name: given
model: m
matrix: {engine: vllm, concurrency: [2, 4]}
backend: {kind: endpoint, url: "http://127.0.0.1:1", reset_cache: between_trials}
load: `+givenLoad)
	got := sweep(t, t.TempDir(), nil, "plan", "-v", path)
	for _, line := range []string{
		`vllm: requests beyond the load, at most`,
		`reachable +1 request: GET /v1/models, once in a run`,
		`ready +3 requests, of them 1 completion: GET /v1/models, GET /version, a`,
		`count +264 requests, of them 8 completions: at most 256 texts for`,
		`reset +2 requests: POST /reset_prefix_cache before each of 2 trials`,
		`warm_up +4 completions`,
		`metrics .*GET /metrics before`,
	} {
		if !regexp.MustCompile(line).MatchString(got.stdout) {
			t.Errorf("it does not say %q:\n%s", line, got.stdout)
		}
	}
	got = sweep(t, t.TempDir(), nil, "plan", "--json", path)
	var list []struct {
		Extra []struct {
			What                  string
			Requests, Completions *int
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list) != 1 || len(list[0].Extra) != 6 {
		t.Fatalf("%v\n%s", err, got.stdout)
	}
	for _, x := range list[0].Extra {
		if unknown := x.Requests == nil; unknown != (x.What == "metrics") {
			t.Errorf("%s: %v requests", x.What, x.Requests)
		}
	}
}

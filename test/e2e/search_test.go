//go:build bench

package e2e

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	loads "sweep.dev/sweep/load"
)

// A queue serves a few requests at a time, in their order, each for an exponential time. In a
// closed loop of more users than places, a request finds all others there, so that its
// latency is the sum of Erlang-distributed waiting and its own service: the share of
// requests above a limit is known.
type queue struct {
	places chan struct{}
	mean   time.Duration // of a service
	served atomic.Int64
}

func (q *queue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/health": // guidellm asks for it first
		return
	case r.URL.Path == "/v1/models":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"tiny","object":"model"}]}`)
		return
	case r.Method != http.MethodPost:
		http.NotFound(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	q.places <- struct{}{}
	timer := loads.NewTimer()
	err := timer.WaitUntil(r.Context(), time.Now().Add(time.Duration(rand.ExpFloat64()*float64(q.mean))))
	timer.Close()
	<-q.places
	if err != nil {
		return
	}
	q.served.Add(1)
	w.Header().Set("Content-Type", "text/event-stream")
	const head = `data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[`
	_, _ = io.WriteString(w, head+`{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`+"\n\n"+
		head+`],"usage":{"prompt_tokens":20,"completion_tokens":1,"total_tokens":21}}`+"\n\ndata: [DONE]\n\n")
}

// above returns the share of requests that take longer than limit, of so many users.
func (q *queue) above(users int, limit time.Duration) float64 {
	service := 1 / q.mean.Seconds()
	waits := users - cap(q.places) // services to wait for
	if waits <= 0 {
		return math.Exp(-service * limit.Seconds())
	}
	all := service * float64(cap(q.places))
	gamma, _ := math.Lgamma(float64(waits))
	const steps = 4000
	step, share, within := limit.Seconds()/steps, 0.0, 0.0
	for i := range steps {
		x := (float64(i) + 0.5) * step
		density := math.Exp(float64(waits)*math.Log(all) + float64(waits-1)*math.Log(x) - all*x - gamma)
		within += density * step
		share += density * step * math.Exp(-service*(limit.Seconds()-x))
	}
	return 1 - within + share
}

// A searcher is a program that searches for the most users.
type searcher struct {
	name   string
	argv   func(url, dir string) []string
	answer func(dir string) (string, error)
}

const searchedLimit = 400 * time.Millisecond

// searchedUsers is the most users that sweep may try. Each has a request at least.
const searchedUsers = 64

// TestSearches lets sweep, aiperf and guidellm search for the most users of a server, with
// REQUESTS requests at each load, at which 95 % of the requests have their first token within
// the limit, TIMES times. The truth is known. -run names one of them: TestSearches/aiperf.
func TestSearches(t *testing.T) {
	need(t, "engines:peers", ".engines/aiperf/bin/aiperf", ".engines/guidellm/bin/guidellm")
	need(t, "engines:vllm", ".engines/tiny-hf/tokenizer.json")
	requests, times := number(t, "REQUESTS", 500), number(t, "TIMES", 1)
	if requests < searchedUsers {
		t.Fatalf("REQUESTS=%d is below %d: each of the %d users of the greatest load needs a request", requests, searchedUsers, searchedUsers)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{places: make(chan struct{}, 4), mean: 50 * time.Millisecond}
	server := httptest.NewServer(q)
	defer server.Close()
	truth := 1
	for q.above(truth+1, searchedLimit) <= 0.05 {
		truth++
	}
	t.Logf("truth: %d users (%.1f %% above the limit; %d users %.1f %%)", truth, 100*q.above(truth, searchedLimit), truth+1, 100*q.above(truth+1, searchedLimit))
	for range times {
		for _, s := range searchers(root, requests) {
			t.Run(s.name, func(t *testing.T) { s.search(t, q, server.URL) })
		}
	}
}

// search lets the program search once, and logs what it says.
func (s *searcher) search(t *testing.T, q *queue, url string) {
	dir, before, begun := t.TempDir(), q.served.Load(), time.Now()
	argv := s.argv(url, dir)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_OFFLINE=1", "SWEEP_CALIBRATE=never")
	out, err := cmd.CombinedOutput()
	answer, wrong := s.answer(dir)
	if wrong != nil {
		t.Fatalf("%s: %v (%v)\n%s", s.name, wrong, err, out[max(0, len(out)-1500):])
	}
	if err != nil { // sweep's exit code says that there is no answer, and others may fail behind it
		answer += ", " + err.Error()
	}
	t.Logf("%s: %s; %d requests, %.1f min", s.name, answer, q.served.Load()-before, time.Since(begun).Minutes())
}

func searchers(root string, requests int) []searcher {
	bin := func(parts ...string) string { return filepath.Join(append([]string{root, ".engines"}, parts...)...) }
	return []searcher{
		{"sweep", func(url, dir string) []string {
			plan := fmt.Sprintf(`version: 1
name: known
model: tiny
matrix: {engine: [generic-openai], max_tokens: [1]}
backend: {kind: endpoint, url: %q}
load: {requests: %d, warmup: {requests: 0}, prompts: {kind: synthetic, input_tokens: 20, length: words}, output: natural}
collect: []
find: {axis: concurrency, from: 4, to: %d, within: 5%%, objectives: {fast: p95_ttft_ms < %d}}
sinks: [csv]
`, url, requests, searchedUsers, searchedLimit.Milliseconds())
			path := filepath.Join(dir, "plan.yaml")
			if err := os.WriteFile(path, []byte(plan), 0o600); err != nil {
				panic(err)
			}
			return []string{program, "run", "--yes", "-o", filepath.Join(dir, "run"), path}
		}, func(dir string) (string, error) {
			f, err := os.Open(filepath.Join(dir, "run", "capacity.csv"))
			if err != nil {
				return "", err
			}
			defer f.Close()
			rows, err := csv.NewReader(f).ReadAll()
			if err != nil {
				return "", err
			}
			if len(rows) != 2 {
				return "", fmt.Errorf("capacity.csv has %d rows, want a head and an answer", len(rows))
			}
			row := map[string]string{}
			for i, name := range rows[0] {
				row[name] = rows[1][i]
			}
			return fmt.Sprintf("%s users %s, point estimate %s", row["capacity"], row["reason"], row["capacity_point"]), nil
		}},
		{"aiperf 0.13.0", func(url, dir string) []string {
			return []string{
				// With HF_HUB_OFFLINE it takes the path of a tokenizer for a name on the hub, and
				// exits 1. The proxy keeps it on this machine.
				"env", "-u", "HF_HUB_OFFLINE", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1",
				bin("aiperf", "bin", "aiperf"), "profile", "--model", "tiny", "--url", url, "--endpoint-type", "chat", "--streaming",
				"--tokenizer", bin("tiny-hf"), "--use-server-token-count", "--ui", "none", "--request-count", strconv.Itoa(requests),
				"--synthetic-input-tokens-mean", "20", "--output-tokens-mean", "1", "--artifact-dir", dir, "--no-server-metrics", "--no-gpu-telemetry",
				"--search-recipe", "max-concurrency-under-sla", "--ttft-sla-ms", strconv.FormatInt(searchedLimit.Milliseconds(), 10),
			}
		}, func(dir string) (string, error) {
			var v struct {
				Boundary struct {
					Best *struct {
						Users int `json:"value"`
					} `json:"feasible_max"`
				} `json:"boundary_summary"`
				Reason string `json:"convergence_reason"`
			}
			b, err := os.ReadFile(filepath.Join(dir, "search_history.json"))
			if err == nil {
				err = json.Unmarshal(b, &v)
			}
			if err == nil && v.Boundary.Best == nil {
				err = errors.New("search_history.json has no feasible_max")
			}
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d users, %s", v.Boundary.Best.Users, v.Reason), nil
		}},
		{"guidellm 0.8.1", func(url, _ string) []string {
			return []string{
				bin("guidellm", "bin", "guidellm"), "run", "--backend", "kind=openai_http,target=" + url + ",model=tiny",
				"--tokenizer", "kind=huggingface_auto,model=" + bin("tiny-hf"), "--profile", "kind=goodput,tolerance=0.05",
				"--constraint", "kind=max_requests,count=" + strconv.Itoa(requests), "--metrics", fmt.Sprintf(`{"kind":"generative","slo":{"ttft_ms":%d}}`, searchedLimit.Milliseconds()),
				"--data", "kind=synthetic_text,prompt_tokens=20,output_tokens=1", "--disable-console-interactive",
			}
		}, func(dir string) (string, error) {
			b, err := os.ReadFile(filepath.Join(dir, "benchmarks.json"))
			_, rest, found := strings.Cut(string(b), `"best_passing_streams":`)
			users, _, _ := strings.Cut(rest, ",")
			if err == nil && !found {
				err = errors.New("benchmarks.json has no best_passing_streams")
			}
			return strings.TrimSpace(users) + " users", err
		}},
	}
}

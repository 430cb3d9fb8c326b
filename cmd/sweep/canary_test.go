package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
	"sweep.dev/sweep/result/store"
)

// Canaries are secrets that must be nowhere but in the memory of who sends or
// reads them, and in the environment of who was given them.
const (
	canaryKey    = "sk-canary-6f1c0e9ab7d24453"
	canaryHeader = `hd/canary+0b8a4f2e"91c7=d6&e3` // that every encoding changes
	canaryEnv    = "hf_canary81f3c5d7e9b1a2c4"
	canaryCloud  = "rpa_CANARY7d21e0b94c6a4f58"
)

var canaryNames = []string{"SWEEP_API_KEY=" + canaryKey, "SWEEP_TENANT_TOKEN=" + canaryHeader, "HF_TOKEN=" + canaryEnv}

// encoded returns a canary in all the ways that a server, a log or we ourselves
// may have written it.
func encoded(canary string) map[string]string {
	quoted, _ := json.Marshal(canary)
	list := map[string]string{
		"plain": canary, "hex": hex.EncodeToString([]byte(canary)), "HEX": fmt.Sprintf("%X", canary),
		"URL": url.QueryEscape(canary), "path": url.PathEscape(canary), "JSON": strings.Trim(string(quoted), `"`),
		"numbers": strings.Trim(fmt.Sprint([]byte(canary)), "[]"),
	}
	// Its base64 forms within a longer text, which depend on where it begins.
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte("...."[:before] + canary + "..."))
		list[fmt.Sprintf("base64 %d", before)] = text[(8*before+5)/6 : 8*(before+len(canary))/6]
		text = base64.URLEncoding.EncodeToString([]byte("...."[:before] + canary + "..."))
		list[fmt.Sprintf("base64url %d", before)] = text[(8*before+5)/6 : 8*(before+len(canary))/6]
	}
	return list
}

// TestCanary_endpoint measures a server that tells everybody what it was sent,
// as real ones do ("Incorrect API key provided: ...").
func TestCanary_endpoint(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*indiscreet{"some requests": {every: 3}, "never ready": {every: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(server)
			defer s.Close()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "endpoint.yaml"), fmt.Sprintf(`
version: 1
name: endpoint
model: m
matrix: {engine: generic-openai, gpu: x, concurrency: 2, max_tokens: 2}
backend: {kind: endpoint, url: %q, key: "${SWEEP_API_KEY}", headers: {X-Tenant: "of ${SWEEP_TENANT_TOKEN}"}}
engines: {generic-openai: {}}
load:
  requests: 24
  warmup: {requests: 1}
  output: natural
  headers: {X-Other: "${SWEEP_TENANT_TOKEN}"}
  prompts: {kind: synthetic, input_tokens: 5}
timeouts: {ready: 2s}
`, s.URL))
			got := watched(t, dir, "run", "-o", "out", "--events", "events.jsonl", "endpoint.yaml")
			if got.code != exitIncomplete {
				t.Errorf("exit %d, want %d\n%s", got.code, exitIncomplete, got.stderr)
			}
			if server.right.Load() == 0 {
				t.Errorf("no request carried the secrets\n%s", got.stderr)
			}
			silent(t, dir, got)
			if told := watched(t, dir, "cells", "-v", "out"); !strings.Contains(told.stdout, "${SWEEP_API_KEY}") {
				t.Errorf("what the server said is not shown with the reference in place of the key:\n%s", told.stdout)
			}
			// Wherever the run is read again.
			for _, args := range [][]string{{"cells", "--json", "out"}, {"runs", "out"}, {"logs", "out"}, {"resume", "out"}, {"plan", "endpoint.yaml"}} {
				silent(t, dir, watched(t, dir, args...))
			}
		})
	}
}

// An indiscreet server speaks OpenAI's API. Every so many completions it
// refuses one, and says with which headers it came.
type indiscreet struct {
	every        int64
	right, count atomic.Int64 // requests with the secrets; completions
}

func (s *indiscreet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "Bearer "+canaryKey && r.Header.Get("X-Tenant") == "of "+canaryHeader {
		s.right.Add(1)
	}
	if !strings.HasSuffix(r.URL.Path, "/completions") {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	if s.count.Add(1)%s.every == 0 {
		w.WriteHeader(http.StatusUnauthorized)
		told := []string{r.Header.Get("Authorization"), r.Header.Get("X-Tenant"), r.Header.Get("X-Other")}
		// In another way each time. Its answer is cut, perhaps within a secret.
		switch n := s.count.Load() / s.every % 6; n {
		case 1:
			told = append(told, base64.StdEncoding.EncodeToString([]byte(strings.Join(told, ","))))
		case 2:
			told = append(told, hex.EncodeToString([]byte(told[0])), fmt.Sprintf("%X", told[1]))
		case 3:
			told = append(told, url.Values{"key": told}.Encode())
		default:
			told = append([]string{strings.Repeat("x", 320+int(n)*5)}, told...)
		}
		message, _ := json.Marshal("Incorrect API key provided: " + strings.Join(told, " "))
		fmt.Fprintf(w, `{"error":{"message":%s}}`, message)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		fmt.Fprint(w, `{"model":"m","choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"+
		"data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
}

// TestCanary_process starts servers that print their environment, as a
// wrapper with set -x does: one that then serves, and one that gives up.
func TestCanary_process(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "serve.sh"), `echo "token $HF_TOKEN, tenant $TENANT"
exec `+self+` sim --model sweep/tiny --gpu h100 "$@"
`)
	write(t, filepath.Join(dir, "process.yaml"), `
version: 1
name: process
model: sweep/tiny
matrix: {engine: [good, bad], gpu: x, concurrency: [1, 2], max_tokens: 3}
backend: {kind: process, env: {TENANT: "${SWEEP_TENANT_TOKEN}"}}
engines:
  good:
    profile: vllm
    command: [sh, serve.sh, "--host={{.Host}}", "--port={{.Port}}"]
    env: {HF_TOKEN: "${HF_TOKEN}"}
  bad:
    profile: vllm
    command: [sh, -c, 'echo "ValueError: the token $HF_TOKEN of $TENANT is not welcome" >&2; exit 3']
    env: {HF_TOKEN: "${HF_TOKEN}"}
load: {requests: 4, warmup: {requests: 0}, prompts: {input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`)
	got := watched(t, dir, "run", "-o", "out", "--events", "events.jsonl", "process.yaml")
	if got.code != exitIncomplete || !strings.Contains(got.stderr, "the token ${HF_TOKEN} of ${SWEEP_TENANT_TOKEN} is not welcome") {
		t.Errorf("exit %d, want %d and the server's own words\n%s", got.code, exitIncomplete, got.stderr)
	}
	if n := strings.Count(got.stdout+got.stderr, "did not start"); n == 0 {
		t.Errorf("the bad server started\n%s", got.stderr)
	}
	silent(t, dir, got)
	for _, args := range [][]string{{"logs", "out"}, {"plan", "--commands", "process.yaml"}} {
		silent(t, dir, watched(t, dir, args...))
	}
}

// watched runs sweep with the canaries in its environment, and looks at all
// command lines of the machine meanwhile.
func watched(t *testing.T, dir string, args ...string) ran {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, path := range lines {
				b, _ := os.ReadFile(path) // may have ended
				tells(t, path, b)
			}
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	got := sweep(t, dir, canaryNames, args...)
	close(quit)
	<-done
	return got
}

// silent fails if a canary stands in what sweep printed, or in any file
// below dir, packed or not.
func silent(t *testing.T, dir string, got ran) {
	t.Helper()
	tells(t, "stdout", []byte(got.stdout))
	tells(t, "stderr", []byte(got.stderr))
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(path, ".zst"):
			z, err := zstd.NewReader(bytes.NewReader(b))
			if err != nil {
				return err
			}
			defer z.Close()
			if b, err = io.ReadAll(z); err != nil {
				return err
			}
		case strings.HasSuffix(path, "requests.parquet"): // its pages are packed
			for r, err := range store.ReadRequests(bytes.NewReader(b), int64(len(b))) {
				if err != nil {
					return err
				}
				tells(t, path, fmt.Appendf(nil, "%+v", r))
			}
		}
		files++
		tells(t, path, b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 5 {
		t.Errorf("only %d files were looked at", files)
	}
}

func tells(t *testing.T, where string, b []byte) {
	t.Helper()
	for _, canary := range []string{canaryKey, canaryHeader, canaryEnv, canaryCloud} {
		for form, text := range encoded(canary) {
			if i := bytes.Index(b, []byte(text)); i >= 0 {
				t.Errorf("%s tells the secret (%s): ...%q", where, form, b[max(0, i-60):i+len(text)])
			}
		}
		// A beginning or an end of one, where a text was cut.
		for _, part := range []string{canary[:12], canary[len(canary)-12:]} {
			if i := bytes.Index(b, []byte(part)); i >= 0 {
				t.Errorf("%s tells a part of the secret: ...%q", where, b[max(0, i-60):i+len(part)])
			}
		}
	}
}

// TestCanary_killed kills sweep while a server runs that has printed what it
// was given: the resume takes it out of the log.
func TestCanary_killed(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "serve.sh"), `echo "token $HF_TOKEN"
exec `+self+` sim --model sweep/tiny --gpu h100 "$@"
`)
	write(t, filepath.Join(dir, "killed.yaml"), `
version: 1
name: killed
model: sweep/tiny
matrix: {engine: vllm, gpu: x, concurrency: 1, max_tokens: 3}
backend: process
engines: {vllm: {command: [sh, serve.sh, "--host={{.Host}}", "--port={{.Port}}"], env: {HF_TOKEN: "${HF_TOKEN}"}}}
load: {requests: 4, warmup: {requests: 0}, prompts: {input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`)
	env := append([]string{"SWEEP_FAULT=commit.journal:before:kill"}, canaryNames...)
	if got := sweep(t, dir, env, "run", "-o", "out", "killed.yaml"); got.code != -1 {
		t.Fatalf("exit %d, want it killed\n%s", got.code, got.stderr)
	}
	got := watched(t, dir, "resume", "out")
	if got.code != exitOK {
		t.Errorf("exit %d, want %d\n%s", got.code, exitOK, got.stderr)
	}
	silent(t, dir, got)
}

// TestCanary_panic has sweep panic with everything in its memory: a dump of all
// goroutines shows addresses, and no secret behind them.
func TestCanary_panic(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range []string{"commit.journal", "spawn.guard"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "serve.sh"), `echo "token $HF_TOKEN, tenant $TENANT"
exec `+self+` sim --model sweep/tiny --gpu h100 "$@"
`)
			write(t, filepath.Join(dir, "panic.yaml"), `
version: 1
name: panic
model: sweep/tiny
matrix: {engine: vllm, gpu: x, concurrency: 1, max_tokens: 3}
backend: {kind: process, env: {TENANT: "${SWEEP_TENANT_TOKEN}"}}
engines: {vllm: {command: [sh, serve.sh, "--host={{.Host}}", "--port={{.Port}}"], env: {HF_TOKEN: "${HF_TOKEN}"}}}
load: {requests: 4, warmup: {requests: 0}, headers: {Authorization: "Bearer ${SWEEP_API_KEY}"}, prompts: {input_tokens: 20}}
`)
			got := sweep(t, dir, append([]string{"SWEEP_FAULT=" + point + ":before:panic", "GOTRACEBACK=all"}, canaryNames...), "run", "-o", "out", "panic.yaml")
			if got.code == exitOK || !strings.Contains(got.stderr, "panic") || !strings.Contains(got.stderr, "goroutine") {
				t.Errorf("exit %d without a panic\n%s", got.code, got.stderr)
			}
			tells(t, "stdout", []byte(got.stdout))
			tells(t, "stderr", []byte(got.stderr))
		})
	}
}

// TestCanary_runpod rents pods whose servers print what they were given, and
// looks for the keys that protect them too: no reader ever needs those.
func TestCanary_runpod(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	quoted := podtest.Quote("env", asSweep+"=1", self, "sim", "--gpu")
	e, err := runpodtest.New(runpodtest.Options{
		Key: canaryCloud, Secrets: map[string]string{"stored": canaryEnv},
		Images: []podtest.Image{{
			Pattern: "example.com/leaky*", Entrypoint: []string{"vllm", "serve"},
			Programs: map[string]string{"vllm": `shift
echo "token $HF_TOKEN, tenant $TENANT, stored $STORED"
printf %s "$HF_TOKEN:$TENANT" | base64
exec ` + quoted + ` {gpu} "$@"
`},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "runpod.yaml"), fmt.Sprintf(`
version: 1
name: runpod
model: sweep/tiny
matrix: {engine: [good, bad], gpu: rtx-2000-ada, concurrency: 1, max_tokens: 3}
backend:
  kind: runpod
  key: ${RUNPOD_API_KEY}
  proxy_url: %q
  env: {TENANT: "${SWEEP_TENANT_TOKEN}", STORED: "{{ RUNPOD_SECRET_stored }}"}
  poll: 100ms
engines:
  good: {profile: vllm, image: "example.com/leaky:1", env: {HF_TOKEN: "${HF_TOKEN}"}}
  bad: {profile: vllm, image: "example.com/no-such:1", env: {HF_TOKEN: "${HF_TOKEN}"}}
load: {requests: 4, warmup: {requests: 0}, prompts: {input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
budget: {max_cost: 5}
retries: 0
timeouts: {launch: 30s, ready: 30s}
`, e.ProxyURL()))

	keys := map[string]bool{} // what protects the pods, by value
	lines := map[string]bool{}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			look(keys, lines, "VLLM_API_KEY=", "SWEEP_TOKEN=")
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	env := append([]string{"RUNPOD_API_KEY=" + canaryCloud, "RUNPOD_API_BASE_URL=" + e.URL(), "SWEEP_STATE_DIR=" + filepath.Join(dir, "state")}, canaryNames...)
	got := sweep(t, dir, env, "run", "--yes", "-o", "out", "--events", "events.jsonl", "runpod.yaml")
	close(quit)
	<-done
	if got.code != exitIncomplete || !strings.Contains(got.stdout, "did not start") {
		t.Errorf("exit %d, want %d\n%s\n%s", got.code, exitIncomplete, got.stdout, got.stderr)
	}
	silent(t, dir, got)
	for _, args := range [][]string{{"logs", "out"}, {"runs", "out"}, {"cells", "--json", "out"}, {"plan", "runpod.yaml"}, {"pods"}, {"pods", "--json"}, {"doctor"}} {
		silent(t, dir, sweep(t, dir, env, args...))
	}
	if logs := sweep(t, dir, env, "logs", "out").stdout; !strings.Contains(logs, "token ${HF_TOKEN}, tenant ${SWEEP_TENANT_TOKEN}, stored ${HF_TOKEN}") {
		t.Errorf("the server's own words are not in its log:\n%s", logs)
	}
	if len(keys) < 2 {
		t.Errorf("%d keys of pods were found, want the engine's and the agent's", len(keys))
	}
	for key := range keys {
		for line := range lines {
			if strings.Contains(line, key) {
				t.Errorf("a command line holds a pod's key: %q", line)
			}
		}
		nowhere(t, dir, key)
	}
	for line := range lines {
		tells(t, "a command line", []byte(line))
	}
}

// look adds the values of variables in the environments of all processes, and
// all command lines.
func look(values, lines map[string]bool, names ...string) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		line, _ := os.ReadFile(filepath.Join(p, "cmdline")) // may have ended
		lines[string(line)] = true
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		for kv := range strings.SplitSeq(string(env), "\x00") {
			for _, name := range names {
				if v, ok := strings.CutPrefix(kv, name); ok && len(v) >= 16 {
					values[v] = true
				}
			}
		}
	}
}

// nowhere fails if a file below dir holds a text.
func nowhere(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			t.Errorf("%s holds a pod's key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

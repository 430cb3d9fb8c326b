package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// endpointOf returns a server that streams these events.
func endpointOf(t *testing.T, events ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"id":"m"}]}`) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Stream bool }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !body.Stream {
			fmt.Fprint(w, `{}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// A probe ends with the text and the figures of its stream. What the server does
// not say is null.
func TestProbe_figures(t *testing.T) {
	t.Parallel()
	const role, one, two, last = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"Hel"}}]}`, `{"choices":[{"index":0,"delta":{"content":"lo\u001b[31m"}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	const usage = `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	for name, c := range map[string]struct {
		events  []string
		text    string
		chunks  int
		tpot    bool
		failure string
	}{
		"usage":     {[]string{role, one, two, last, usage, "[DONE]"}, "Hello\x1b[31m", 4, true, ""},
		"no usage":  {[]string{role, one, two, last, "[DONE]"}, "Hello\x1b[31m", 4, false, ""},
		"cut short": {[]string{role, one}, "Hel", 2, false, "finish_reason"},
	} {
		url := endpointOf(t, c.events...)
		got := sweep(t, ".", nil, "probe", "--json", url)
		var p probed
		if err := json.Unmarshal([]byte(got.stdout), &p); err != nil || got.code != exitOK {
			t.Fatalf("%s: exit %d, %v\n%s%s", name, got.code, err, got.stdout, got.stderr)
		}
		if p.Text != c.text || p.Chunks != c.chunks || !strings.Contains(p.Incomplete, c.failure) || (p.Incomplete == "") != (c.failure == "") {
			t.Errorf("%s: %q in %d chunks, incomplete: %q", name, p.Text, p.Chunks, p.Incomplete)
		}
		if complete := c.failure == ""; (p.TTFT != nil) != complete || (p.E2E != nil) != complete || (p.TPOT != nil) != c.tpot || (p.TokensPerS != nil) != c.tpot {
			t.Errorf("%s: TTFT %v, TPOT %v, E2E %v, tokens/s %v", name, p.TTFT, p.TPOT, p.E2E, p.TokensPerS)
		}
		if c.tpot && (*p.E2E < *p.TTFT || *p.Tokens != 2) {
			t.Errorf("%s: TTFT %v, E2E %v, %d tokens", name, *p.TTFT, *p.E2E, *p.Tokens)
		}
		text := sweep(t, ".", nil, "probe", url).stdout
		if !strings.Contains(text, "  text        \"Hel") || strings.Contains(text, "\x1b") {
			t.Errorf("%s: it prints\n%q", name, text)
		}
	}
}

// A server that is not up, or that still loads its model, is told apart from a wrong
// address or key, and a page from an answer. None is an internal error.
func TestProbe_notReady(t *testing.T) {
	t.Parallel()
	loading := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"Loading model"}}`, http.StatusServiceUnavailable)
	}))
	t.Cleanup(loading.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
			return
		}
		_, _ = io.WriteString(w, "<html>\x1b[31mwelcome</html>")
	}))
	t.Cleanup(page.Close)
	for url, want := range map[string]string{
		page.URL:             "completion: the answer is no JSON: <html>welcome</html>",
		"http://127.0.0.1:1": "hint: is the server up, and is this its address?",
		loading.URL:          "hint: the server is not ready",
	} {
		for _, form := range []string{"--json=false", "--json"} {
			r := sweep(t, t.TempDir(), nil, "probe", form, url)
			if r.code != exitIncomplete || !strings.Contains(r.stderr, want) || form == "--json" && !json.Valid([]byte(r.stdout)) {
				t.Errorf("%s %s: exit %d, want %q\n%s\n%s", form, url, r.code, want, r.stdout, r.stderr)
			}
		}
	}
}

// With -v the answer to each question is printed as it came, without secrets and at most its
// first 64 KiB. Without it none is.
func TestProbe_answers(t *testing.T) {
	t.Parallel()
	const key, marker = "sk-0123456789abcdef", "EVERY-LINE"
	lines := strings.Repeat("# HELP x  two spaces\n", maxShown/21) // less than is shown
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Stream bool }
		_ = json.NewDecoder(r.Body).Decode(&body)
		switch {
		case r.URL.Path == "/v1/models":
			fmt.Fprintf(w, `{"data":[{"id":"m","note":"%s %s"}]}`, marker, r.Header.Get("Authorization"))
		case r.URL.Path == "/metrics":
			_, _ = io.WriteString(w, lines+strings.Repeat("y", 2*maxShown)+"THE END")
		case body.Stream:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": a comment\x1b[31m\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"%s\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", key)
		default:
			fmt.Fprintf(w, `{"id":"c-1","key":%q}`, key)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	got := sweep(t, ".", nil, "probe", "-v", "--key-file", file, server.URL)
	for _, want := range []string{
		`GET /v1/models:` + "\n" + `  {"data":[{"id":"m","note":"EVERY-LINE Bearer the key`, "POST /v1/chat/completions:\n  {\"id\":\"c-1\",\"key\":\"the key\"}",
		"POST /v1/chat/completions, as a stream:\n  : a comment\n", "data: [DONE]\n", "GET /metrics:\n  # HELP x  two spaces\n", "\n  The answer goes on: these are its first 64 KiB.\n",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, form := range []string{"-v", "-v=false", "--json"} {
		got := sweep(t, ".", nil, "probe", form, "--key-file", file, server.URL)
		for _, never := range []string{key, "THE END", "\x1b"} {
			if strings.Contains(got.stdout+got.stderr, never) || got.code != exitOK {
				t.Errorf("%s: exit %d, it prints %q", form, got.code, never)
			}
		}
		if shown := strings.Contains(got.stdout, marker); shown != (form == "-v") {
			t.Errorf("%s: the whole answers are printed: %v", form, shown)
		}
	}
	var p probed
	if err := json.Unmarshal([]byte(sweep(t, ".", nil, "probe", "-v", "--json", "--key-file", file, server.URL).stdout), &p); err != nil || len(p.Answers) != 4 || len(p.Answers[3].Text) > maxShown+100 {
		t.Errorf("%d answers, %v", len(p.Answers), err)
	}
}

// An answer that is an error is printed whole as well: it may say more than its first line.
func TestProbe_answersOfErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no\n"+strings.Repeat("because\n", 100)+"of this", http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	got := sweep(t, ".", nil, "probe", "-v", server.URL)
	if got.code != exitIncomplete || !strings.Contains(got.stdout, "GET /v1/models (status 418):\n  no\n  because\n") || !strings.Contains(got.stdout, "\n  of this\n") {
		t.Errorf("exit %d\n%s", got.code, got.stdout)
	}
}

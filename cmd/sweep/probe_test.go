package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// endpointOf is a server that streams these events.
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

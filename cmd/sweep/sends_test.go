package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSends_asked: a terminal asks once for each host, and the answer holds for the next
// run of any plan. A no is not remembered.
func TestSends_asked(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SWEEP_API_KEY", canaryKey)
	t.Setenv("SWEEP_STATE_DIR", filepath.Join(dir, "state"))
	path := filepath.Join(dir, "far.yaml")
	write(t, path, `
version: 1
name: far
model: m
backend: {kind: endpoint, url: "https://llm.example.invalid", key: "${SWEEP_API_KEY}", headers: {X-Tenant: "${SWEEP_API_KEY}"}}
matrix: {engine: generic-openai, concurrency: [1]}
load: {requests: 2, max_tokens: 4, prompts: {input_tokens: 20}}
`)
	const question = "send SWEEP_API_KEY to llm.example.invalid? [y/N] "
	for n, c := range []struct {
		answer string
		code   int
		asked  int
		says   string
	}{
		{"\n", exitUsage, 1, "not agreed: nothing was sent to llm.example.invalid"},
		{"y\n", exitOK, 1, ""},
		{"", exitOK, 0, ""},
	} {
		var out, errs bytes.Buffer
		a := newApp()
		a.out, a.err, a.in, a.inTTY, a.errTTY = &out, &errs, strings.NewReader(c.answer), true, true
		code := a.do(t.Context(), []string{"sweep", "night", "schedule", "--target", "cron", path})
		if code != c.code || strings.Count(errs.String(), question) != c.asked || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%d: exit code %d, want %d and %d questions:\n%s", n, code, c.code, c.asked, &errs)
		}
		if code == exitOK && !strings.Contains(out.String(), "--send-env SWEEP_API_KEY=llm.example.invalid ") {
			t.Errorf("%d: the night has no permission:\n%s", n, &out)
		}
	}
	kept, err := os.ReadFile(filepath.Join(dir, "state", answersFile))
	if err != nil || string(kept) != "SWEEP_API_KEY=llm.example.invalid\n" {
		t.Errorf("remembered %q, %v", kept, err)
	}
}

// TestMetrics_key: the key goes to no other host, of which another name of this machine is
// one, and over http there is a warning.
func TestMetrics_key(t *testing.T) {
	t.Setenv("SWEEP_API_KEY", canaryKey)
	dir := t.TempDir()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed to %s with %v", r.URL, r.Header)
	}))
	defer thief.Close()
	for _, to := range []string{thief.URL, strings.Replace(thief.URL, "127.0.0.1", "localhost", 1)} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+canaryKey {
				t.Errorf("%s came without the key", r.URL)
			}
			http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
		}))
		got := sweep(t, dir, nil, "probe", "metrics", "--key-env", "SWEEP_API_KEY", s.URL+"/metrics")
		if got.code == exitOK || strings.Contains(got.stderr, "over plain http") {
			t.Errorf("%s: exit code %d:\n%s", to, got.code, got.stderr)
		}
		s.Close()
	}
	got := sweep(t, dir, nil, "probe", "metrics", "--key-env", "SWEEP_API_KEY", "http://llm.example.invalid:81/metrics")
	if !strings.Contains(got.stderr, fmt.Sprintf("the key goes to %s over plain http", "llm.example.invalid:81")) {
		t.Errorf("no warning:\n%s", got.stderr)
	}
}

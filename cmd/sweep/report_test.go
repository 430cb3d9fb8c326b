package main

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Texts of a prompt and of an answer, which no report may show.
const (
	canaryPrompt = "the prompt of canary 4b81e0d7"
	canaryAnswer = "the answer of canary 9c35f2a6"
)

// TestReport_canary holds that no report of a run has a text of a prompt or an answer.
func TestReport_canary(t *testing.T) {
	t.Parallel()
	prompted := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/completions") {
			http.Error(w, "not here", http.StatusNotFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(canaryPrompt)) {
			select {
			case prompted <- struct{}{}:
			default:
			}
		}
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			fmt.Fprintf(w, `{"model":"m","choices":[{"message":{"content":%q},"finish_reason":"stop"}]}`, canaryAnswer)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n", canaryAnswer)
	}))
	defer s.Close()
	dir := t.TempDir()
	var prompts strings.Builder
	for n := range 40 {
		fmt.Fprintf(&prompts, `{"prompt":"%s, %d"}`+"\n", canaryPrompt, n)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), prompts.String())
	write(t, filepath.Join(dir, "plan.yaml"), fmt.Sprintf(`
version: 1
name: canary
model: m
matrix: {engine: generic-openai, gpu: x, concurrency: [1, 2], max_tokens: 2}
backend: {kind: endpoint, url: %q}
engines: {generic-openai: {}}
load:
  requests: 8
  warmup: {requests: 1}
  output: natural
  prompts: {kind: jsonl, file: prompts.jsonl, reuse: allowed}
slo: {fast: p50_ttft_ms < 1000}
timeouts: {ready: 5s}
`, s.URL))
	ran := sweep(t, dir, nil, "run", "-o", "out", "plan.yaml")
	select {
	case <-prompted:
	default:
		t.Fatalf("no prompt had the canary\n%s%s", ran.stdout, ran.stderr)
	}
	for name, text := range reported(t, dir, "out") {
		for _, canary := range []string{canaryPrompt, canaryAnswer} {
			for form, secret := range encoded(canary) {
				if at := strings.Index(text, secret); at >= 0 {
					t.Errorf("%s has a text of a request (%s): %q", name, form, text[max(0, at-60):at+len(secret)])
				}
			}
		}
	}
}

// TestReport_hostile holds that what a plan and a server say is text in every report, and
// that each chart stands alone.
func TestReport_hostile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "evil.txt"), "</script><script>evil()</script><img src=x onerror=evil()>\n\x1b[31m=cmd|'/c calc'!A0\n::error::evil%0A::error::evil\n##[error]evil\n")
	write(t, filepath.Join(dir, "plan.yaml"), `
version: 1
name: hostile
model: "</title><img src=x onerror=evil()>::error::evil%0A"
matrix: {engine: bad, gpu: "</script><img src=x onerror=evil()>", concurrency: [1, 2], max_tokens: 3}
backend: process
engines:
  bad: {profile: vllm, command: [sh, -c, 'cat evil.txt >&2; echo "ValueError: $(cat evil.txt)" >&2; exit 3']}
load: {requests: 4, warmup: {requests: 0}, prompts: {input_tokens: 20}}
retries: 0
`)
	if got := sweep(t, dir, nil, "run", "-o", "out", "plan.yaml"); !strings.Contains(got.stdout, "did not start") {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	tags := regexp.MustCompile(`(?i)<img|<script>evil|evil\(\)</script`)
	for name, text := range reported(t, dir, "out") {
		if name == "html data" {
			continue // in base64, and the script makes texts of it
		}
		tame(t, name, text)
		if tag := tags.FindString(text); tag != "" {
			t.Errorf("%s has %q", name, tag)
		}
	}
}

// reported returns all reports of a run, by what they are. XML is well-formed; a chart asks
// for nothing else.
func reported(t *testing.T, dir, run string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, format := range []string{"html", "md", "junit", "json"} {
		got := sweep(t, dir, nil, "report", "--format", format, "-o", "-", "--charts", "charts", run)
		if got.code != exitOK || len(got.stdout) < 100 {
			t.Fatalf("%s: exit %d\n%s%s", format, got.code, got.stdout, got.stderr)
		}
		all[format] = got.stdout
	}
	parsed(t, "junit", all["junit"])
	_, rest, _ := strings.Cut(all["html"], `class="data">`)
	data, _, found := strings.Cut(rest, "</script>")
	packed, err := base64.StdEncoding.DecodeString(data)
	if err != nil || !found {
		t.Fatalf("the page's data: %v", err)
	}
	unpacked, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err != nil || len(unpacked) < 100 {
		t.Fatalf("the page's data: %v, %d bytes", err, len(unpacked))
	}
	all["html data"] = string(unpacked)
	for _, name := range []string{"summary.md", "answer.json"} {
		b, err := os.ReadFile(filepath.Join(dir, run, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	charts, err := filepath.Glob(filepath.Join(dir, "charts", "*.svg"))
	if err != nil || len(charts) == 0 {
		t.Fatalf("no charts, %v", err)
	}
	for _, path := range charts {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		all[name] = string(b)
		standsAlone(t, name, all[name])
	}
	return all
}

// standsAlone fails if a chart is not well-formed, or asks for something that is not in it.
func standsAlone(t *testing.T, name, text string) {
	t.Helper()
	elsewhere := regexp.MustCompile(`url\((?:[^#]|$)|@import`)
	for _, token := range parsed(t, name, text) {
		switch token := token.(type) {
		case xml.StartElement:
			if slices.Contains([]string{"a", "use", "image", "script", "foreignObject"}, token.Name.Local) {
				t.Errorf("%s has an element %s", name, token.Name.Local)
			}
			for _, a := range token.Attr {
				if a.Name.Local == "href" || a.Name.Local == "src" || strings.HasPrefix(a.Name.Local, "on") || elsewhere.MatchString(a.Value) {
					t.Errorf("%s has an attribute %s=%q", name, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if elsewhere.Match(token) { // a style sheet
				t.Errorf("%s asks for %q", name, elsewhere.Find(token))
			}
		case xml.Directive:
			t.Errorf("%s has a directive %q", name, token)
		}
	}
}

// parsed returns the tokens of well-formed XML.
func parsed(t *testing.T, name, text string) []xml.Token {
	t.Helper()
	var tokens []xml.Token
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return tokens
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tokens = append(tokens, xml.CopyToken(token))
	}
}

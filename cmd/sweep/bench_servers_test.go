package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server that can be measured is measured, however it lists its models, calls them, labels its
// streams and counts its tokens.
func TestBench_servers(t *testing.T) {
	t.Parallel()
	list := `{"object":"list","data":[{"id":"m"}]}`
	for name, s := range map[string]oddServer{
		"plain":                     {models: list},
		"forbidden list":            {status: http.StatusForbidden, args: []string{"--model", "m"}},
		"an array":                  {models: `[{"id":"m"}]`},
		"another name":              {models: list, answers: "org/m-2026"},
		"none below 16 tokens":      {models: list, least: 16},
		"a stream labelled as JSON": {models: list, media: "application/json"},
		"usage on the last chunk":   {models: list, last: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			args := append([]string{"bench", server.URL, "-c", "1", "--requests", "4", "--output", "16", "--input", "8", "--calibrate", "never", "--json", "-o", "out"}, s.args...)
			got := sweep(t, t.TempDir(), nil, args...)
			lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
			var row struct {
				Completed int `json:"completed"`
				Output    int `json:"output_tokens"`
			}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &row); err != nil || row.Completed < 4 || row.Output != 16*row.Completed {
				t.Errorf("exit %d, %d completed, %d output tokens, %v\n%s", got.code, row.Completed, row.Output, err, got.stderr)
			}
		})
	}
}

// An oddServer serves the model m with words of one token.
type oddServer struct {
	models  string // what it lists
	status  int    // of the list; 0 is 200
	answers string // the model that it names; "" is the one that was asked for
	least   int    // max_tokens that it takes
	media   string // of its streams
	last    bool   // the usage is on the last chunk, beside an empty choice
	args    []string
}

func (s oddServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		if s.status != 0 {
			w.WriteHeader(s.status)
		}
		_, _ = fmt.Fprint(w, s.models)
		return
	}
	var q struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
		Stream    bool   `json:"stream"`
	}
	if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&q) != nil {
		http.NotFound(w, r)
		return
	}
	if q.MaxTokens < s.least {
		http.Error(w, `{"error":{"message":"max_tokens is too small"}}`, http.StatusBadRequest)
		return
	}
	if s.answers != "" {
		q.Model = s.answers
	}
	usage := fmt.Sprintf(`{"prompt_tokens":8,"completion_tokens":%d,"total_tokens":%d}`, q.MaxTokens, 8+q.MaxTokens)
	media := s.media
	if media == "" {
		media = "text/event-stream"
	}
	w.Header().Set("Content-Type", media)
	chunk := func(choices, usage string) {
		_, _ = fmt.Fprintf(w, "data: {\"model\":%q,\"choices\":[%s],\"usage\":%s}\n\n", q.Model, choices, usage)
		w.(http.Flusher).Flush()
	}
	for range q.MaxTokens {
		chunk(`{"index":0,"delta":{"content":"w "},"finish_reason":null}`, "null")
	}
	end := `{"index":0,"delta":{},"finish_reason":"length"}`
	if s.last {
		chunk(end, usage)
	} else {
		chunk(end, "null")
		chunk("", usage)
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

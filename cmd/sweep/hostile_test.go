package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// hostile is a text that takes over a terminal (its title, clipboard, colours,
// in C0 and C1), a CI job (GitHub's and Azure's commands), a table in Markdown
// and a spreadsheet.
const hostile = "\n::set-output name=x::evil\n \u00a0::error::evil\n##[error]evil\n\x1b]52;c;ZXZpbA==\x07\x1b[2J\u009b31m\u009d0;evil\u009c\u202e\x7f\x9b" +
	"\r<script>evil()</script> | [evil](http://evil) =cmd|'/c calc'!A0"

// TestHostile measures a server that attacks whoever reads what it says: in
// errors, model names, deltas, metrics and its log.
func TestHostile(t *testing.T) {
	t.Parallel()
	var count atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		quoted, _ := json.Marshal(hostile)
		switch {
		case r.URL.Path == "/v1/models":
			fmt.Fprintf(w, `{"data":[{"id":%s},{"id":"m"}]}`, quoted)
		case r.URL.Path == "/metrics":
			fmt.Fprintf(w, "# HELP x %s\nvllm:num_requests_running{model_name=%q} 1\n", strings.ReplaceAll(hostile, "\n", " "), hostile)
		case !strings.HasSuffix(r.URL.Path, "/completions"):
			http.Error(w, hostile, http.StatusTeapot)
		case count.Add(1)%3 == 0:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%s,"type":%s}}`, quoted, quoted)
		default:
			body, _ := io.ReadAll(r.Body)
			if !bytes.Contains(body, []byte(`"stream":true`)) {
				fmt.Fprintf(w, `{"choices":[{"message":{"content":%s},"finish_reason":%s}]}`, quoted, quoted)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s},\"finish_reason\":%s}]}\n\n", quoted, quoted)
			fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", strings.NewReplacer("\n", " ", "\r", " ").Replace(hostile))
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "endpoint.yaml"), fmt.Sprintf(`
version: 1
name: hostile
model: m
matrix: {engine: generic-openai, gpu: x, concurrency: 2, max_tokens: 2}
backend: {kind: endpoint, url: %q}
engines: {generic-openai: {}}
load:
  requests: 12
  warmup: {requests: 1}
  output: natural
  prompts: {kind: synthetic, input_tokens: 5}
timeouts: {ready: 2s}
`, s.URL))
	write(t, filepath.Join(dir, "process.yaml"), `
version: 1
name: hostile-log
model: sweep/tiny
matrix: {engine: bad, gpu: x, concurrency: 1, max_tokens: 3}
backend: {kind: process}
engines:
  bad: {profile: vllm, command: [sh, -c, 'cat log.txt; cat log.txt >&2; echo "ValueError: $(cat log.txt)"; exit 3']}
load: {requests: 4, warmup: {requests: 0}, prompts: {input_tokens: 20}}
`)
	write(t, filepath.Join(dir, "log.txt"), hostile)
	// A stranger's plan attacks too.
	write(t, filepath.Join(dir, "wrong.yaml"), "version: 1\nname: x\nnonsense: \"\\e]52;c;ZXZpbA==\\a\\n::error::evil\"\n")

	write(t, filepath.Join(dir, "label.yaml"), `
version: 1
name: label
model: sweep/tiny
matrix: {engine: vllm, gpu: "x \u202e ##[error]", concurrency: 1, max_tokens: 3}
backend: process
engines: {vllm: {command: [sh, -c, "exit 3\n::error::evil"], env: {A: "\e]52;c;ZXZpbA==\a\u009b31m"}}}
load: {requests: 4, warmup: {requests: 0}, prompts: {input_tokens: 20}}
`)

	github := []string{"GITHUB_ACTIONS=true", "CI=true"}
	for _, args := range [][]string{
		{"run", "-o", "out", "--events", "-", "endpoint.yaml"},
		{"run", "-o", "bad", "process.yaml"},
		{"cells", "out"},
		{"cells", "--json", "out"},
		{"cells", "bad"},
		{"runs", "out"},
		{"runs", "--json", "out"},
		{"logs", "bad"},
		{"resume", "out"},
		{"probe", s.URL},
		{"probe", "--json", s.URL},
		{"probe", "--model", "\x1b]52;c;ZXZpbA==\x07", s.URL + "/nowhere"},
		{"plan", "label.yaml"},
		{"plan", "--commands", "label.yaml"},
		{"plan", "--json", "label.yaml"},
		{"run", "-o", "label", "label.yaml"},
		{"cells", "label"},
		{"validate", "wrong.yaml"},
		{"validate", "--json", "wrong.yaml"},
		{"run", "no\x1b]52;c;ZXZpbA==\x07\n::error::such.yaml"},
	} {
		got := sweep(t, dir, github, args...)
		tame(t, fmt.Sprintf("stdout of %q", args), got.stdout)
		tame(t, fmt.Sprintf("stderr of %q", args), got.stderr)
		if args[0] == "probe" && args[1] == s.URL && !strings.Contains(got.stdout, "evil") {
			t.Errorf("%q does not show what the server said:\n%s\n%s", args, got.stdout, got.stderr)
		}
		if args[0] == "logs" && strings.Count(got.stdout, "set-output name=x") < 3 {
			t.Errorf("the log lost its words:\n%s", got.stdout)
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".md":
			files++
			tame(t, path, string(b))
			if i := bytes.Index(b, []byte("<script")); i >= 0 {
				t.Errorf("%s has HTML: %q", path, b[i:min(len(b), i+80)])
			}
		case ".csv":
			files++
			if formula.Match(b) {
				t.Errorf("%s has a formula: %q", path, formula.Find(b))
			}
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files looked at, %v", files, err)
	}
}

var (
	// acting is what a terminal acts upon, or turns the direction of text.
	acting = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e\u2066-\u2069]")
	// workflow is a command to a runner of GitHub or Azure.
	workflow = regexp.MustCompile(`(?m)^[\s\p{Z}]*::|##\[`)
	// formula is a field of text that a spreadsheet would run.
	formula = regexp.MustCompile(`(?m)(^|,)"?[=@\t]`)
)

// tame fails if a text does more than be read.
func tame(t *testing.T, where, text string) {
	t.Helper()
	for _, re := range []*regexp.Regexp{acting, workflow} {
		if at := re.FindStringIndex(text); at != nil {
			t.Errorf("%s acts: %q", where, text[max(0, at[0]-40):min(len(text), at[1]+40)])
		}
	}
	if strings.ToValidUTF8(text, "") != text {
		t.Errorf("%s is no UTF-8", where)
	}
}

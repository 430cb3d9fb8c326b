//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/internal/polltest"
)

// TestEditor asks the language server that editors run for YAML about plans: their
// modeline names the schema, and nothing else is set up.
func TestEditor(t *testing.T) {
	t.Parallel()
	server := startEditor(t)
	plans, err := filepath.Glob("plans/*.yaml")
	if err != nil || len(plans) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	for _, name := range plans {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := server.open(t, name, string(text)); len(found) > 0 {
			t.Errorf("%s: %q", name, found)
		}
	}

	const plan = `# yaml-language-server: $schema=../schemas/plan.schema.json
version: 1
name: edited
model: org/model
matrix:
  engine: v
  con
backend: sim
engines:
  vllm:
    args:
      max-num-
load:
  requests: 4
slo:
  responsive: p95
`
	// at is the place behind the first use of a text.
	at := func(text, use string) position {
		before, _, ok := strings.Cut(text, use)
		if !ok {
			t.Fatalf("%q is not in the plan", use)
		}
		before += use
		return position{strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n') - 1}
	}
	server.open(t, "plans/edited.yaml", plan)
	for _, c := range []struct{ use, want string }{
		{"\n  con", "concurrency"},
		{"engine: v", "vllm"},
		{"max-num-", "max-num-seqs"},
		{"responsive: p95", "p95_ttft_ms"},
		{"\nload:\n  req", "requests_per_worker"},
	} {
		if got := server.complete(t, "plans/edited.yaml", at(plan, c.use)); !slices.Contains(got, c.want) {
			t.Errorf("behind %q nothing offers %s: %q", c.use, c.want, got)
		}
	}
	for use, want := range map[string][]string{
		"\nload":            {"The requests of one trial"},
		"load:\n  requests": {"Requests", "requests"},
	} {
		hover := server.hover(t, "plans/edited.yaml", at(plan, use))
		for _, text := range want {
			if !strings.Contains(hover, text) {
				t.Errorf("over %q: %q does not say %q", use, hover, text)
			}
		}
	}

	wrong := strings.NewReplacer("engine: v\n  con\n", "engine: vllm\n", "      max-num-\n", "      max-num-seqs: 8\n", "requests: 4", "reqests: 4", "p95\n", "p95_ttft_ms < 200\n").Replace(plan)
	found := server.open(t, "plans/wrong.yaml", wrong)
	if len(found) != 1 || !strings.Contains(found[0], "reqests") {
		t.Errorf("a wrong key: %q", found)
	}
	if found := server.open(t, "plans/right.yaml", strings.Replace(wrong, "reqests", "requests", 1)); len(found) > 0 {
		t.Errorf("the same without it: %q", found)
	}
}

// A position is a place in a text, from 0.
type position struct{ line, character int }

// An editor speaks the language server protocol.
type editor struct {
	in io.Writer

	mu          sync.Mutex
	id          int
	answers     map[int]json.RawMessage
	diagnostics map[string][]string // by URI; nil before the first
	failed      error
}

func startEditor(t *testing.T) *editor {
	t.Helper()
	const program = ".engines/editor/node_modules/.bin/yaml-language-server"
	need(t, "engines:editor", program)
	cmd := exec.CommandContext(t.Context(), program, "--stdio")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &editor{in: in, answers: map[int]json.RawMessage{}, diagnostics: map[string][]string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.read(bufio.NewReader(out))
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	e.ask(t, "initialize", map[string]any{
		"processId": os.Getpid(), "rootUri": nil,
		"capabilities": map[string]any{"textDocument": map[string]any{
			"completion": map[string]any{"completionItem": map[string]any{"snippetSupport": true}},
			"hover":      map[string]any{"contentFormat": []string{"markdown"}},
		}},
	})
	e.tell(t, "initialized", map[string]any{})
	return e
}

// read takes in what the server says: answers and diagnostics. Its own requests are
// answered with nothing.
func (e *editor) read(r *bufio.Reader) {
	for {
		header, err := textproto.NewReader(r).ReadMIMEHeader()
		var n int
		if err == nil {
			n, err = strconv.Atoi(header.Get("Content-Length"))
		}
		body := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(r, body)
		}
		var m struct {
			ID     *json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
			Params struct {
				URI         string
				Diagnostics []struct{ Message string }
				Items       []any
			}
		}
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		e.mu.Lock()
		switch {
		case err != nil:
			e.failed = err
			e.mu.Unlock()
			return
		case m.Method == "textDocument/publishDiagnostics":
			found := []string{}
			for _, d := range m.Params.Diagnostics {
				found = append(found, d.Message)
			}
			e.diagnostics[m.Params.URI] = found
		case m.Method != "" && m.ID != nil:
			e.send(map[string]any{"id": m.ID, "result": make([]any, len(m.Params.Items))})
		case m.ID != nil:
			id, _ := strconv.Atoi(string(*m.ID))
			e.answers[id] = m.Result
			if m.Error != nil {
				e.failed = fmt.Errorf("the language server refuses: %s", m.Error)
			}
		}
		e.mu.Unlock()
	}
}

// send sends a message. It is called with mu held.
func (e *editor) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	body, err := json.Marshal(m)
	if err == nil {
		_, err = fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	if err != nil {
		e.failed = err
	}
}

func (e *editor) tell(t *testing.T, method string, params any) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send(map[string]any{"method": method, "params": params})
}

// await waits until a condition holds, which is asked with mu held.
func (e *editor) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	polltest.Until(t, what, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.failed != nil {
			t.Fatal(e.failed)
		}
		return done()
	})
}

func (e *editor) ask(t *testing.T, method string, params any) json.RawMessage {
	t.Helper()
	e.mu.Lock()
	e.id++
	id := e.id
	e.send(map[string]any{"id": id, "method": method, "params": params})
	e.mu.Unlock()
	var answer json.RawMessage
	e.await(t, "an answer to "+method, func() (ok bool) {
		answer, ok = e.answers[id]
		return ok
	})
	return answer
}

func uri(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// open opens a document, and returns what the server finds wrong with it.
func (e *editor) open(t *testing.T, name, text string) []string {
	t.Helper()
	at := uri(t, name)
	e.tell(t, "textDocument/didOpen", map[string]any{
		"textDocument": map[string]any{"uri": at, "languageId": "yaml", "version": 1, "text": text},
	})
	var found []string
	e.await(t, "diagnostics of "+name, func() (ok bool) {
		found, ok = e.diagnostics[at]
		return ok
	})
	return found
}

func there(t *testing.T, name string, at position) map[string]any {
	t.Helper()
	return map[string]any{
		"textDocument": map[string]any{"uri": uri(t, name)},
		"position":     map[string]any{"line": at.line, "character": at.character},
	}
}

// complete returns what the server offers at a place.
func (e *editor) complete(t *testing.T, name string, at position) []string {
	t.Helper()
	var list struct{ Items []struct{ Label string } }
	if err := json.Unmarshal(e.ask(t, "textDocument/completion", there(t, name, at)), &list); err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, item := range list.Items {
		labels = append(labels, item.Label)
	}
	return labels
}

// hover returns what the server says of the word at a place.
func (e *editor) hover(t *testing.T, name string, at position) string {
	t.Helper()
	var answer struct{ Contents struct{ Value string } }
	at.character-- // on the word, not behind it
	if err := json.Unmarshal(e.ask(t, "textDocument/hover", there(t, name, at)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Contents.Value
}

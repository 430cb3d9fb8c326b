package fleet_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends/ports"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A log may be read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A process is one role, in a goroutine of the test.
type process struct {
	url  string
	log  *logbook
	stop func() // and wait
	code int    // after stop
}

// taken are the ports that a server of these tests was given. It may not listen yet, so that
// nothing else keeps the next one from the same port.
var taken sync.Map

func freePort(t *testing.T) int {
	t.Helper()
	for {
		port, err := ports.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, given := taken.LoadOrStore(port, true); !given {
			return port
		}
	}
}

// start runs `sweep sim` with these arguments until the end of the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	port := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{url: "http://127.0.0.1:" + strconv.Itoa(port), log: &logbook{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.code = sim.Main(ctx, append(args, "--port="+strconv.Itoa(port)), p.log, p.log)
	}()
	p.stop = func() { cancel(); <-ended }
	t.Cleanup(func() {
		p.stop()
		if p.code != 0 {
			t.Errorf("%v: exit status %d\n%s", args, p.code, p.log)
		}
	})
	return p
}

var engineArgs = []string{"--model=sweep/tiny", "--gpu=l4", "--jitter=0"}

func dynamo(t *testing.T, role string, more ...string) *process {
	t.Helper()
	args := []string{"--engine=dynamo", "--role=" + role}
	if role != "frontend" {
		args = append(args, engineArgs...)
	}
	return start(t, append(args, more...)...)
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// until waits for something to be true.
func until(t *testing.T, what string, p *process, is func() bool) {
	t.Helper()
	if !polltest.Within(polltest.Patience, is) {
		t.Fatalf("never: %s\n%s", what, p.log)
	}
}

// serving waits until a frontend has a model.
func serving(t *testing.T, p *process) {
	t.Helper()
	until(t, "a model is served", p, func() bool {
		_, body := get(t, p.url+"/v1/models")
		return strings.Contains(body, "sweep/tiny")
	})
}

// post returns the status and the body, which is open until the test ends.
func post(t *testing.T, url, body string) (int, io.Reader) {
	t.Helper()
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp.StatusCode, resp.Body
}

const chat = `{"model":"sweep/tiny","messages":[{"role":"user","content":"%s"}],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`

// An answer is what a stream said.
type answer struct {
	status int
	text   string
	chunks []map[string]any
	done   bool
	raw    string
}

func ask(t *testing.T, url, body string) answer {
	t.Helper()
	status, stream := post(t, url+"/v1/chat/completions", body)
	a := answer{status: status}
	var raw strings.Builder
	in := bufio.NewScanner(io.TeeReader(stream, &raw))
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			a.done = true
		default:
			var chunk map[string]any
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			a.chunks = append(a.chunks, chunk)
			for _, c := range chunk["choices"].([]any) {
				if d, ok := c.(map[string]any)["delta"].(map[string]any); ok {
					s, _ := d["content"].(string)
					a.text += s
				}
			}
		}
	}
	a.raw = raw.String()
	return a
}

func (a answer) usage(t *testing.T) map[string]any {
	t.Helper()
	u, ok := a.chunks[len(a.chunks)-1]["usage"].(map[string]any)
	if !ok {
		t.Fatalf("no usage in %s", a.raw)
	}
	return u
}

// keySets returns the shapes of a stream's events: the paths of all their keys.
func keySets(chunks []map[string]any) []string {
	var sets []string
	for _, c := range chunks {
		var paths []string
		var walk func(at string, v any)
		walk = func(at string, v any) {
			switch v := v.(type) {
			case map[string]any:
				for k, v := range v {
					paths = append(paths, at+k)
					walk(at+k+".", v)
				}
			case []any:
				for _, v := range v {
					walk(at+"[].", v)
				}
			}
		}
		walk("", c)
		slices.Sort(paths)
		if s := strings.Join(paths, " "); !slices.Contains(sets, s) {
			sets = append(sets, s)
		}
	}
	return sets
}

// recordedChunks returns the events of a recorded stream.
func recordedChunks(t *testing.T, file string) (chunks []map[string]any) {
	t.Helper()
	for line := range strings.Lines(string(recordtest.Read(t, file))) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			var c map[string]any
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				t.Fatal(err)
			}
			chunks = append(chunks, c)
		}
	}
	return chunks
}

// shapes returns the series of a body: type and sorted label names by name.
func shapes(t *testing.T, body string) map[string]map[string]bool {
	t.Helper()
	e, err := exposition.Parse([]byte(body), true)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]map[string]bool{}
	add := func(name, kind string, labels []exposition.Label) {
		var names []string
		for _, l := range labels {
			names = append(names, l.Name)
		}
		slices.Sort(names)
		if list[name] == nil {
			list[name] = map[string]bool{}
		}
		list[name][kind+" "+strings.Join(names, ",")] = true
	}
	for _, p := range e.Points {
		add(p.Name, p.Kind, p.Labels)
	}
	for _, h := range e.Histograms {
		var bounds []string
		for _, b := range h.Buckets {
			bounds = append(bounds, fmt.Sprint(b.Le))
		}
		add(h.Name, "histogram "+strings.Join(bounds, "/"), h.Labels)
	}
	return list
}

// compare says where the series of a simulated body are not those of a recorded
// one. only are names that one of them alone may have.
func compare(t *testing.T, file, body string, only ...string) {
	t.Helper()
	want, got := shapes(t, string(recordtest.Read(t, file))), shapes(t, body)
	excused := func(name string) bool {
		return slices.ContainsFunc(only, func(o string) bool { return strings.HasPrefix(name, o) })
	}
	for name := range want {
		if !excused(name) && !maps.Equal(want[name], got[name]) {
			t.Errorf("%s: %s is %v, recorded %v", file, name, got[name], want[name])
		}
	}
	for name := range got {
		if want[name] == nil && !excused(name) {
			t.Errorf("%s: %s is not in the recorded file", file, name)
		}
	}
}

// value returns the sum of the series of a name with these labels.
func value(t *testing.T, p *process, name string, labels ...string) float64 {
	t.Helper()
	_, body := get(t, p.url+"/metrics")
	return valueIn(t, body, name, labels...)
}

func valueIn(t *testing.T, body, name string, labels ...string) (sum float64) {
	t.Helper()
	e, err := exposition.Parse([]byte(body), true)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range e.Flat() {
		if p.Name != name {
			continue
		}
		has := func(k, v string) bool { return slices.Contains(p.Labels, exposition.Label{Name: k, Value: v}) }
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && has(labels[i], labels[i+1])
		}
		if fits {
			sum += p.Value
			found = true
		}
	}
	if !found {
		t.Errorf("no %s%v", name, labels)
	}
	return sum
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func simMain(t *testing.T, log *logbook, args ...string) int {
	t.Helper()
	return sim.Main(t.Context(), args, log, log)
}

func metricsOf(t *testing.T, p *process) string {
	t.Helper()
	_, body := get(t, p.url+"/metrics")
	return body
}

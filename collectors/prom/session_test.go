package prom

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// sink and place are this package's own, because the suite's import this one.
type sink struct {
	mu        sync.Mutex
	samples   []result.Sample
	artifacts map[string][]byte
	codes     []finding.Code
}

func (s *sink) Sample(v result.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, v)
}

func (s *sink) Artifact(name string, r io.Reader) error {
	b, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.artifacts == nil {
		s.artifacts = map[string][]byte{}
	}
	s.artifacts[name] = b
	return err
}

func (s *sink) Note(f result.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes = append(s.codes, f.Code)
}

type place struct {
	url   string
	asked *atomic.Int64 // requests of its server
	dial  atomic.Int64
}

func (p *place) URL() string { return p.url }
func (p *place) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	p.dial.Add(1)
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (p *place) Exec(context.Context, ...string) ([]byte, error) { return nil, host.ErrNotSupported }

func (p *place) Logs(context.Context) (io.ReadCloser, error) { return nil, host.ErrNotSupported }
func (p *place) Path() host.Path                             { return host.Direct }

// counted counts the requests to a handler.
func counted(handler http.Handler) (http.Handler, *atomic.Int64) {
	asked := new(atomic.Int64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		handler.ServeHTTP(w, r)
	}), asked
}

// wait waits until so many requests were asked.
func wait(t *testing.T, asked *atomic.Int64, requests int64) {
	t.Helper()
	polltest.Until(t, fmt.Sprint(requests, " requests"), func() bool { return asked.Load() >= requests })
}

// run runs one whole session against handler, of so many requests at the least.
func run(t *testing.T, c Config, handler http.Handler, requests int64) (result.Row, *sink, error) {
	t.Helper()
	handler, asked := counted(handler)
	server := httptest.NewServer(handler)
	defer server.Close()
	collector, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := new(sink)
	p := profile(t, "vllm")
	target := collectors.Trial{
		Targets: []collectors.Target{{Role: "server", Tier: engine.TierEngine, Host: &place{url: server.URL}, Metrics: &p.Metrics}},
		Profile: p, Anchor: result.NewAnchor(),
		Authorize: func(h http.Header) { h.Set("Authorization", "Bearer k") },
	}
	session, err := collector.Start(t.Context(), target, s)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, asked, requests)
	row, err := session.Finish(t.Context())
	return row, s, err
}

// An engine that generates ten tokens between two looks.
func counting(w http.ResponseWriter, n int64) {
	fmt.Fprintf(w, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{engine=\"0\"} %d\nvllm:num_requests_running{engine=\"0\"} %d\nvllm:generation_tokens_created{engine=\"0\"} 1\npython_info 1\n", 10*n, n)
}

func TestSession(t *testing.T) {
	var row result.Row
	var s *sink
	var looks int64
	// The end of a session cuts off a look that is under way, on a busy machine: the
	// counts below are of a session without one.
	for range 10 {
		var n atomic.Int64
		var err error
		row, s, err = run(t, Config{Interval: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" || r.Header.Get("Authorization") != "Bearer k" || !strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
				t.Errorf("asked for %s with %v", r.URL, r.Header)
			}
			counting(w, n.Add(1))
		}), 6)
		if err != nil {
			t.Fatal(err)
		}
		looks = n.Load()
		if len(readArchive(t, s.artifacts["scrapes/server-0.prom.zst"])) == int(looks) {
			break
		}
	}
	if looks < 3 {
		t.Fatalf("%d looks", looks)
	}
	if want := 10 * (looks - 1); row["server_output_tokens"] != want {
		t.Errorf("output tokens: got %v, want %v", row["server_output_tokens"], want)
	}
	if got, want := row["max_requests_running"], float64(looks-1); got != want {
		t.Errorf("the most requests under load: got %v, want %v", got, want)
	}
	if row["server_throughput_tok_s"] == nil || row["p50_server_ttft_ms"] != nil {
		t.Errorf("row: %v", row)
	}
	if len(s.codes) != 0 {
		t.Errorf("findings: %v", s.codes)
	}

	names := map[string]int{}
	for i, v := range s.samples {
		names[v.Name+"{"+v.Labels+"}"]++
		if v.Source != result.FromServer || v.Role != "server" {
			t.Errorf("sample %+v", v)
		}
		if i > 0 && v.T < s.samples[i-1].T {
			t.Errorf("time runs backwards at %+v", v)
		}
	}
	for _, want := range []string{"generation_tokens{}", "requests_running{}", `vllm:generation_tokens_total{engine="0"}`, `vllm:num_requests_running{engine="0"}`} {
		if names[want] != int(looks) {
			t.Errorf("%d samples of %s, want %d: %v", names[want], want, looks, names)
		}
	}
	if len(names) != 4 {
		t.Errorf("series: %v", names)
	}

	// The raw bodies can be read back, each by its length.
	bodies := readArchive(t, s.artifacts["scrapes/server-0.prom.zst"])
	if len(bodies) != int(looks) {
		t.Fatalf("%d bodies of %d looks", len(bodies), looks)
	}
	for i, b := range bodies {
		e, err := exposition.Parse(b, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Named("vllm:num_requests_running")[0].Value; got != float64(i+1) {
			t.Errorf("body %d says %v", i, got)
		}
	}
}

func readArchive(t *testing.T, raw []byte) [][]byte {
	t.Helper()
	dec, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	r := bufio.NewReader(dec)
	var out [][]byte
	for {
		head, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if head == "\n" || strings.HasPrefix(head, "# iterations ") {
			continue
		}
		_, size, ok := strings.Cut(head, "bytes=")
		var n int
		if _, err := fmt.Sscanf(size, "%d", &n); !ok || err != nil {
			t.Fatalf("header %q", head)
		}
		body := make([]byte, n+1)
		if _, err := io.ReadFull(r, body); err != nil {
			t.Fatal(err)
		}
		out = append(out, body[:n])
	}
}

func TestSession_restart(t *testing.T) {
	var n atomic.Int64
	_, s, err := run(t, Config{Interval: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		counting(w, 100-n.Add(1))
	}), 3)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.codes, finding.EngineRestarted) {
		t.Errorf("findings: %v", s.codes)
	}
}

// No bad answer of a metrics endpoint becomes a value.
func TestSession_badAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string // in the error
	}{
		{"404", http.NotFound, "switched off"},
		{"401", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "status 401"},
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html></html>\n") }, "HTML"},
		{"empty", func(http.ResponseWriter, *http.Request) {}, "empty"},
		{"another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/metrics", http.StatusFound)
		}, "another host"},
		{"shorter than promised", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "vllm:generation_tokens_total 1")
		}, "EOF"},
		{"cut without a promise", func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 1\nvllm:generation_tokens_total 12")
		}, "ends before its end"},
		{"gzip, cut", func(w http.ResponseWriter, _ *http.Request) {
			var b bytes.Buffer
			zw := gzip.NewWriter(&b)
			_, _ = io.WriteString(zw, strings.Repeat("vllm:generation_tokens_total 12\n", 100))
			_ = zw.Close()
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(b.Bytes()[:b.Len()-12])
		}, "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			row, s, err := run(t, Config{Interval: 100 * time.Millisecond}, tt.answer, 2)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
			for name, v := range row {
				if v != nil {
					t.Errorf("%s = %v", name, v)
				}
			}
			if !slices.Contains(s.codes, finding.MetricsMissing) || len(s.samples) != 0 {
				t.Errorf("findings %v, %d samples", s.codes, len(s.samples))
			}
		})
	}
}

func hijack(w http.ResponseWriter, answer string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, answer)
	_ = conn.Close()
}

// A server may answer in ways that mean no harm.
func TestSession_goodAnswers(t *testing.T) {
	const body = "vllm:generation_tokens_total 12\n"
	tests := []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"with a slash", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
				return
			}
			if r.Header.Get("Authorization") == "" {
				t.Error("the redirect lost the key")
			}
			_, _ = io.WriteString(w, body)
		}},
		{"OpenMetrics over HTTP/1.0", func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.0 200 OK\r\n\r\n"+body+"# EOF")
		}},
		{"gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			_, _ = io.WriteString(zw, body)
			_ = zw.Close()
		}},
		{"a wrong content type", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			row, s, err := run(t, Config{Interval: time.Second}, tt.answer, 0)
			if err != nil {
				t.Fatal(err)
			}
			if row["server_output_tokens"] != int64(0) || len(s.codes) != 0 {
				t.Errorf("tokens %v, findings %v", row["server_output_tokens"], s.codes)
			}
		})
	}
}

func TestSession_manySeries(t *testing.T) {
	row, s, err := run(t, Config{Interval: time.Second}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range maxNames + 500 {
			fmt.Fprintf(w, "vllm:num_requests_running{i=\"%d\"} 1\n", i)
		}
	}), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.samples) != 2*maxNames || !slices.Contains(s.codes, finding.MetricsCut) {
		t.Errorf("%d samples, findings %v, row %v", len(s.samples), s.codes, row)
	}
}

// After failures looks become rarer, and come back when the target does.
func TestSession_backoff(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	var fifth atomic.Int64 // when it was, in ns
	var n atomic.Int64
	_, _, err := run(t, Config{Interval: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 5 {
			fifth.Store(int64(time.Since(begun)))
		}
		w.WriteHeader(http.StatusInternalServerError)
	}), 5)
	if err == nil {
		t.Error("no error")
	}
	// The first is at the beginning, and then at 0.1, 0.3, 0.7 and 1.5 s.
	if got := time.Duration(fifth.Load()); got < 1200*time.Millisecond {
		t.Errorf("the fifth look at a target that always fails was after %v", got)
	}
}

func TestSession_noMetrics(t *testing.T) {
	c, err := New(Default)
	if err != nil {
		t.Fatal(err)
	}
	s := new(sink)
	session, err := c.Start(t.Context(), collectors.Trial{Targets: []collectors.Target{{Host: &place{}}}, Profile: profile(t, "generic-openai")}, s)
	if err != nil {
		t.Fatal(err)
	}
	row, err := session.Finish(t.Context())
	if err != nil || len(s.codes) != 0 {
		t.Errorf("an engine without metrics: %v, %v", err, s.codes)
	}
	if v, ok := row["server_output_tokens"]; !ok || v != nil {
		t.Errorf("row: %v", row)
	}
}

func TestNew_rejects(t *testing.T) {
	for _, c := range []Config{{}, {Interval: time.Millisecond}, {Interval: time.Hour}, {Interval: time.Second, Path: "metrics"}} {
		if _, err := New(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}

func TestFactory_defaults(t *testing.T) {
	c, err := Factory().New(func(v any) error {
		if got := *v.(*Config); got != Default {
			t.Errorf("decoded over %+v", got)
		}
		return nil
	})
	if err != nil || c == nil {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := Factory().New(func(any) error { return errors.New("here") }); err == nil {
		t.Error("an error of decode was lost")
	}
}

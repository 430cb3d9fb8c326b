package openai

import (
	"encoding/json"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

var noJob load.Job

func TestEncoder(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		job    load.Job
		want   string
	}{
		{
			"chat",
			Config{Model: "m", Chat: true, Stream: true, IncludeUsage: true, IgnoreEOS: true, MinTokens: true},
			load.Job{Prompt: load.Prompt{Turns: []string{"hi"}}, MaxTokens: 5},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,
			"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"min_tokens":5}`,
		},
		{
			"conversation",
			Config{Model: "m", Chat: true},
			load.Job{Prompt: load.Prompt{System: "s", Turns: []string{"a", "b", "c"}}},
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},
			{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`,
		},
		{
			"completions",
			Config{Model: "m"},
			load.Job{Prompt: load.Prompt{System: "s", Turns: []string{"a"}}, MaxTokens: 1},
			`{"model":"m","prompt":"s\n\na","max_tokens":1}`,
		},
		{
			"sampling",
			Config{Model: "m", Temperature: new(0.0), TopP: new(0.9), Stop: []string{"\n"}, MaxTokensField: "max_completion_tokens"},
			load.Job{Prompt: load.Prompt{Turns: []string{"a"}}, MaxTokens: 1, Seed: new(uint64(1<<64 - 1))},
			`{"model":"m","temperature":0,"top_p":0.9,"stop":["\n"],"prompt":"a","max_completion_tokens":1,"seed":18446744073709551615}`,
		},
		{
			"continuous usage and further fields",
			Config{
				Model: "m", Stream: true, IncludeUsage: true, ContinuousUsage: true,
				Body: map[string]any{"nvext": map[string]any{"extra_fields": []string{"timing"}}},
			},
			load.Job{Prompt: load.Prompt{Turns: []string{"a"}}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
			"nvext":{"extra_fields":["timing"]},"prompt":"a"}`,
		},
		{
			"text that JSON must escape",
			Config{Model: "m"},
			load.Job{Prompt: load.Prompt{Turns: []string{"\"\\\n<é\u2028"}}},
			`{"model":"m","prompt":"\"\\\n<é\u2028"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := newEncoder(&c.config)
			if err != nil {
				t.Fatal(err)
			}
			decode := func(b []byte) (v any) {
				d := json.NewDecoder(strings.NewReader(string(b)))
				d.UseNumber()
				if err := d.Decode(&v); err != nil {
					t.Fatalf("%v: %s", err, b)
				}
				return v
			}
			if diff := cmp.Diff(decode([]byte(c.want)), decode(e.encode(&c.job))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNew_refuses(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"no URL", func(c *Config) { c.BaseURL = "" }, "is not http://host"},
		{"scheme", func(c *Config) { c.BaseURL = "ftp://h" }, "is not http://host"},
		{"password", func(c *Config) { c.BaseURL = "http://a:b@h" }, "password"},
		{"model", func(c *Config) { c.Model = "" }, "no model"},
		{"path with a host", func(c *Config) { c.Path = "http://evil/v1" }, "is not one"},
		{"messages", func(c *Config) { c.Body = map[string]any{"messages": 1} }, "set by the prompts"},
		{"stream", func(c *Config) { c.Body = map[string]any{"stream": false} }, "load.stream"},
		{"max_tokens", func(c *Config) { c.Body = map[string]any{"max_tokens": 1} }, "load.max_tokens"},
		{"twice", func(c *Config) { c.Temperature, c.Body = new(1.0), map[string]any{"temperature": 0} }, "twice"},
		{"no JSON", func(c *Config) { c.Body = map[string]any{"x": func() {}} }, "body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := chat("http://127.0.0.1:1")
			c.set(&cfg)
			_, err := New(cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "a:b") {
				t.Error("the error shows the password")
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for _, c := range []struct{ base, path, want string }{
		{"http://h", "", "http://h/v1/chat/completions"},
		{"http://h:1/", "", "http://h:1/v1/chat/completions"},
		{"https://h/proxy/8000/", "/v1/chat/completions", "https://h/proxy/8000/v1/chat/completions"},
		{"http://h?key=1", "/x?n=2", "http://h/x?key=1&n=2"},
	} {
		u, err := (&Config{BaseURL: c.base, Path: c.path, Chat: true}).endpoint()
		if err != nil || u.String() != c.want {
			t.Errorf("%s + %s = %v, %v; want %s", c.base, c.path, u, err, c.want)
		}
	}
}

// Nothing but the configuration says where requests go.
func TestNew_noProxy(t *testing.T) {
	d, err := New(chat("http://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.transport.Proxy != nil {
		t.Error("a proxy of the environment would be used")
	}
}

func TestDriver_tls(t *testing.T) {
	var protos []string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protos = append(protos, r.Proto)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":1}}\n\n"))
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of our own refusal
	srv.StartTLS()
	defer srv.Close()
	c := chat(srv.URL)
	c.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
	rows, h := drive(t, t.Context(), c, shape(3, 1), load.Options{})
	for _, r := range rows {
		if r.Status != result.Completed {
			t.Errorf("%+v", r)
		}
	}
	if len(protos) != 3 || protos[0] != "HTTP/1.1" || h.ColdDials != 0 {
		t.Errorf("%v, %d cold dials", protos, h.ColdDials)
	}
	// A certificate that nobody vouches for is no connection.
	c.TLS = nil
	rows, _ = drive(t, t.Context(), c, shape(1, 1), load.Options{})
	if rows[0].ErrorClass != result.ErrConnect {
		t.Errorf("%+v", rows[0])
	}
}

// A spare connection that the server has given up is not handed to a request.
func TestDialer_dropsDeadSpares(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	d := newDialer(&Config{}, host, port, false)
	defer d.drop()
	d.fill(t.Context(), 2)
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for _, c := range d.spare {
		for alive(c) { // until the close has come through
		}
	}
	c, err := d.take(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !alive(c) || d.cold.Load() != 1 {
		t.Errorf("alive %v, %d cold dials", alive(c), d.cold.Load())
	}
}

func TestDriver_bounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream bool
		header http.Header
	}{
		{"stream", true, http.Header{"Content-Type": {"text/event-stream"}}},
		{"whole", false, http.Header{"Content-Type": {"application/json"}}},
		{"compressed", true, http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				maps.Copy(w.Header(), c.header)
				for r.Context().Err() == nil { // without end
					if _, err := w.Write([]byte(": " + strings.Repeat("x", 4000) + "\n")); err != nil {
						return
					}
				}
			}))
			defer srv.Close()
			cfg := chat(srv.URL)
			cfg.Stream, cfg.MaxResponse = c.stream, 100<<10
			rows, _ := drive(t, t.Context(), cfg, shape(1, 1), load.Options{})
			if r := rows[0]; r.ErrorClass != result.ErrProtocol {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{
		" a\n\x1b[31mb\x00 ":           "a  [31mb",
		"\xff":                         "\ufffd",
		strings.Repeat("é", 300):       strings.Repeat("é", 200) + "...",
		"x" + strings.Repeat("é", 300): "x" + strings.Repeat("é", 199) + "...",
	} {
		if got := clip(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// TestFreshConnections: a server that closes its connections unannounced must
// not cost a request.
func TestFreshConnections(t *testing.T) {
	var mu sync.Mutex
	conns := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		conns[r.RemoteAddr]++
		mu.Unlock()
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer srv.Close()
	for _, fresh := range []bool{false, true} {
		clear(conns)
		d, err := New(Config{BaseURL: srv.URL, Model: "m", Chat: true, FreshConnections: fresh})
		if err != nil {
			t.Fatal(err)
		}
		src, err := load.NewSource(load.SourceConfig{Cell: "c", Trial: 1, Concurrency: 1, Requests: 5, MaxTokens: 1, Prompts: load.Prompts{InputTokens: 10}})
		if err != nil {
			t.Fatal(err)
		}
		var got recorder
		if _, err := d.Run(t.Context(), src, &got, load.Options{Anchor: result.NewAnchor()}); err != nil {
			t.Fatal(err)
		}
		d.Close()
		want := 1
		if fresh {
			want = 5
		}
		if len(got) != 5 || len(conns) != want {
			t.Errorf("fresh %v: %d requests over %d connections, want 5 over %d", fresh, len(got), len(conns), want)
		}
	}
}

package openai

import (
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func TestNew_refuses(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*wire.Config)
		want string
	}{
		{"no URL", func(c *wire.Config) { c.BaseURL = "" }, "is not http://host"},
		{"scheme", func(c *wire.Config) { c.BaseURL = "ftp://h" }, "is not http://host"},
		{"password", func(c *wire.Config) { c.BaseURL = "http://a:b@h" }, "password"},
		{"model", func(c *wire.Config) { c.Model = "" }, "no model"},
		{"path with a host", func(c *wire.Config) { c.Path = "http://evil/v1" }, "is not one"},
		{"messages", func(c *wire.Config) { c.Body = map[string]any{"messages": 1} }, "set by the prompts"},
		{"stream", func(c *wire.Config) { c.Body = map[string]any{"stream": false} }, "load.stream"},
		{"max_tokens", func(c *wire.Config) { c.Body = map[string]any{"max_tokens": 1} }, "load.max_tokens"},
		{"twice", func(c *wire.Config) { c.Temperature, c.Body = new(1.0), map[string]any{"temperature": 0} }, "twice"},
		{"no JSON", func(c *wire.Config) { c.Body = map[string]any{"x": func() {}} }, "body"},
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
	var mu sync.Mutex
	var protos []string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		protos = append(protos, r.Proto)
		mu.Unlock()
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
	mu.Lock()
	defer mu.Unlock()
	if len(protos) != 3 || protos[0] != "HTTP/1.1" || h.ColdDials != 0 {
		t.Errorf("%v, %d cold dials", protos, h.ColdDials)
	}
	// A certificate without a known issuer is no connection.
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
	d := newDialer(&wire.Config{}, host, port, false)
	d.begin(stamp.NewClock(result.NewAnchor()))
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
	var h load.Health
	d.health(&h)
	if !alive(c.(*conn)) || h.ColdDials != 1 || h.Reopened != 1 {
		t.Errorf("alive %v, %d cold dials, %d reopened", alive(c.(*conn)), h.ColdDials, h.Reopened)
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
		mu.Lock()
		clear(conns)
		mu.Unlock()
		d, err := New(wire.Config{BaseURL: srv.URL, Model: "m", Chat: true, FreshConnections: fresh})
		if err != nil {
			t.Fatal(err)
		}
		src, err := source.New(source.Config{Cell: "c", Trial: 1, Concurrency: 1, Requests: 5, MaxTokens: 1, Prompts: source.Prompts{InputTokens: 10}})
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
		mu.Lock()
		n := len(conns)
		mu.Unlock()
		if len(got) != 5 || n != want {
			t.Errorf("fresh %v: %d requests over %d connections, want 5 over %d", fresh, len(got), n, want)
		}
	}
}

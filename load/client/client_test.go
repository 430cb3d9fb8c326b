package client

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/epoll"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fastHere returns the client of a plain HTTP/1.1 server on this system.
func fastHere() string {
	if runtime.GOOS == "linux" {
		return Fast
	}
	return Std
}

// tunnel connects by something that is no TCP connection of this machine.
func tunnel(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

func config(url string) wire.Config {
	return wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true}
}

// run sends five requests by a client of that kind.
func run(t *testing.T, c wire.Config, kind string) (load.Health, recorder, error) {
	t.Helper()
	d, err := New(c, kind)
	if err != nil {
		return load.Health{}, nil, err
	}
	defer d.Close()
	src, err := source.New(source.Config{
		Seed: 1, Cell: "c", Trial: 1, Concurrency: 2, Requests: 5, MaxTokens: 4,
		Deadline: 20 * time.Second, Prompts: source.Prompts{InputTokens: 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	var rec recorder
	h, err := d.Run(t.Context(), src, &rec, load.Options{Anchor: result.NewAnchor()})
	return h, rec, err
}

type recorder []result.Request

func (r *recorder) Record(q result.Request) { *r = append(*r, q) }

// Whatever is chosen, each request is sent once and succeeds.
func TestNew_chosen(t *testing.T) {
	plain := func(*wire.Config) {}
	whole := func(c *wire.Config) { c.Stream, c.IncludeUsage = false, false }
	tunnelled := func(c *wire.Config) { c.Dial = tunnel }
	for _, c := range []struct {
		name, kind string
		set        func(*wire.Config)
		want       string
	}{
		{"auto", Auto, plain, fastHere()},
		{"none said", "", plain, fastHere()},
		{"std", Std, plain, Std},
		{"fast", Fast, plain, fastHere()},
		{"auto, not streamed", Auto, whole, Std},
		{"auto, tunnel", Auto, tunnelled, Std},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.kind == Fast && fastHere() != Fast {
				t.Skip("there is no fast client on " + runtime.GOOS)
			}
			e := loadtest.New(nil)
			defer e.Close()
			cfg := config(e.URL)
			c.set(&cfg)
			h, rows, err := run(t, cfg, c.kind)
			if err != nil || h.Client != c.want {
				t.Fatalf("client %q, want %q: %v", h.Client, c.want, err)
			}
			if sent := e.Stats().Requests; len(rows) != 5 || sent != 5 {
				t.Errorf("%d rows, %d requests at the server, want 5", len(rows), sent)
			}
			for _, r := range rows {
				if r.Status != result.Completed {
					t.Errorf("%s: %s", r.Status, r.Error)
				}
			}
		})
	}
}

// A server that speaks TLS is for the standard client.
func TestNew_https(t *testing.T) {
	d, err := New(config("https://127.0.0.1:1"), Auto)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, ok := d.(*either); ok {
		t.Error("the fast client is kept for a server that speaks TLS")
	}
}

// Where the fast client was asked for by name and cannot, it says why, and
// nothing is sent.
func TestNew_fastCannot(t *testing.T) {
	e := loadtest.New(nil)
	defer e.Close()
	for _, c := range []struct {
		name string
		set  func(*wire.Config)
		want string
	}{
		{"https", func(c *wire.Config) { c.BaseURL = "https://127.0.0.1:1" }, "no TLS"},
		{"not streamed", func(c *wire.Config) { c.Stream, c.IncludeUsage = false, false }, "not streamed"},
		{"tunnel", func(c *wire.Config) { c.Dial = tunnel }, "no plain TCP connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if fastHere() != Fast {
				want = "needs Linux"
			}
			cfg := config(e.URL)
			c.set(&cfg)
			_, rows, err := run(t, cfg, Fast)
			if !errors.Is(err, epoll.ErrUnsuitable) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one of %q", err, want)
			}
			if len(rows) > 0 {
				t.Errorf("%d rows", len(rows))
			}
		})
	}
	if n := e.Stats().Requests; n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A configuration that no client accepts is an error with every kind.
func TestNew_errors(t *testing.T) {
	for _, kind := range []string{Auto, Std, Fast} {
		if _, err := New(wire.Config{BaseURL: "ftp://127.0.0.1", Model: "m", Stream: true}, kind); err == nil || errors.Is(err, epoll.ErrUnsuitable) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := New(config("http://127.0.0.1:1"), "quick"); err == nil {
		t.Error("a kind that does not exist is taken")
	}
}

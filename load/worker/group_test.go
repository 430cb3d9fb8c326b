package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/shard"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func target(t *testing.T, url string) Target {
	t.Helper()
	got, err := NewTarget(wire.Config{
		BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true, NetworkPath: "direct",
		Body: map[string]any{"big": 12345678901234567}, Headers: func(h http.Header) { h.Set("X-Key", "hidden") },
	}, "std")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// inside starts clients in this process; set changes each.
func inside(t *testing.T, n int, set func(i int, c *Config)) []Address {
	t.Helper()
	var all sync.WaitGroup
	t.Cleanup(all.Wait) // they end with the test's context
	var at []Address
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Token: secret.New("token", fmt.Sprint("token ", i))}
		if set != nil {
			set(i, &c)
		}
		at = append(at, Address{URL: "http://" + ln.Addr().String(), Token: c.Token})
		all.Go(func() {
			if err := Serve(t.Context(), ln, c); err != nil && !errors.Is(err, errLease) {
				t.Error(err)
			}
		})
	}
	return at
}

func join(t *testing.T, url string, at []Address) *Group {
	t.Helper()
	g, err := Join(t.Context(), target(t, url), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func closed(slots, requests int) source.Config {
	return source.Config{Cell: "0123456789ab", Trial: 1, MaxTokens: 3, Concurrency: slots, Requests: requests, Prompts: source.Prompts{InputTokens: 20}}
}

func open(rate float64, requests int) source.Config {
	c := closed(0, requests)
	c.Pace = arrivals.Steady(rate, arrivals.Process{Kind: arrivals.Constant})
	return c
}

// All clients together send exactly the load, the server counts the same, and every record
// comes here on the trial's clock.
func TestGroup_wholeLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]source.Config{"closed": closed(5, 43), "open": open(100, 43), "fewer slots than clients": closed(2, 43)} {
		t.Run(name, func(t *testing.T) {
			e := loadtest.New(nil)
			defer e.Close()
			g := join(t, e.URL, inside(t, 3, nil))
			anchor := result.NewAnchor()
			var rec loadtest.Kept
			var begun time.Duration
			var last load.Progress
			h, err := g.Run(t.Context(), Load{Source: c, Begun: func(at time.Duration) { begun = at }}, &rec,
				load.Options{Anchor: anchor, RequestID: "x", Progress: func(p load.Progress) { last = p }})
			if err != nil {
				t.Fatal(err)
			}
			want := shard.Clients(c, 3)
			if len(h.Shards) != want || h.Client != "std" {
				t.Errorf("%+v", h)
			}
			if err := shard.Check(rec.All(), want); err != nil || rec.N() != 43 || e.Stats().Requests != 43 {
				t.Errorf("%d records, %d requests came to the server: %v", rec.N(), e.Stats().Requests, err)
			}
			for _, q := range rec.All() {
				if q.Status != result.Completed || q.Scheduled < begun || q.Sent < q.Scheduled || q.End > anchor.Since() || begun == 0 {
					t.Errorf("begun at %v, now %v: %+v", begun, anchor.Since(), q)
				}
			}
			ids := map[string]bool{}
			for _, q := range e.Requests() {
				ids[q.ID] = true
				if q.Header.Get("X-Key") != "hidden" || !strings.Contains(string(q.Raw), "12345678901234567") {
					t.Errorf("%v %s", q.Header, q.Raw)
				}
			}
			for _, q := range rec.All() {
				if id := fmt.Sprintf("x-s%d-n%d", q.Shard, q.N); !ids[id] {
					t.Errorf("the server has not seen %s", id)
				}
			}
			for _, s := range h.Shards {
				if s.Lost != "" || s.Requests == 0 || len(s.SHA256) != 64 || s.OffsetError <= 0 || s.Offset == 0 {
					t.Errorf("%+v", s)
				}
			}
			if last.Done != 43 || last.InFlight != 0 {
				t.Errorf("the last progress is %+v", last)
			}
		})
	}
}

// A load ends before its time when it is enough, and when its context ends. A bound on
// its requests is divided.
func TestGroup_ends(t *testing.T) {
	t.Parallel()
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return loadtest.Answer{TTFT: 50 * time.Millisecond} })
	defer e.Close()
	g := join(t, e.URL, inside(t, 2, nil))
	long := closed(4, 100_000)
	opts := load.Options{Anchor: result.NewAnchor(), Drain: time.Minute}

	var rec loadtest.Kept
	if _, err := g.Run(t.Context(), Load{Source: long, Most: 7}, &rec, opts); err != nil || rec.N() != 7 {
		t.Errorf("%d of 7 requests: %v", rec.N(), err)
	}
	rec = loadtest.Kept{}
	if _, err := g.Run(t.Context(), Load{Source: long, Most: 1}, &rec, opts); err != nil || rec.N() != 1 {
		t.Errorf("%d of 1 request: %v", rec.N(), err)
	}

	var told loadtest.Kept
	enough := make(chan struct{})
	go func() {
		polltest.Within(polltest.Patience, func() bool { return told.N() >= 4 })
		close(enough)
	}()
	if _, err := g.Run(t.Context(), Load{Source: long, Enough: enough}, &told, opts); err != nil {
		t.Error(err)
	}
	for _, q := range told.All() {
		if q.Status != result.Completed {
			t.Errorf("it was enough, and this was not waited for: %+v", q)
		}
	}

	opts.Drain = 0
	for try := 1; ; try++ {
		ctx, cancel := context.WithCancel(t.Context())
		var cut loadtest.Kept
		go func() {
			polltest.Within(polltest.Patience, func() bool { return cut.N() >= 4 })
			cancel()
		}()
		h, err := g.Run(ctx, Load{Source: long}, &cut, opts)
		if err != nil || h.Shards[0].Lost != "" || h.Shards[1].Lost != "" {
			t.Errorf("%+v: %v", h.Shards, err)
		}
		if slices.ContainsFunc(cut.All(), func(q result.Request) bool { return q.Status == result.Cancelled }) {
			return
		}
		if try == 5 { // on a busy machine all clients may have been between two requests
			t.Fatal("no request was cancelled")
		}
	}
}

// A client obeys one coordinator, which has the token, and sends to one target.
func TestServe_obeysOne(t *testing.T) {
	t.Parallel()
	at := inside(t, 1, nil)[0]
	ask := func(token, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", at.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	defer http.DefaultClient.CloseIdleConnections()
	for _, c := range []struct {
		token, path, body string
		code              int
		says              string
	}{
		{"other", pathRegister, `{}`, 401, "token"},
		{"", pathClock, ``, 401, "token"},
		{"token 0", pathRun, `{}`, 409, "nobody has registered"},
		{"token 0", pathRegister, `{"protocol":1}`, 400, "version 1"},
		{"token 0", pathRegister, `{"protocol":3,"other":1}`, 400, "other"},
		{"token 0", pathRegister, `{"protocol":3}`, 200, `"pid"`},
		{"token 0", pathRegister, `{"protocol":3}`, 409, "has a coordinator"},
		{"token 0", pathRegister, `{"protocol":3,"coordinator":"c"}`, 409, "has a coordinator"},
		{"token 0", pathRun, `{"source":{"Shard":{"Index":1,"Of":2}}}`, 400, "this is client 0"},
		{"token 0", pathRun, `{}`, 422, "neither concurrency nor a pace"},
		{"token 0", pathBegin, `{"run":7}`, 404, "no run 7"},
		{"token 0", pathStop, `{"run":7}`, 404, "no run 7"},
	} {
		if code, text := ask(c.token, c.path, c.body); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d %q, want %d %q", c.path, c.body, code, text, c.code, c.says)
		}
	}
}

// A coordinator that the client knows again may ask the same server otherwise, and no other
// one. Nobody else's connections are passed on to anything but that server.
func TestServe_sameCoordinator(t *testing.T) {
	t.Parallel()
	e, other := loadtest.New(nil), loadtest.New(nil)
	defer e.Close()
	defer other.Close()
	at := inside(t, 1, nil)
	server := strings.TrimPrefix(e.URL, "http://")
	if conn, err := Dial(t.Context(), at[0], strings.TrimPrefix(other.URL, "http://")); err != nil {
		t.Errorf("before there is a server: %v", err)
	} else {
		conn.Close()
	}
	at[0].Coordinator = "c"
	for _, c := range []struct{ coordinator, url, says string }{
		{"c", e.URL, ""}, {"c", e.URL, ""}, {"d", e.URL, "has a coordinator"}, {"", e.URL, "has a coordinator"}, {"c", other.URL, "for good"},
	} {
		at[0].Coordinator = c.coordinator
		g, err := Join(t.Context(), target(t, c.url), at)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		var rec loadtest.Kept
		if _, err := g.Run(t.Context(), Load{Source: closed(2, 5)}, &rec, load.Options{Anchor: result.NewAnchor()}); err != nil || rec.N() != 5 {
			t.Errorf("%d requests: %v", rec.N(), err)
		}
		g.Close()
	}
	if _, err := Dial(t.Context(), at[0], strings.TrimPrefix(other.URL, "http://")); err == nil || !strings.Contains(err.Error(), "the server of this client is "+server) {
		t.Errorf("another server: %v", err)
	}
	at[0].Token = secret.New("token", "wrong")
	if _, err := Dial(t.Context(), at[0], server); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a wrong token: %v", err)
	}
	at[0].Token = secret.New("token", "token 0")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, at[0], server) }}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(e.URL + "/nothing")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode < 400 {
		t.Errorf("answer %s", resp.Status)
	}
}

// A client that is told to end in the middle of a load is lost, though it answers.
func TestServe_toldToEnd(t *testing.T) {
	t.Parallel()
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return loadtest.Answer{TTFT: 20 * time.Millisecond} })
	defer e.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	token := secret.New("token", "own")
	var serving sync.WaitGroup
	serving.Go(func() { _ = Serve(ctx, ln, Config{Token: token}) })
	defer serving.Wait()
	defer end()
	g := join(t, e.URL, append(inside(t, 1, nil), Address{URL: "http://" + ln.Addr().String(), Token: token}))
	var rec loadtest.Kept
	go func() {
		polltest.Within(polltest.Patience, func() bool { return rec.N() >= 20 })
		end()
	}()
	h, err := g.Run(t.Context(), Load{Source: closed(4, 1_000_000)}, &rec, load.Options{Anchor: result.NewAnchor()})
	if err != nil || h.Shards[0].Lost != "" || !strings.Contains(h.Shards[1].Lost, "told to end") {
		t.Errorf("%+v: %v", h.Shards, err)
	}
}

// A client without a word from its coordinator ends.
func TestServe_lease(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), ln, Config{Token: secret.Plain("x"), Lease: 40 * time.Millisecond}); !errors.Is(err, errLease) {
		t.Errorf("%v", err)
	}
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), ln, Config{}); err == nil {
		t.Error("a client without a token serves")
	}
}

// A client that sends ends by its lease when its coordinator is gone without closing its
// connections, and sends on while it is there.
func TestServe_leaseWhileItSends(t *testing.T) {
	t.Parallel()
	e := loadtest.New(nil)
	defer e.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	token := secret.New("token", "own")
	const lease = 2 * time.Second
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), ln, Config{Token: token, Lease: lease}) }()
	gone := make(chan struct{}) // from then on no byte comes through, and no end
	var d net.Dialer
	at := Address{URL: "http://" + ln.Addr().String(), Token: token, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		return cutOff{conn, gone}, err
	}}
	g := join(t, e.URL, []Address{at})
	ctx, stop := context.WithCancel(t.Context())
	var rec loadtest.Kept
	var sending sync.WaitGroup
	begun := time.Now()
	sending.Go(func() {
		_, _ = g.Run(ctx, Load{Source: closed(4, 1_000_000)}, &rec, load.Options{Anchor: result.NewAnchor()})
	})
	defer sending.Wait()
	defer stop()
	polltest.Until(t, "it sends for longer than its lease", func() bool { return time.Since(begun) > 2*lease })
	select {
	case err := <-ended:
		t.Fatalf("it ended while its coordinator was there: %v", err)
	default:
	}
	before := e.Stats().Requests
	polltest.Until(t, "it sends still", func() bool { return e.Stats().Requests > before })
	close(gone)
	polltest.Until(t, "it ends by its lease", func() bool {
		select {
		case err := <-ended:
			if !errors.Is(err, errLease) {
				t.Error(err)
			}
			return true
		default:
			return false
		}
	})
}

// A cutOff connection loses what is written, and reads nothing more, once it is gone.
type cutOff struct {
	net.Conn
	gone chan struct{}
}

func (c cutOff) Write(b []byte) (int, error) {
	select {
	case <-c.gone:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

func (c cutOff) Close() error {
	select {
	case <-c.gone:
		return nil
	default:
		return c.Conn.Close()
	}
}

// What is wrong with a client's clock, its start or its path is in its health.
func TestGroup_wrongClients(t *testing.T) {
	t.Parallel()
	off := func(by time.Duration) func(result.Anchor) reading {
		return func(a result.Anchor) reading {
			return reading{Mono: a.Since() + by, Wall: time.Now().Add(by).UnixNano()}
		}
	}
	within := func(got, want, by time.Duration) bool { return (got - want).Abs() <= by }
	for name, c := range map[string]struct {
		set   func(*Config)
		found func(load.ShardHealth) bool
	}{
		"wall clock 500 ms ahead": {
			func(c *Config) {
				c.read = func(a result.Anchor) reading {
					return reading{Mono: a.Since(), Wall: time.Now().Add(500 * time.Millisecond).UnixNano()}
				}
			},
			func(s load.ShardHealth) bool {
				return within(s.Wall, 500*time.Millisecond, s.OffsetError+time.Millisecond) && s.Drift.Abs() <= s.DriftError
			},
		},
		"clock that jumps by 500 ms": {
			func(c *Config) {
				asked := 0
				c.read = func(a result.Anchor) reading {
					if asked++; asked > probes {
						return off(500 * time.Millisecond)(a)
					}
					return off(0)(a)
				}
			},
			func(s load.ShardHealth) bool { return within(s.Drift, -500*time.Millisecond, s.DriftError) },
		},
		"500 ms late": {
			func(c *Config) { c.begin = func() { time.Sleep(600 * time.Millisecond) } }, // 100 of them are the lead
			func(s load.ShardHealth) bool { return s.Late >= 500*time.Millisecond-10*time.Millisecond },
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := loadtest.New(nil)
			defer e.Close()
			g := join(t, e.URL, inside(t, 3, func(i int, k *Config) {
				if i == 1 {
					c.set(k)
				}
			}))
			h, err := g.Run(t.Context(), Load{Source: closed(3, 9)}, &loadtest.Kept{}, load.Options{Anchor: result.NewAnchor()})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range h.Shards {
				if c.found(s) != (s.Shard == 1) {
					t.Errorf("client %d: %+v", s.Shard, s)
				}
			}
		})
	}
}

// A control connection that is 200 ms slower leaves the clock unknown by as much.
func TestGroup_slowControl(t *testing.T) {
	t.Parallel()
	e := loadtest.New(nil)
	defer e.Close()
	at := inside(t, 2, nil)
	at[1].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &slow{c}, err
	}
	g := join(t, e.URL, at)
	h, err := g.Run(t.Context(), Load{Source: closed(2, 4)}, &loadtest.Kept{}, load.Options{Anchor: result.NewAnchor()})
	if err != nil {
		t.Fatal(err)
	}
	if h.Shards[1].OffsetError < 90*time.Millisecond || h.Shards[0].OffsetError > h.Shards[1].OffsetError/2 {
		t.Errorf("%+v", h.Shards)
	}
}

// A slow connection takes 200 ms for each write.
type slow struct{ net.Conn }

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(200 * time.Millisecond) // the delay itself
	return s.Conn.Write(b)
}

// One client and four put the same bodies on the wire.
func TestGroup_sameBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]source.Config{"closed": closed(8, 61), "open": open(200, 61)} {
		t.Run(name, func(t *testing.T) {
			sums := map[int]string{}
			for _, n := range []int{1, 4} {
				e := loadtest.New(nil)
				g := join(t, e.URL, inside(t, n, nil))
				h, err := g.Run(t.Context(), Load{Source: c}, &loadtest.Kept{}, load.Options{Anchor: result.NewAnchor()})
				if err != nil || len(h.Shards) != n {
					t.Fatalf("%d clients: %v", len(h.Shards), err)
				}
				var bodies []string
				for _, q := range e.Requests() {
					bodies = append(bodies, fmt.Sprintf("%x", sha256.Sum256(q.Raw)))
				}
				e.Close()
				slices.Sort(bodies)
				if len(slices.Compact(slices.Clone(bodies))) != 61 || len(bodies) != 61 {
					t.Fatalf("%d clients sent %d bodies", n, len(bodies))
				}
				sums[n] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(bodies, ""))))
			}
			if sums[1] != sums[4] {
				t.Errorf("one client sends %s, four send %s", sums[1], sums[4])
			}
		})
	}
}

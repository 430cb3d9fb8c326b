package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		b, err := New(Config{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		return b, backends.Spec{Pod: "d1-l01", Entry: "server", Roles: []backends.Role{{Name: "server", Replicas: 1}}}
	}, backendtest.StartsNothing())
}

func TestNew_refuses(t *testing.T) {
	const ok = "http://127.0.0.1:8000"
	token := secret.New("${SWEEP_KEY}", "canary")
	for _, c := range []struct {
		name string
		c    Config
		want string
	}{
		{"no URL", Config{}, "want http://"},
		{"no scheme", Config{URL: "localhost:8000"}, "want http://"},
		{"another scheme", Config{URL: "ftp://localhost"}, "want http://"},
		{"a cache reset that there is not", Config{URL: ok, ResetCache: "always"}, "want never or between_trials"},
		{"no URL at all", Config{URL: "http://user:canary@host:port"}, "not a URL"},
		{"credentials in the URL", Config{URL: "http://user:canary@host"}, "credentials"},
		{"no port", Config{URL: "http://localhost:99999"}, "99999 is not a port"},
		{"no address of a role", Config{URL: ok, Roles: map[string][]Place{"decode": {{"decode:8081"}}}}, "roles.decode[0].metrics: want http://"},
		{"credentials of a role", Config{URL: ok, Roles: map[string][]Place{"decode": {{"http://u:canary@host"}}}}, "credentials"},
		{"metadata as a role", Config{URL: ok, Roles: map[string][]Place{"decode": {{"http://169.254.169.254"}}}}, "roles.decode[0].metrics"},
		{"a role without replicas", Config{URL: ok, Roles: map[string][]Place{"decode": nil}}, "roles.decode: is empty"},
		{"roles and a reset", Config{URL: ok, ResetCache: BetweenTrials, Roles: map[string][]Place{"decode": {{ok}}}}, "reset_cache"},
		{"a query", Config{URL: ok + "?api_key=canary"}, "nothing may follow"},
		{"a literal key", Config{URL: ok, Key: secret.Plain("canary")}, "key: want a reference"},
		{"a literal credential", Config{URL: ok, Headers: map[string]secret.String{"x-api-key": secret.Plain("canary")}}, "x-api-key: want a reference"},
		{"a literal bearer", Config{URL: ok, Headers: map[string]secret.String{"Authorization": secret.Plain("Bearer canary")}}, "want a reference"},
		{"key and header", Config{URL: ok, Key: token, Headers: map[string]secret.String{"authorization": token}}, "same thing"},
		{"a line break", Config{URL: ok, Key: secret.New("${SWEEP_KEY}", "canary\r\nX: y")}, "line break"},
		{"no name", Config{URL: ok, Headers: map[string]secret.String{"a b": token}}, "not a header"},
		{"the client's own", Config{URL: ok, Headers: map[string]secret.String{"host": token}}, "client's own"},
	} {
		_, err := New(c.c)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows the secret: %v", c.name, err)
		}
	}
}

// TestNew_versionedURL: many clients want the /v1 of the API in the address.
func TestNew_versionedURL(t *testing.T) {
	for _, given := range []string{"https://host.example/base", "https://host.example/base/", "https://host.example/base/v1", "https://host.example/base/v1/"} {
		b, err := New(Config{URL: given})
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if got := b.url.String(); got != "https://host.example/base" {
			t.Errorf("%s is asked at %s", given, got)
		}
	}
}

func TestAuthorize(t *testing.T) {
	f := Factory()
	b, err := f.New(func(c any) error {
		*c.(*Config) = Config{
			URL: "https://host.example/base/", Key: secret.New("${SWEEP_KEY}", "canary"),
			Headers: map[string]secret.String{"x-route": secret.Plain("a"), "X-Api-Key": secret.New("k=${K}", "k=v")},
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	b.(backends.Server).Authorize(h)
	for name, want := range map[string]string{"Authorization": "Bearer canary", "X-Route": "a", "X-Api-Key": "k=v"} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if s := fmt.Sprintf("%v %+v", b, b.(*Backend).headers); strings.Contains(s, "canary") {
		t.Errorf("printing a backend shows its key: %s", s)
	}
	if got := b.(*Backend).host.URL(); got != "https://host.example/base" {
		t.Errorf("got URL %q", got)
	}
}

func TestProbe(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked, with %v", r.Header)
	}))
	defer evil.Close()
	for _, c := range []struct {
		status  int
		header  string
		want    string
		refused bool
	}{
		{status: 200},
		{status: 404}, // not every server lists its models
		{status: 401, want: "401", refused: true},
		{status: 403}, // or to this key
		{status: 503, want: "503"},
		{status: 302, header: evil.URL + "/v1/models?canary", want: "redirects"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/base/v1/models" || r.Header.Get("Authorization") != "Bearer canary" {
				t.Errorf("asked for %s with %v", r.URL, r.Header)
			}
			if c.header != "" {
				w.Header().Set("Location", c.header)
			}
			w.WriteHeader(c.status)
		}))
		b, err := New(Config{URL: server.URL + "/base", Key: secret.New("${SWEEP_KEY}", "canary")})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Probe(t.Context())
		server.Close()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: got %v", c.status, err)
		}
		if errors.Is(err, backends.ErrRefused) != c.refused {
			t.Errorf("%d: got %v", c.status, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%d: the error shows a secret: %v", c.status, err)
		}
	}
}

func TestProbe_context(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	b, err := New(Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("timeouts.probe")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	if err := b.Probe(ctx); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestDial_onlyTheEndpoint(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	b, err := New(Config{URL: "http://localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	// A second name of the same server is another host.
	if c, err := b.host.Dial(t.Context(), "tcp", other.Listener.Addr().String()); err == nil {
		c.Close()
		t.Error("a key could go to another host")
	} else if !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

func TestAllowLinkLocal(t *testing.T) {
	for _, name := range []string{"169.254.169.254", "[::ffff:a9fe:a9fe]", "[fe80::1]", "2852039166", "metadata.google.internal", "[fd00:ec2::254]"} {
		_, err := New(Config{URL: "http://" + name + ":80"})
		if !errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), "allow_link_local") {
			t.Errorf("%s: got %v", name, err)
		}
		b, err := New(Config{URL: "http://" + name + ":80", AllowLinkLocal: true})
		if err != nil || !b.host.Guard.AllowLinkLocal {
			t.Errorf("%s, permitted: got %v", name, err)
		}
	}
}

// Every connection is looked at again: a name may lead anywhere by then.
func TestDial_guarded(t *testing.T) {
	b, err := New(Config{URL: "http://127.0.0.1:80"})
	if err != nil {
		t.Fatal(err)
	}
	b.url.Host = "169.254.169.254:80"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := b.host.Dial(ctx, "tcp", b.url.Host)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), "link-local") {
		t.Errorf("got %v", err)
	}
}

func TestLaunch_roles(t *testing.T) {
	const url = "http://127.0.0.1:1"
	b, err := New(Config{URL: url, Roles: map[string][]Place{
		"decode":   {{"http://10.0.0.2:8081/metrics"}, {"https://decode.example"}},
		"frontend": {{"http://127.0.0.1:2"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	role := func(name string, replicas int) backends.Role { return backends.Role{Name: name, Replicas: replicas} }
	spec := func(roles ...backends.Role) backends.Spec {
		return backends.Spec{Pod: "p", Engine: "e", Entry: "frontend", Roles: roles}
	}
	var l backendtest.Ledger
	for _, s := range []backends.Spec{
		spec(role("prefill", 1), role("decode", 2), role("frontend", 1)), // no address of one
		spec(role("decode", 3), role("frontend", 1)),
		spec(role("decode", 2), role("frontend", 2)),
	} {
		if _, err := b.Launch(t.Context(), s, &l); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%+v: %v", s.Roles, err)
		}
	}
	if ops := l.States(); len(ops) != 0 {
		t.Errorf("the ledger has %v", ops)
	}
	d, err := b.Launch(t.Context(), spec(role("decode", 2), role("frontend", 1)), &l)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"decode": {"http://10.0.0.2:8081", "https://decode.example"}, "frontend": {url}} {
		for n, want := range want {
			if got := d.Host(name, n).URL(); got != want {
				t.Errorf("%s %d is at %s, want %s", name, n, got, want)
			}
		}
	}
	if h, ok := b.Metrics("frontend", 0); !ok || h.URL() != "http://127.0.0.1:2" {
		t.Errorf("the metrics of the entry: %v, %v", h, ok)
	}
	for _, c := range []struct {
		spec backends.Spec
		want string
	}{
		{spec(role("prefill", 1), role("decode", 1), role("frontend", 1)), ""},
		{spec(role("worker", 1), role("frontend", 1)), `no role "decode"; its roles are worker, frontend`},
		{backends.Spec{Entry: "decode", Roles: []backends.Role{role("decode", 1), role("frontend", 1)}}, "one address of its metrics, not 2"},
	} {
		if err := b.Check(c.spec); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("check: got %v, want %q", err, c.want)
		}
	}
}

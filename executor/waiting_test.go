package executor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/event"
	"sweep.dev/sweep/host"
)

// A given server that refuses is not waited for.
func TestReady_givenFailsAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script   script
		outcomes string
		says     string
	}{
		"no key":    {script{probe: status(http.StatusUnauthorized)}, "auth", "answered 401"},
		"wrong key": {script{probe: status(http.StatusForbidden)}, "auth", "key and the headers"},
		"no route":  {script{probe: status(http.StatusNotFound)}, "rejected", "completions answered 404"},
		"no model":  {script{models: models("a", "b")}, "wrong_model", `["a" "b"], not "m"`},
		"refused":   {script{probe: status(http.StatusUnprocessableEntity)}, "rejected", "one token"},
		"moved":     {script{probe: status(http.StatusPermanentRedirect)}, "rejected", "308"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(c.script), `timeouts: {ready: 10m, stop: 5s}`)
			w.must(func(c *Config) { c.Given, c.patience.again = true, time.Hour })
			want(t, "outcomes", w.summary(), strings.ReplaceAll("failed/X/1 failed/X/1", "X", c.outcomes))
			if text := w.outcomes()[0].Row["error"].(string); !strings.Contains(text, c.says) {
				t.Errorf("%q is not in: %s", c.says, text)
			}
		})
	}
}

// A server that sweep started may refuse for a moment: its second refusal ends the
// wait.
func TestReady_startedRefusesTwice(t *testing.T) {
	t.Parallel()
	impatient := func(c *Config) { c.patience.again = 200 * time.Millisecond }
	w := newWorld(t, always(script{probe: func(look int) (int, string) {
		if look < 3 {
			return http.StatusNotFound, ""
		}
		return http.StatusOK, "m"
	}}), `timeouts: {ready: 10m, stop: 5s}`)
	w.must(func(c *Config) { c.patience.again = time.Hour })
	want(t, "once", w.summary(), "ok/1 ok/1")

	w = newWorld(t, always(script{probe: status(http.StatusUnauthorized)}), `timeouts: {ready: 10m, stop: 5s}`)
	w.must(impatient)
	want(t, "for good", w.summary(), "failed/auth/1 failed/auth/1")
	if looks := w.backend.list()[0].looked("probe"); looks < 2 {
		t.Errorf("refused after %d looks", looks)
	}
}

// A proxy or a router refuses until its route exists: it is waited for.
func TestWait_othersThanTheEngine(t *testing.T) {
	t.Parallel()
	refusal := &badStatus{code: http.StatusNotFound, text: "404"}
	for name, c := range map[string]struct {
		profile *engine.Profile
		path    host.Path
		ends    bool
	}{
		"engine":   {&engine.Profile{Roles: []engine.Role{{Name: "server"}}}, host.Direct, true},
		"tunnel":   {&engine.Profile{Roles: []engine.Role{{Name: "server"}}}, host.Tunnel, false},
		"proxy":    {&engine.Profile{Roles: []engine.Role{{Name: "server"}}}, host.Proxy, false},
		"frontend": {&engine.Profile{Roles: []engine.Role{{Name: "server", Tier: engine.TierFrontend}}}, host.Direct, false},
		"roles":    {&engine.Profile{Entry: "decode", Roles: []engine.Role{{Name: "prefill"}, {Name: "decode"}}}, host.Direct, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &deployment{run: &run{Config: Config{patience: patience{again: time.Second}}}, profile: c.profile}
			w := d.waitFor(pathTo{c.path}, "ready")
			if err := w.judge(refusal); err != nil {
				t.Errorf("%s: the first refusal ended it: %v", name, err)
			}
			time.Sleep(2 * time.Second)
			if err := w.judge(refusal); (err != nil) != c.ends {
				t.Errorf("%s: the second refusal: %v", name, err)
			}
		})
	}
}

// A refusal that another answer follows is forgotten.
func TestWait_refusesAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &deployment{run: &run{Config: Config{patience: patience{again: time.Second}}}, profile: &engine.Profile{}}
		w := d.waitFor(pathTo{host.Direct}, "ready")
		for range 3 {
			for _, code := range []int{http.StatusNotFound, http.StatusServiceUnavailable} {
				time.Sleep(2 * time.Second)
				if err := w.judge(&badStatus{code: code}); err != nil {
					t.Errorf("%d: %v", code, err)
				}
			}
		}
	})
}

// A given server that does not answer is waited for, but not for long; one that
// answers "not yet" has timeouts.ready.
func TestWait_silence(t *testing.T) {
	t.Parallel()
	none := &noAnswer{errors.New("connection refused")}
	given := &deployment{run: &run{Config: Config{Given: true, patience: patience{silent: time.Minute}}}, profile: &engine.Profile{}}
	w := given.waitFor(pathTo{host.Direct}, "ready")
	if err := w.judge(none); err != nil {
		t.Errorf("at once: %v", err)
	}
	w.silent = w.silent.Add(-time.Minute)
	if err := w.judge(none); err == nil || !strings.Contains(err.Error(), "no answer for 1m0s: connection refused") {
		t.Errorf("after its time: %v", err)
	}
	w.silent = w.silent.Add(-time.Minute)
	if err := w.judge(&badStatus{code: http.StatusServiceUnavailable}); err != nil {
		t.Errorf("it answers: %v", err)
	}
	if err := w.judge(none); err != nil {
		t.Errorf("it answered a moment ago: %v", err)
	}
	started := &deployment{run: &run{}, profile: &engine.Profile{}}
	w = started.waitFor(pathTo{host.Direct}, "ready")
	w.silent = w.silent.Add(-time.Hour)
	if err := w.judge(none); err != nil {
		t.Errorf("a server that is starting: %v", err)
	}
}

// A port of another protocol or scheme fails for good. One that does not answer, or
// hangs up, is asked again.
func TestLasting(t *testing.T) {
	t.Parallel()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	plain, secure := httptest.NewServer(ok), httptest.NewUnstartedServer(ok)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	demanding := httptest.NewUnstartedServer(ok)
	demanding.Config.ErrorLog = log.New(io.Discard, "", 0)
	demanding.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
	demanding.StartTLS()
	t.Cleanup(demanding.Close)
	other := speaks(t, "SSH-2.0-OpenSSH_9.6\r\n")
	silent := speaks(t, "")
	for name, c := range map[string]struct{ url, class, hint string }{
		"http and not https":    {strings.Replace(plain.URL, "http:", "https:", 1), "connect", "speaks http"},
		"unknown certificate":   {secure.URL, "connect", "TLS"},
		"https and not http":    {strings.Replace(secure.URL, "https:", "http:", 1), "protocol", "https://"},
		"refused handshake":     {demanding.URL, "connect", "TLS"},
		"another protocol":      {"http://" + other, "protocol", "plain HTTP"},
		"TLS at something else": {"https://" + other, "connect", "TLS"},
		"closes at once":        {"http://" + silent, "", ""},
		"closed port":           {"http://127.0.0.1:1", "", ""},
	} {
		api := &apiClient{base: c.url, auth: func(http.Header) {}, http: clientOf(fakeHost{c.url}), sent: func(string) {}}
		_, err := api.get(t.Context(), "/v1/models")
		// Of a server that speaks first net/http has another error, if it is read
		// before the question is sent. Who waits asks again, too.
		for n := 0; n < 100 && err != nil && c.class != "" && lasting(err) == nil; n++ {
			_, err = api.get(t.Context(), "/v1/models")
		}
		api.close()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		f := lasting(err)
		switch {
		case f == nil && c.class != "":
			t.Errorf("%s: %v is waited for", name, err)
		case f != nil && (f.Class != c.class || !strings.Contains(f.Hint, c.hint)):
			t.Errorf("%s: %s: %v (%s)", name, f.Class, f, f.Hint)
		}
	}
	// A web server that has a page for everything.
	api := &apiClient{base: plain.URL, auth: func(http.Header) {}, http: clientOf(fakeHost{plain.URL}), sent: func(string) {}}
	defer api.close()
	if _, _, err := api.stream(t.Context(), "/v1/chat/completions", nil); err == nil || lasting(err) == nil || lasting(err).Class != "protocol" {
		t.Errorf("a page: %v", err)
	}
}

// While a server is waited for, each new answer is shown once.
func TestReady_showsTheLastAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{probe: func(look int) (int, string) {
		if look < 4 {
			return http.StatusServiceUnavailable, ""
		}
		return http.StatusOK, "m"
	}}))
	w.must()
	list := w.seen(event.Waiting)
	want(t, "events", len(list), 1)
	if e := list[0]; e.Step != "ready" || !strings.Contains(e.Text, "answered 503") || e.Deployment == "" {
		t.Errorf("got %+v", e)
	}
}

// A server that counts no tokens is found by the first question, and noticed once
// for all cells.
func TestReady_uncounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{uncounted: true}))
	w.must()
	want(t, "outcomes", w.summary(), "ok/1 ok/1")
	told := 0
	for _, e := range w.seen(event.Notice) {
		if strings.Contains(e.Text, "tokens_assumed") {
			told++
		}
	}
	want(t, "notices", told, 1)
	for _, o := range w.outcomes() {
		row := o.Row
		if !strings.Contains(fmt.Sprint(row["findings"]), "tokens_assumed") || row["output_tokens"] != int64(8) || row["p50_tpot_ms"] != nil {
			t.Errorf("findings %v, output_tokens %v, TPOT %v", row["findings"], row["output_tokens"], row["p50_tpot_ms"])
		}
	}
	w = newWorld(t, nil)
	w.must()
	for _, e := range w.seen(event.Notice) {
		if strings.Contains(e.Text, "tokens_assumed") {
			t.Errorf("of a server that counts: %s", e.Text)
		}
	}
}

func status(code int) func(int) (int, string) {
	return func(int) (int, string) { return code, "" }
}

func models(ids ...string) func(int) []string { return func(int) []string { return ids } }

// speaks is the address of a server that says text to whoever comes, and hangs up.
func speaks(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			// Read what the client says, or the close would be a reset.
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); served.Wait() })
	return l.Addr().String()
}

// pathTo is a deployment that is reached so.
type pathTo struct{ path host.Path }

func (p pathTo) Host(string, int) host.Host { return pathHost{fakeHost{}, p.path} }
func (pathTo) Done() <-chan struct{}        { return nil }
func (pathTo) Err() error                   { return nil }
func (pathTo) Stop(context.Context) error   { return nil }

type pathHost struct {
	fakeHost
	path host.Path
}

func (h pathHost) Path() host.Path { return h.path }

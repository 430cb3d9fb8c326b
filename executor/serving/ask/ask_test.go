package ask

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/secret"
)

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
		api := New(at{url: c.url}, func(http.Header) {}, secret.Mask{}, func(string) {})
		_, err := api.Get(t.Context(), "/v1/models")
		// Of a server that speaks first net/http has another error, if it is read
		// before the question is sent. Who waits asks again, too.
		for n := 0; n < 100 && err != nil && c.class != "" && Lasting(err) == nil; n++ {
			_, err = api.Get(t.Context(), "/v1/models")
		}
		api.Close()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		f := Lasting(err)
		switch {
		case f == nil && c.class != "":
			t.Errorf("%s: %v is waited for", name, err)
		case f != nil && (f.Class != c.class || !strings.Contains(f.Hint, c.hint)):
			t.Errorf("%s: %s: %v (%s)", name, f.Class, f, f.Hint)
		}
	}
	// A web server that has a page for everything.
	api := New(at{url: plain.URL}, func(http.Header) {}, secret.Mask{}, func(string) {})
	defer api.Close()
	if _, _, err := api.Stream(t.Context(), "/v1/chat/completions", nil); err == nil || Lasting(err) == nil || Lasting(err).Class != "protocol" {
		t.Errorf("a page: %v", err)
	}
}

// speaks returns the address of a server that sends text on each connection and closes it.
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

// at is a host at a URL.
type at struct {
	host.Host
	url string
}

func (a at) URL() string { return a.url }

func (a at) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// A server is asked as the load will ask it: below the prefix of its base URL, with the query of
// both. A GET follows redirects of the same server, and nothing else does.
func TestClient_asTheServerIs(t *testing.T) {
	t.Parallel()
	var asked []string
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		switch r.URL.Path {
		case "/p/metrics":
			http.Redirect(w, r, "/p/metrics/?x=1", http.StatusTemporaryRedirect)
		case "/p/round":
			http.Redirect(w, r, "/p/round", http.StatusFound)
		case "/p/away":
			http.Redirect(w, r, other.URL+"/metrics", http.StatusMovedPermanently)
		case "/p/zipped":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("plain"))
			_ = z.Close()
		default:
			_, _ = w.Write([]byte("ok"))
		}
	}))
	t.Cleanup(server.Close)
	api := New(at{url: server.URL + "/p/?tenant=a"}, func(http.Header) {}, secret.Mask{}, func(string) {})
	defer api.Close()
	for _, c := range []struct{ path, want, says string }{
		{"/v1/models?api-version=7", "ok", ""},
		{"/metrics", "ok", ""},
		{"/zipped", "plain", ""},
		{"/round", "", "302 Found: it leads to /p/round"},
		{"/away", "", "it leads to " + other.URL + "/metrics"},
	} {
		got, err := api.Get(t.Context(), c.path)
		if string(got) != c.want || err != nil && !strings.Contains(err.Error(), c.says) || (err == nil) != (c.says == "") {
			t.Errorf("%s: %q, %v", c.path, got, err)
		}
	}
	if _, err := api.Post(t.Context(), "/metrics", nil); err == nil || Lasting(err) == nil || !strings.Contains(err.Error(), "it leads to /p/metrics/?x=1") {
		t.Errorf("a redirected POST: %v", err)
	}
	if !slices.Contains(asked, "/p/v1/models?tenant=a&api-version=7") || !slices.Contains(asked, "/p/metrics/?x=1") {
		t.Errorf("asked %v", asked)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"object":"list","data":[{"id":"a"},{"id":"b"}]}`: "a b",
		` [{"id":"a","type":"chat"},{"id":"b"}]`:           "a b",
		`["a","b"]`:                                        "a b",
		`{"models":[{"name":"a:latest"}]}`:                 "a:latest",
		`{"data":[{"id":"a"}],"models":[{"name":"a"}]}`:    "a",
		`{}`: "",
	} {
		got, err := Models([]byte(body))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
	if _, err := Models([]byte("<html>")); err == nil {
		t.Error("a page is a list of models")
	}
}

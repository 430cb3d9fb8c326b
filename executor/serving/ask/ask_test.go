package ask

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
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

// speaks is the address of a server that sends text on each connection and closes it.
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

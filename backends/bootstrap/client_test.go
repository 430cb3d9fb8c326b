package bootstrap

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/secret"
)

// fakeAgent returns a client of a server that signs as an agent does.
func fakeAgent(t *testing.T, handler http.HandlerFunc) *Agent {
	return agentOf(t, func(w http.ResponseWriter, r *http.Request) {
		said := httptest.NewRecorder()
		handler(said, r)
		h := w.Header()
		maps.Copy(h, said.Header())
		h.Set("X-Sweep-Session", strings.Repeat("1", 32))
		h.Set("X-Sweep-Time", "0")
		nonce := strings.Fields(r.Header.Get("Authorization"))[3]
		h.Set("X-Sweep-Mac", newSigner(secret.New("${TOKEN}", testToken)).mac("answer", nonce, strconv.Itoa(said.Code), h.Get("X-Sweep-Session"), "0",
			h.Get("X-Sweep-Offset"), h.Get("X-Sweep-End"), h.Get("X-Sweep-Exit"), digest(said.Body.Bytes())))
		w.WriteHeader(said.Code)
		_, _ = w.Write(said.Body.Bytes())
	})
}

func agentOf(t *testing.T, handler http.HandlerFunc) *Agent {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return NewAgent(nil, s.URL+"/", secret.New("${TOKEN}", testToken))
}

func TestClient_noRedirect(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(evil.Close)
	a := fakeAgent(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, evil.URL, http.StatusTemporaryRedirect)
	})
	if err := a.Beat(t.Context()); err == nil || elsewhere.Load() != 0 {
		t.Errorf("got %v, %d requests elsewhere", err, elsewhere.Load())
	}
}

func TestClient_errors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		want error
	}{
		{"over", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, ErrOver},
		{"token", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, ErrToken},
		{"other", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "\x1b[2Jgone", http.StatusBadGateway) }, nil},
	} {
		err := fakeAgent(t, c.h).Beat(t.Context())
		if err == nil || c.want != nil && !errors.Is(err, c.want) || strings.ContainsAny(err.Error(), "\x1b\n") || strings.Contains(err.Error(), testToken) {
			t.Errorf("%s: got %v", c.name, err)
		}
		if c.want == nil && (errors.Is(err, ErrOver) || errors.Is(err, ErrToken)) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// Only an agent that has our key says that a pod is over, or what it printed.
func TestClient_unsigned(t *testing.T) {
	t.Parallel()
	answer := func(status int) *Agent {
		return agentOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Sweep-Exit", "0")
			w.WriteHeader(status)
		})
	}
	if err := answer(http.StatusOK).Beat(t.Context()); !errors.Is(err, ErrToken) {
		t.Errorf("a beat: %v", err)
	}
	if err := answer(http.StatusGone).Beat(t.Context()); err == nil || errors.Is(err, ErrOver) {
		t.Errorf("a pod that is over: %v", err)
	}
	if out, err := answer(http.StatusOK).Exec(t.Context(), "nvidia-smi"); !errors.Is(err, ErrToken) {
		t.Errorf("nvidia-smi: %q, %v", out, err)
	}
	if _, err := answer(http.StatusNotFound).Exec(t.Context(), "nvidia-smi"); err == nil || errors.Is(err, host.ErrNotSupported) {
		t.Errorf("no nvidia-smi: %v", err)
	}
}

func TestClient_bounded(t *testing.T) {
	t.Parallel()
	a := agentOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Sweep-Exit", "0")
		_, _ = io.CopyN(w, zeros{}, 64<<20) // the client hangs up
	})
	if out, err := a.Exec(t.Context(), "nvidia-smi"); err == nil || len(out) != 0 {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Beat(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestClient_dial(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("exec sleep 1000")})})
	p.up()
	a := NewAgent(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "pod.invalid:8081" {
			t.Errorf("dials %s", addr)
		}
		var d net.Dialer
		return d.DialContext(ctx, network, "127.0.0.1:"+strconv.Itoa(p.port))
	}, "http://pod.invalid:8081", secret.New("", testToken))
	if err := a.Beat(t.Context()); err != nil {
		t.Error(err)
	}
}

// A log goes on where an agent was away for a moment.
func TestClient_logGoesOn(t *testing.T) {
	t.Parallel()
	const text = "one two three four"
	var n atomic.Int32
	a := fakeAgent(t, func(w http.ResponseWriter, r *http.Request) {
		offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
		if err != nil {
			t.Error(err)
		}
		switch n.Add(1) {
		case 2:
			w.WriteHeader(http.StatusBadGateway)
			return
		case 3:
			w.Header().Set("Content-Length", "100") // and then fewer
		}
		end := min(offset+5, len(text))
		w.Header().Set("X-Sweep-Offset", strconv.Itoa(offset))
		if offset == len(text) {
			w.Header().Set("X-Sweep-End", "1")
		}
		_, _ = io.WriteString(w, text[offset:end])
	})
	r, err := a.Log(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != text {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestClient_logClosed(t *testing.T) {
	t.Parallel()
	a := fakeAgent(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Sweep-Offset", "0")
		if r.URL.Query().Get("wait") != "0" {
			<-r.Context().Done()
		}
	})
	r, err := a.Log(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.Read(make([]byte, 1))
		ended <- err
	}()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

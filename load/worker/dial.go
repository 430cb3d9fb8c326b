package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/internal/netguard"
)

// dialWithin bounds how long a client takes to connect to its server.
const dialWithin = 5 * time.Second

// upgradeTo is the protocol of a connection that a client passes on.
const upgradeTo = "sweep-tcp"

// Dial connects to an address from where a client runs: what a server is asked beside the
// load goes this way if it cannot be reached from here. Once the client is registered, that
// is its server alone. ctx bounds the dial.
func Dial(ctx context.Context, a Address, to string) (net.Conn, error) {
	at, err := url.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	dial := a.Dial
	if dial == nil {
		dial = netguard.Dial
	}
	conn, err := dial(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	// The end of ctx, and nothing later, breaks the handshake.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, err := handshake(conn, a, at.Host, to)
	if !stop() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func handshake(conn net.Conn, a Address, host, to string) (net.Conn, error) {
	_, err := fmt.Fprintf(conn, "GET %s?to=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		pathDial, url.QueryEscape(to), host, a.Token.Reveal(), upgradeTo)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return nil, &refusal{strings.TrimSpace(string(text))}
	}
	return &relayed{conn, in}, nil
}

// A relayed is a connection that a client passes on.
type relayed struct {
	net.Conn
	in *bufio.Reader // may hold its first bytes
}

// Read implements [net.Conn].
func (r *relayed) Read(p []byte) (int, error) { return r.in.Read(p) }

// dial passes a connection on to the client's server, or to any address while there is
// none: whoever has the token can name the server.
func (s *server) dial(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	s.mu.Lock()
	target, known := s.target.Wire.BaseURL, s.registered
	s.mu.Unlock()
	if at := hostPort(target); known && !strings.EqualFold(to, at) {
		http.Error(w, fmt.Sprintf("the server of this client is %s, and not %s", at, to), http.StatusForbidden)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialWithin)
	far, err := netguard.Dial(ctx, "tcp", to)
	cancel()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	near, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		far.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.relays.Go(func() {
		defer near.Close()
		defer far.Close()
		defer context.AfterFunc(s.ctx, func() { near.Close(); far.Close() })()
		if _, err := fmt.Fprintf(near, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgradeTo); err != nil {
			return
		}
		var both sync.WaitGroup
		both.Go(func() { pass(far, rest); near.Close() })
		both.Go(func() { pass(near, far); far.Close() })
		both.Wait()
	})
}

// pass copies until one side ends.
func pass(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from) // both sides see the end
	to.Close()
}

// hostPort returns where the server of a URL listens.
func hostPort(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

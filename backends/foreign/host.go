package foreign

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/netguard"
)

// A Host is a server as the network shows it: it runs no command and shows no log.
type Host struct {
	At    *url.URL
	Guard netguard.Guard
	// By is how requests get there. "" is direct: what stands between us and somebody
	// else's server is not ours to know.
	By host.Path
}

var _ host.Host = (*Host)(nil)

// URL implements [host.Host].
func (h *Host) URL() string { return h.At.String() }

// Path implements [host.Host].
func (h *Host) Path() host.Path { return cmp.Or(h.By, host.Direct) }

// Exec is not supported.
func (h *Host) Exec(context.Context, ...string) ([]byte, error) { return nil, host.ErrNotSupported }

// Logs is not supported.
func (h *Host) Logs(context.Context) (io.ReadCloser, error) { return nil, host.ErrNotSupported }

// Dial connects to the server's host, on any port of it, and to no other:
// every connection may carry the key.
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(name, h.At.Hostname()) {
		return nil, fmt.Errorf("dial %s: refused: the server is %s", addr, h.At.Hostname())
	}
	return h.Guard.Dial(ctx, network, addr)
}

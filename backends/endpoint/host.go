package endpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/netguard"
)

// An endpointHost is a server as the network shows it.
type endpointHost struct {
	url   *url.URL
	guard netguard.Guard
}

var _ host.Host = (*endpointHost)(nil)

func (h *endpointHost) URL() string { return h.url.String() }

// Path is direct: what stands between us and somebody else's server is not
// ours to know.
func (h *endpointHost) Path() host.Path { return host.Direct }

func (h *endpointHost) Exec(context.Context, ...string) ([]byte, error) {
	return nil, host.ErrNotSupported
}

func (h *endpointHost) Logs(context.Context) (io.ReadCloser, error) {
	return nil, host.ErrNotSupported
}

// Dial connects to the endpoint's host, on any port of it, and to no other:
// every connection may carry the key.
func (h *endpointHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(name, h.url.Hostname()) {
		return nil, fmt.Errorf("dial %s: refused: the endpoint is %s", addr, h.url.Hostname())
	}
	return h.guard.Dial(ctx, network, addr)
}

package endpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"sweep.dev/sweep/host"
)

// An endpointHost is a server as the network shows it.
type endpointHost struct {
	url       *url.URL
	linkLocal bool // permitted
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
	d := net.Dialer{Control: h.control}
	return d.DialContext(ctx, network, addr)
}

// control looks at the address after every resolution, so that no name, odd
// notation or changed DNS record leads to one that is refused.
func (h *endpointHost) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: refused: %w", address, err)
	}
	if !h.linkLocal && (isLinkLocal(ap.Addr()) || isMetadata(ap.Addr())) {
		return fmt.Errorf("dial %s: refused: a link-local or metadata address (allow_link_local permits it)", address)
	}
	return nil
}

func isLinkLocal(a netip.Addr) bool {
	a = unembed(a)
	return a.IsLinkLocalUnicast() || a.IsMulticast()
}

// isMetadata knows the metadata addresses that are not link-local: AWS's on
// IPv6, Alibaba's and Oracle's first one.
func isMetadata(a netip.Addr) bool {
	switch unembed(a).String() {
	case "fd00:ec2::254", "100.100.100.200", "192.0.0.192":
		return true
	}
	return false
}

// unembed is the IPv4 address in an IPv6 one: mapped (::ffff:0:0/96) or
// translated on the way (NAT64's 64:ff9b::/96, RFC 6052).
func unembed(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if b := a.As16(); a.Is6() && netip.MustParsePrefix("64:ff9b::/96").Contains(a) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

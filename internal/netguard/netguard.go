// Package netguard refuses connections to addresses that only a mistake or an
// attack leads to: link-local ones and the metadata services of clouds, which
// give the credentials of the machine to every client.
//
// Addresses come from plans, which may be a stranger's, and from providers. They
// are looked at when a connection is made, after every resolution: no name, odd
// notation or changed DNS record leads to one that is refused.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrRefused is in the error of every connection that was not let through.
var ErrRefused = errors.New("refused")

// A Guard dials. The zero Guard refuses what the package is there to refuse.
type Guard struct {
	// AllowLinkLocal lets everything through.
	AllowLinkLocal bool
	// Public refuses this machine and private networks, too.
	Public bool
	// Hint ends the text of a refusal: how to permit it. "" is nothing.
	Hint string
}

// Dial connects like a [net.Dialer] whose connections this package guards. The
// context bounds it.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return Guard{}.Dial(ctx, network, addr)
}

// Dial connects to addr, a host and a port. The context bounds it. An error
// that wraps [ErrRefused] will be the same the next time.
func (g Guard) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if err := g.Check(name); err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	d := net.Dialer{Control: g.Control}
	return d.DialContext(ctx, network, addr)
}

// Check looks at a host as it is written, without any resolution: it gives a
// clear text early for what Dial would refuse late. It refuses no more than
// that, and lets through what it does not understand.
func (g Guard) Check(host string) error {
	if g.AllowLinkLocal {
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	for _, m := range metadataNames {
		if name == m || strings.HasSuffix(name, "."+m) {
			return g.refused("%s is a cloud's metadata service", host)
		}
	}
	a, err := netip.ParseAddr(strings.Trim(name, "[]"))
	if err != nil {
		var ok bool
		if a, ok = legacy(name); !ok {
			return nil
		}
	}
	return g.check(a)
}

// Control looks at the address that a connection is about to be made to. It
// has the form of [net.Dialer]'s field.
func (g Guard) Control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s is not an address and a port", ErrRefused, address)
	}
	if g.AllowLinkLocal {
		return nil
	}
	return g.check(ap.Addr())
}

func (g Guard) check(a netip.Addr) error {
	what := reason(a)
	if what == "" && g.Public {
		what = inside(a)
	}
	if what == "" {
		return nil
	}
	return g.refused("%s is %s", a, what)
}

func (g Guard) refused(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if g.Hint != "" {
		text += " (" + g.Hint + ")"
	}
	return fmt.Errorf("%w: %s", ErrRefused, text)
}

// Client makes an HTTP client whose requests may carry a key. It connects with
// dial, through no proxy, and follows no redirect, to whatever host: the answer
// to a redirected request is the redirect. timeout bounds a request with its
// answer; 0 leaves that to the request's context. A nil dial is [Dial].
func Client(dial func(ctx context.Context, network, addr string) (net.Conn, error), timeout time.Duration) *http.Client {
	if dial == nil {
		dial = Dial
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, TLSHandshakeTimeout: 10 * time.Second},
		CheckRedirect: NoRedirect,
		Timeout:       timeout,
	}
}

// maxRedirects bounds the redirects that [SameServer] follows.
const maxRedirects = 5

// SameServer is an [http.Client]'s CheckRedirect that follows those of a GET to another path of
// the same server, with the same scheme, host and port: at most five, and none in a circle. The
// answer to any other is the redirect, as with [NoRedirect].
func SameServer(to *http.Request, via []*http.Request) error {
	from := via[0]
	if from.Method != http.MethodGet || to.URL.Scheme != from.URL.Scheme || to.URL.Host != from.URL.Host || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	for _, before := range via {
		if before.URL.String() == to.URL.String() {
			return http.ErrUseLastResponse
		}
	}
	return nil
}

// NoRedirect is an [http.Client]'s CheckRedirect that follows none. net/http
// takes Authorization off a request to another host, but no other header, and
// not off one to the same host on another port.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/secret"
)

// An entry is where requests go.
type entry struct {
	host    *podHost
	headers foreign.Headers
}

// A closed error is that no address of the stack can be reached from here.
type closedError struct {
	tried []string
	// usable are those that may be reached from within the cluster.
	usable []entry
}

func (e *closedError) Error() string {
	return fmt.Sprintf("no address of the stack can be reached from here (%s)", strings.Join(e.tried, "; "))
}

// entryOf returns the plan's address, else the first of the stack's own that takes a
// connection. Without one the error is a [*closedError].
func (b *Backend) entryOf(ctx context.Context, s *stack.Stack) (entry, error) {
	none := &closedError{}
	if b.url != nil {
		e := b.entryAt(b.url, b.headers, b.pathOf(b.url, s))
		if why := b.refuses(ctx, b.url); why != "" && e.host.Path() == host.Direct {
			none.tried, none.usable = []string{b.url.String() + ": " + why}, []entry{e}
			return e, none
		}
		return e, nil
	}
	for _, e := range s.Entries {
		where := cmp.Or(e.URL, strings.Join(e.Via, " > "))
		u, headers, why := b.usable(e)
		if why == "" {
			none.usable = append(none.usable, b.entryAt(u, headers, host.Direct))
			why = b.refuses(ctx, u)
		}
		if why != "" {
			none.tried = append(none.tried, where+": "+why)
			continue
		}
		return b.entryAt(u, headers, b.pathOf(u, s)), nil
	}
	if len(none.tried) == 0 {
		none.tried = []string{"it has none: " + s.Name + " leads to pods alone"}
	}
	return entry{}, none
}

func (b *Backend) entryAt(u *url.URL, headers foreign.Headers, by host.Path) entry {
	return entry{&podHost{Host: foreign.Host{At: u, Guard: b.guard, By: by}}, headers}
}

// usable returns the URL of an entry with the headers that it needs, or why it cannot be used.
func (b *Backend) usable(e stack.Entry) (*url.URL, foreign.Headers, string) {
	if e.URL == "" {
		return nil, nil, "the cluster names no address"
	}
	u, err := foreign.Address(e.URL, b.guard)
	if err != nil {
		return nil, nil, err.Error()
	}
	headers := maps.Clone(b.headers)
	var names []string // that the route answers to
	for _, need := range e.Needs {
		if name, ok := strings.CutPrefix(need, "host "); ok {
			names = append(names, name)
			continue
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(need, "header "), ": ")
		if _, own := headers[http.CanonicalHeaderKey(name)]; !own {
			headers[name] = secret.New(value, value)
		}
	}
	if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, u.Hostname()) }) {
		return nil, nil, "it answers only to " + strings.Join(names, ", ") + ": set backend.url to one of these names"
	}
	return u, headers, ""
}

// refuses says why no connection to a URL's server can be opened, or "".
func (b *Backend) refuses(ctx context.Context, u *url.URL) string {
	ctx, cancel := context.WithTimeoutCause(ctx, b.every.connect, fmt.Errorf("no connection within %v", b.every.connect))
	defer cancel()
	conn, err := b.guard.Dial(ctx, "tcp", addressOf(u))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	if err != nil {
		return err.Error()
	}
	conn.Close()
	return ""
}

// addressOf returns where the server of a URL listens.
func addressOf(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// pathOf says how requests to a URL get to the stack. An address of this machine is the
// end of a port-forward, unless the stack runs on this machine; one of the API server is
// its proxy.
func (b *Backend) pathOf(u *url.URL, s *stack.Stack) host.Path {
	server, err := url.Parse(s.Server)
	if strings.Contains(u.Path, "/proxy") && strings.Contains(u.Path, "/api/v1/namespaces/") || err == nil && server.Host == u.Host {
		return host.Proxy
	}
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := strings.EqualFold(u.Hostname(), "localhost") || err == nil && addr.IsLoopback()
	if loopback && !onThisMachine(s) {
		return host.Tunnel
	}
	return host.Direct
}

// onThisMachine reports whether a pod has an address of this machine, as one in the network
// of its node has.
func onThisMachine(s *stack.Stack) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.Pods(), func(p *stack.Pod) bool {
		return slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && p.IP != "" && n.IP.String() == p.IP
		})
	})
}

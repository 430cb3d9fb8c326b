// Package endpoint measures a server that already runs and belongs to somebody
// else: it starts nothing, ends nothing, and sends the plan's headers to that
// server's host and nowhere else.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

// Kind is the backend's name in a plan.
const Kind = "endpoint"

// A Config is the backend's part of a plan.
type Config struct {
	URL     string                   `yaml:"url" doc:"Address of the server, with or without the /v1 of its API." example:"https://llm.example.com"`
	Key     secret.String            `yaml:"key,omitempty" doc:"API key, sent as a bearer token. A reference, never the key itself: ${SWEEP_API_KEY}." example:"${SWEEP_API_KEY}"`
	Headers map[string]secret.String `yaml:"headers,omitempty" doc:"Headers of every request. Headers with credentials (Authorization, Cookie, X-Api-Key, ...) by reference only." example:"{X-Tenant: bench}"`

	Roles map[string][]Place `yaml:"roles,omitempty" doc:"Addresses of the replicas of an engine's roles, by the role's name. Roles that are not listed have no columns." example:"{worker: [{metrics: 'http://10.0.0.2:8081'}]}"`

	// ResetCache is Never ("" too) or BetweenTrials.
	ResetCache string `yaml:"reset_cache,omitempty" doc:"Whether sweep may empty the server's prefix cache, which slows its other users: never, or between_trials, before each trial. The engine profile must have a call for it (vLLM, SGLang)." default:"never" enum:"never,between_trials" example:"between_trials"`

	// See package netguard.
	AllowLinkLocal bool `yaml:"allow_link_local,omitempty" doc:"Permit a link-local address, or that of a cloud's metadata service." default:"false" example:"true"`
}

// A Place is where one replica of a role is. Nothing but its metrics is read there.
type Place struct {
	Metrics string `yaml:"metrics,omitempty" doc:"Address of the replica's metrics: its server, without the path, which the engine profile has." example:"http://10.0.0.2:8081"`
}

// Values of [Config.ResetCache].
const (
	Never         = "never"
	BetweenTrials = "between_trials"
)

// A Backend is one server that already runs.
type Backend struct {
	resets  bool
	url     *url.URL
	headers foreign.Headers
	host    *foreign.Host
	places  map[string][]*foreign.Host // by role
}

var (
	_ backends.Backend = (*Backend)(nil)
	_ backends.Server  = (*Backend)(nil)
	_ backends.Prober  = (*Backend)(nil)
	_ backends.Guest   = (*Backend)(nil)
	_ backends.Network = (*Backend)(nil)

	_ backends.Outbound = (*Backend)(nil)

	_ backends.Standing = (*Backend)(nil)
	_ backends.Checker  = (*Backend)(nil)
)

// Factory makes endpoint backends.
func Factory() backends.Factory {
	return backends.Factory{
		Kind:    Kind,
		Doc:     "a server that already runs",
		Given:   true,
		FreeGPU: true,
		Config:  Config{},
		New: func(decode func(any) error) (backends.Backend, error) {
			var c Config
			if err := decode(&c); err != nil {
				return nil, err
			}
			return New(c)
		},
	}
}

// New makes a backend of a configuration. The error names everything that is
// wrong with it.
func New(c Config) (*Backend, error) {
	b := &Backend{resets: c.ResetCache == BetweenTrials, places: map[string][]*foreign.Host{}}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("backend endpoint: "+format, args...))
	}
	guard := netguard.Guard{AllowLinkLocal: c.AllowLinkLocal, Hint: "allow_link_local permits it"}
	u, err := foreign.Address(c.URL, guard)
	if err != nil {
		bad("url: %w", err)
	} else {
		b.url, b.host = u, &foreign.Host{At: u, Guard: guard}
	}
	for _, role := range slices.Sorted(maps.Keys(c.Roles)) {
		if len(c.Roles[role]) == 0 {
			bad("roles.%s: is empty: list its replicas, [{metrics: http://host:port}]", role)
		}
		for i, p := range c.Roles[role] {
			u, err := foreign.Address(p.Metrics, guard)
			if err != nil {
				bad("roles.%s[%d].metrics: %w", role, i, err)
				continue
			}
			// Many people copy the address of the page itself.
			u.Path = strings.TrimSuffix(u.Path, "/metrics")
			b.places[role] = append(b.places[role], &foreign.Host{At: u, Guard: guard})
		}
	}
	if b.resets && len(c.Roles) > 0 {
		bad("reset_cache: %s is not possible with roles, whose addresses are for metrics alone", BetweenTrials)
	}
	if !slices.Contains([]string{"", Never, BetweenTrials}, c.ResetCache) {
		bad("reset_cache: want %s or %s, got %q", Never, BetweenTrials, c.ResetCache)
	}
	headers, wrong := foreign.HeadersOf(c.Headers, c.Key)
	for _, err := range wrong {
		bad("%w", err)
	}
	b.headers = headers
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b, nil
}

// Authorize adds the key and the headers. They are for requests to this
// server; its host dials no other.
func (b *Backend) Authorize(h backends.Header) {
	b.headers.Set(h)
}

// Destinations implements [backends.Outbound].
func (b *Backend) Destinations() (backends.Destinations, error) {
	return backends.Destinations{Requests: b.url, Key: b.url}, nil
}

// MayResetCache implements [backends.Guest].
func (b *Backend) MayResetCache() bool { return b.resets }

// PlainTCP implements [backends.Network].
func (b *Backend) PlainTCP() bool { return b.url.Scheme == "http" }

// Probe asks the server for its models. Any answer but a refusal, a redirect
// or a server's error will do: not every server lists its models.
func (b *Backend) Probe(ctx context.Context) error {
	return foreign.Probe(ctx, b.url, b.host.Dial, b.headers)
}

// Hosts implements [backends.Standing].
func (b *Backend) Hosts(role string, entry bool) []host.Host {
	if entry {
		return []host.Host{b.host}
	}
	var list []host.Host
	for _, h := range b.places[role] {
		list = append(list, h)
	}
	return list
}

// Metrics implements [backends.Standing].
func (b *Backend) Metrics(role string, replica int) (host.Host, bool) {
	if replica >= len(b.places[role]) {
		return nil, false
	}
	return b.places[role][replica], true
}

// Check implements [backends.Checker]: each role that has an address is one of
// the engine's, and the entry is one server.
func (b *Backend) Check(spec backends.Spec) error {
	var names []string
	for _, r := range spec.Roles {
		names = append(names, r.Name)
	}
	for _, role := range slices.Sorted(maps.Keys(b.places)) {
		switch {
		case !slices.Contains(names, role):
			return fmt.Errorf("%w: backend.roles: %s has no role %q; its roles are %s", backends.ErrSpec, spec.Engine, role, strings.Join(names, ", "))
		case role == spec.Entry && len(b.places[role]) > 1:
			return fmt.Errorf("%w: backend.roles.%s: requests go to it, at backend.url: it has one address of its metrics, not %d", backends.ErrSpec, role, len(b.places[role]))
		}
	}
	return nil
}

// Launch starts nothing. The pod stands in the ledger all the same: its life
// is that of any other.
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	hosts := map[string][]host.Host{}
	for _, r := range spec.Roles {
		hosts[r.Name] = b.Hosts(r.Name, r.Name == spec.Entry)
		if len(hosts[r.Name]) != max(1, r.Replicas) {
			return nil, fmt.Errorf("%w: %d replicas of the role %s, and the endpoint has %d addresses of it", backends.ErrSpec, r.Replicas, r.Name, len(hosts[r.Name]))
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := l.Record(ctx, backends.Transition{Pod: spec.Pod, State: backends.Intended, Kind: Kind}); err != nil {
		return nil, fmt.Errorf("intent of pod %s: %w", spec.Pod, err)
	}
	ref := backends.Ref{Kind: Kind, RunID: spec.RunID, Pod: spec.Pod, ID: b.url.String()}
	if err := l.Record(ctx, backends.Transition{Pod: spec.Pod, State: backends.Created, Ref: &ref}); err != nil {
		err = fmt.Errorf("record of pod %s: %w", spec.Pod, err)
		return nil, errors.Join(err, l.Record(ctx, backends.Transition{Pod: spec.Pod, State: backends.Gone}))
	}
	return &deployment{hosts: hosts, done: make(chan struct{})}, nil
}

// List knows of nothing: nothing was started.
func (b *Backend) List(context.Context, string) ([]backends.Listed, error) { return nil, nil }

// Terminate has nothing to end.
func (b *Backend) Terminate(context.Context, backends.Ref) error { return nil }

// A deployment is somebody else's server.
type deployment struct {
	hosts map[string][]host.Host // by role
	done  chan struct{}          // never closed
}

func (d *deployment) Host(role string, replica int) host.Host {
	if replica < 0 || replica >= len(d.hosts[role]) {
		panic(fmt.Sprintf("endpoint: no replica %d of role %q", replica, role))
	}
	return d.hosts[role][replica]
}

func (d *deployment) Done() <-chan struct{}      { return d.done }
func (d *deployment) Err() error                 { return nil }
func (d *deployment) Stop(context.Context) error { return nil }

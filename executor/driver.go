package executor

import (
	"cmp"
	"maps"
	"net/http"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/plan"
)

// driver makes a client that measures this trial's server.
func (m *measurement) driver(h host.Host) (client.Driver, error) {
	c := m.wire(h.URL())
	c.Headers, c.Dial, c.NetworkPath = m.authorize, h.Dial, string(h.Path())
	return client.New(c, m.clientKind())
}

// clientKind is which client sends.
func (m *measurement) clientKind() string { return cmp.Or(m.Client, m.trial.cell.Load.Client) }

// wire is how the server at a URL is asked.
func (m *measurement) wire(url string) wire.Config {
	l := m.trial.cell.Load
	api := m.profile.API
	c := wire.Config{
		BaseURL: url, Model: m.Server.Served, Chat: l.Endpoint != plan.EndpointCompletions,
		Stream: l.Stream == nil || *l.Stream, IncludeUsage: api.IncludeUsage, ContinuousUsage: api.ContinuousUsage,
		MaxTokensField: api.MaxTokensField,
		IgnoreEOS:      m.exact() && api.IgnoreEOS, MinTokens: m.exact() && api.MinTokens,
		Temperature: l.Sampling.Temperature, TopP: l.Sampling.TopP, Stop: l.Sampling.Stop,
		Body: merge(api.Body, l.Body), FreshConnections: api.FreshConnections,
	}
	c.Path = api.Completions
	if c.Chat {
		c.Path = api.Chat
	}
	return c
}

// authorizer adds what the servers of this backend, and of one deployment of
// it, want to be asked with. A key that the backend made wins over the plan's.
func (d *deployment) authorizer(dep backends.Deployment) func(http.Header) {
	key := d.plannedKey()
	return func(h http.Header) {
		if !key.IsZero() {
			h.Set("Authorization", "Bearer "+key.Reveal())
		}
		for _, v := range []any{d.Backend, dep} {
			if s, ok := v.(backends.Server); ok {
				s.Authorize(h)
			}
		}
	}
}

// plannedKey is the key that the plan gives the engine in its environment; zero
// if it gives none, or if the server is not started by us and never gets it.
func (d *deployment) plannedKey() secret.String {
	if d.Given {
		return secret.String{}
	}
	entry := d.profile.Role(d.profile.EntryRole())
	if entry == nil || entry.KeyEnv == "" {
		return secret.String{}
	}
	if key, ok := d.Server.Roles[entry.Name].Env[entry.KeyEnv]; ok {
		return key
	}
	return d.Server.Env[entry.KeyEnv]
}

// authorize adds what the server wants, and the plan's own headers.
func (m *measurement) authorize(h http.Header) {
	m.authorizer(m.server.Deployment)(h)
	for name, value := range m.trial.cell.Load.Headers {
		h.Set(name, value.Reveal())
	}
}

// merge is a with b over it.
func merge[V any](a, b map[string]V) map[string]V {
	m := make(map[string]V, len(a)+len(b))
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}

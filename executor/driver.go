package executor

import (
	"cmp"
	"maps"
	"net/http"

	"sweep.dev/sweep/host"
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
func (m *measurement) clientKind() string { return cmp.Or(m.config.Client, m.trial.cell.Load.Client) }

// wire is how the server at a URL is asked.
func (m *measurement) wire(url string) wire.Config {
	l := m.trial.cell.Load
	api := m.d.profile.API
	c := wire.Config{
		BaseURL: url, Model: m.d.of.Server.Served, Chat: l.Endpoint != plan.EndpointCompletions,
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

// authorize adds what the server wants, and the plan's own headers.
func (m *measurement) authorize(h http.Header) {
	m.d.server.Authorize(h)
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

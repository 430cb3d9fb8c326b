package attempt

import (
	"cmp"
	"maps"
	"net/http"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/plan"
)

// driver makes a client that measures this trial's server.
func (a *Attempt) driver(h host.Host) (client.Driver, error) {
	c := a.wire(h.URL())
	c.Headers, c.Dial, c.NetworkPath = a.authorize, h.Dial, string(h.Path())
	return client.New(c, a.clientKind())
}

// Check makes the client of a trial as far as that needs no server, and returns its
// error.
func Check(c *Config, s *Subject, t Trial) error {
	a := &Attempt{config: c, subject: s, trial: t}
	const nowhere = "http://127.0.0.1:1" // a server that is not there yet
	url, path := nowhere, host.Direct
	if known, ok := c.Backend.(backends.Standing); ok {
		entry := known.Hosts(s.Profile.EntryRole(), true)
		url, path = entry[0].URL(), entry[0].Path()
	}
	way := path
	if b, ok := c.Backend.(backends.Network); ok && !b.PlainTCP() && url == nowhere {
		way = host.Proxy
	}
	if err := reachable(a.clients(), way); err != nil && !a.pods() {
		return err
	}
	w := a.wire(url)
	w.NetworkPath, w.Headers = string(path), func(http.Header) {}
	driver, err := client.New(w, a.clientKind())
	if err != nil {
		return err
	}
	driver.Close()
	return nil
}

// clientKind returns which client sends.
func (a *Attempt) clientKind() string { return cmp.Or(a.config.Client, a.trial.Cell.Load.Client) }

// wire returns how the server at a URL is asked.
func (a *Attempt) wire(url string) wire.Config {
	l := a.trial.Cell.Load
	api := a.subject.Profile.API
	c := wire.Config{
		BaseURL: url, Model: a.subject.Of.Server.Served, Chat: l.Endpoint != plan.EndpointCompletions,
		Stream: l.Stream == nil || *l.Stream, IncludeUsage: api.IncludeUsage, ContinuousUsage: api.ContinuousUsage,
		MaxTokensField: api.MaxTokensField,
		IgnoreEOS:      a.exact() && api.IgnoreEOS, MinTokens: a.exact() && api.MinTokens,
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
func (a *Attempt) authorize(h http.Header) {
	a.subject.Server.Authorize(h)
	for name, value := range a.trial.Cell.Load.Headers {
		h.Set(name, value.Reveal())
	}
}

// merge returns a with b over it.
func merge[V any](a, b map[string]V) map[string]V {
	m := make(map[string]V, len(a)+len(b))
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}

// exact reports whether every request of this trial must yield max_tokens tokens.
func (a *Attempt) exact() bool { return a.trial.Cell.Load.Output == plan.OutputExact }

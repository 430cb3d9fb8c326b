package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/serving"
	"sweep.dev/sweep/serving/ask"
)

// mayResetCache says whether the prefix caches of this run's servers may be
// emptied: always those of its own servers, and those of others if the plan says
// that their owner permits it.
func (c *Config) mayResetCache() bool {
	if !c.Servers.Given {
		return true
	}
	g, ok := c.Backend.(backends.Guest)
	return ok && g.MayResetCache()
}

// reset empties the engine's prefix cache, if that is possible and permitted. It
// notes whether the trial begins with a cache that may hold earlier prompts.
func (m *measurement) reset(ctx context.Context) error {
	m.uncleared = m.d.seen.used
	m.d.seen.used = true // by what follows
	path := m.d.profile.API.CacheReset
	if path == "" || !m.config.mayResetCache() {
		return nil
	}
	err := m.d.resetCaches(ctx, path)
	switch {
	case err == nil:
		m.uncleared = false
		return nil
	case isNotFound(err) && !m.config.Servers.Given:
		return nil // it was started without the call
	}
	_, slow := errors.AsType[serving.Limit](context.Cause(ctx))
	if ctx.Err() != nil && !slow {
		return err // the trial is over
	}
	m.sink.Note(result.Finding{Code: finding.CacheNotReset, Text: fmt.Sprintf("the engine's prefix cache was not emptied: %v", err)})
	return nil
}

// resetCaches empties the prefix cache of every replica that runs the model.
func (d *deployment) resetCaches(ctx context.Context, path string) error {
	var errs []error
	for _, role := range d.server.Roles {
		if !d.profile.Role(role.Name).Computes() {
			continue
		}
		for n := range role.Replicas {
			errs = append(errs, d.resetReplica(ctx, d.server.Host(role.Name, n), path))
		}
	}
	return errors.Join(errs...)
}

func (d *deployment) resetReplica(ctx context.Context, h host.Host, path string) error {
	api := ask.New(h, d.server.Authorize, d.run.mask, d.Asked)
	defer api.Close()
	_, err := api.Post(ctx, path, nil)
	return err
}

// isNotFound says whether every server that answered did so with 404.
func isNotFound(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !isNotFound(e) {
				return false
			}
		}
		return true
	}
	var answer *ask.Status
	return errors.As(err, &answer) && answer.Code == http.StatusNotFound
}

// mayKnow says whether an earlier run may have left the prompts of this trial in
// the server's prefix cache: it sends given prompts without a marker of its own to
// a server that was up before the run and that was not emptied.
func (m *measurement) mayKnow() bool {
	p := m.trial.cell.Load.Prompts
	return m.uncleared && m.d.server.Foreign && p.Kind != plan.PromptsSynthetic && !p.CacheBust
}

// shared is the largest share of the prompts' tokens that a prefix cache can
// know because of what the load itself shares. Nil where the plan lets prompts be
// asked again: of these a cache may know all from the trial before.
func (m *measurement) shared() *float64 {
	c := m.load()
	if len(c.Prompts.Entries) > 0 && c.Prompts.Reuse && !c.Prompts.CacheBust {
		return nil
	}
	sent := 0
	for i := range m.requests {
		if q := &m.requests[i]; q.Measured() && q.Sent >= 0 {
			sent++
		}
	}
	_, most := c.CacheHits(sent, 1)
	return &most
}

package attempt

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// MayResetCache reports whether the prefix caches of a backend's servers may be
// emptied: always those of our own servers, and those of others, which are given,
// if the plan says that their owner permits it.
func MayResetCache(b backends.Backend, given bool) bool {
	if !given {
		return true
	}
	g, ok := b.(backends.Guest)
	return ok && g.MayResetCache()
}

// reset empties the engine's prefix cache, if that is possible and permitted. It
// notes whether the trial begins with a cache that may hold earlier prompts.
func (a *Attempt) reset(ctx context.Context) error {
	a.uncleared = a.subject.used || a.subject.Server.Foreign
	a.subject.used = true // by what follows
	path := a.subject.Profile.API.CacheReset
	if path == "" || !MayResetCache(a.config.Backend, a.config.Given) {
		return nil
	}
	err := a.resetCaches(ctx, path)
	switch {
	case err == nil:
		a.uncleared = false
		return nil
	case isNotFound(err) && !a.config.Given:
		return nil // it was started without the call
	}
	_, slow := errors.AsType[serving.Limit](context.Cause(ctx))
	if ctx.Err() != nil && !slow {
		return err // the trial is over
	}
	a.sink.Note(result.Finding{Code: finding.CacheNotReset, Text: fmt.Sprintf("the engine's prefix cache was not emptied: %v", err)})
	return nil
}

// resetCaches empties the prefix cache of every replica that runs the model.
func (a *Attempt) resetCaches(ctx context.Context, path string) error {
	var errs []error
	for _, role := range a.subject.Server.Roles {
		if !a.subject.Profile.Role(role.Name).Computes() {
			continue
		}
		for n := range role.Replicas {
			errs = append(errs, a.resetReplica(ctx, a.subject.Server.Host(role.Name, n), path))
		}
	}
	return errors.Join(errs...)
}

func (a *Attempt) resetReplica(ctx context.Context, h host.Host, path string) error {
	api := ask.New(h, a.subject.Server.Authorize, a.config.Mask, a.subject.Asked)
	defer api.Close()
	_, err := api.Post(ctx, path, nil)
	return err
}

// isNotFound reports whether every server that answered did so with 404.
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

// mayKnow reports whether an earlier run may have left the prompts of this trial in
// the server's prefix cache: it sends given prompts without a marker of its own to
// a server that was up before the run and that was not emptied.
func (a *Attempt) mayKnow() bool {
	p := a.trial.Cell.Load.Prompts
	return a.uncleared && a.subject.Server.Foreign && p.Kind != plan.PromptsSynthetic && !p.CacheBust
}

// shared returns the largest share of the prompts' tokens that a prefix cache can
// know because of what the load itself shares. Nil if the plan lets prompts be
// asked again: of these a cache may know all from the trial before.
func (a *Attempt) shared() *float64 {
	c := a.load()
	if len(c.Prompts.Entries) > 0 && c.Prompts.Reuse && !c.Prompts.CacheBust {
		return nil
	}
	sent := 0
	for i := range a.requests {
		if q := &a.requests[i]; q.Measured() && q.Sent >= 0 {
			sent++
		}
	}
	_, most := c.CacheHits(sent, 1)
	return &most
}

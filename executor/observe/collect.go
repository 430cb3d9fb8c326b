// Package observe runs the collectors of a run beside one load. A failure of a
// collector harms neither the trial nor the other collectors.
package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
)

// How long a collector may take for its first and its last look. One that
// takes longer loses its own columns, never the trial.
const (
	baselineTimeout = 10 * time.Second
	lastLookTimeout = 10 * time.Second
)

// A Named collector keeps its kind for messages.
type Named struct {
	Kind      string
	Collector collectors.Collector
}

// A Config is what is observed, by whom.
type Config struct {
	Collectors []Named
	Server     *serving.Server
	Profile    *engine.Profile
	Backend    backends.Backend
	Given      bool            // the servers are not ours: nothing may change them
	Columns    []result.Column // of a row: what is none of them is refused
	Anchor     result.Anchor
	Asked      func() // called for each request to the servers, by several goroutines
	Sink       *Sink
	Bounds     bounds.Bounds // see [collectors.Trial]
	Clients    []int         // ids of the processes that send the load
}

// safely turns a panic of a collector into an error: it must not harm the
// trial, and still less the teardown.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

// Start starts all collectors and returns after their first looks, which take 10 s
// at most; the end of ctx cuts those short. The returned function takes the last
// looks, which take as long, and returns the columns. It must be called.
func Start(ctx context.Context, c Config) func(context.Context) result.Row {
	begun := make(chan struct{})
	watched := collectors.Trial{
		Targets: c.targets(), Profile: c.Profile, Anchor: c.Anchor, Loaded: begun,
		Authorize: c.Server.Authorize, Clients: c.Clients,
		Given: c.Given, Asked: c.Asked, Bounds: c.Bounds,
	}

	type started struct {
		kind    string
		session collectors.Session
	}
	var (
		mu       sync.Mutex
		sessions []started
		wg       sync.WaitGroup
	)
	// The sessions' context lives until their last look: the end of the load
	// must not cut them off before it.
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	for _, n := range c.Collectors {
		wg.Go(func() {
			// Each has a context of its own: one that hangs must not take
			// the others with it.
			live, cut := context.WithCancelCause(live)
			bound, cancel := serving.WithLimit(ctx, "the first look", baselineTimeout)
			defer cancel()
			defer context.AfterFunc(bound, func() { cut(context.Cause(bound)) })()
			var s collectors.Session
			err := safely(func() (err error) {
				s, err = n.Collector.Start(live, watched, c.Sink)
				return err
			})
			if err != nil {
				cut(err)
				c.Sink.Note(result.Finding{Code: finding.Collector(n.Kind), Text: fmt.Sprintf("%s collected nothing: %v", n.Kind, err)})
				return
			}
			mu.Lock()
			defer mu.Unlock()
			sessions = append(sessions, started{n.Kind, s})
		})
	}
	wg.Wait()
	close(begun)

	return func(ctx context.Context) result.Row {
		defer stop()
		ctx, cancel := serving.WithLimit(ctx, "the last look", lastLookTimeout)
		defer cancel()
		row := result.Row{}
		for _, s := range sessions {
			wg.Go(func() {
				var r result.Row
				err := safely(func() (err error) {
					r, err = s.session.Finish(ctx)
					if garbage := c.conforms(r); garbage != nil {
						r, err = nil, errors.Join(err, garbage)
					}
					return err
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					c.Sink.Note(result.Finding{Code: finding.Collector(s.kind), Text: fmt.Sprintf("%s collected only a part: %v", s.kind, err)})
				}
				maps.Copy(row, r)
			})
		}
		wg.Wait()
		c.Sink.close()
		return row
	}
}

// conforms says what in a collector's row is no column, or no value of one: that
// must be seen before it can spoil the trial's whole row.
func (c *Config) conforms(r result.Row) error {
	given := slices.DeleteFunc(slices.Clone(c.Columns), func(c result.Column) bool {
		_, ok := r[c.Name]
		return !ok
	})
	_, err := r.Conform(given)
	return err
}

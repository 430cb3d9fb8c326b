package runpod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/internal/effect"
)

// agentPause is between two questions to an agent that does not answer.
const agentPause = 300 * time.Millisecond

// StartReplica implements [provision.Stager].
func (r *remote) StartReplica(ctx context.Context, n int) error {
	if !r.several() {
		return nil // the bootstrap has
	}
	for {
		err := r.b.Effects.Call(ctx, effect.AgentStart, func(ctx context.Context) error { return r.agent.Start(ctx, n) })
		if err == nil || errors.Is(err, bootstrap.ErrOver) {
			return err
		}
		if cut := runpodapi.Sleep(ctx, agentPause); cut != nil {
			return fmt.Errorf("the agent in pod %s does not start it: %w", r.id, errors.Join(cut, err))
		}
	}
}

// readReplica writes what one of several replicas says to w and returns how it has
// ended; nil when ctx ends.
func (r *remote) readReplica(ctx context.Context, n int, w io.Writer) error {
	to := &counting{w: w, first: func() { r.hosts[n].first.Do(func() { close(r.hosts[n].logged) }) }}
	for runpodapi.Sleep(ctx, agentPause) == nil {
		if r.copyReplica(ctx, n, to) {
			if s, err := r.agent.Status(ctx); err == nil && s.Exits[n] != nil {
				return r.exit(n, *s.Exits[n])
			}
		}
	}
	return nil
}

// copyReplica copies from where to is until the replica has ended, which it
// returns, or the talk with the agent has.
func (r *remote) copyReplica(ctx context.Context, n int, to *counting) (ended bool) {
	log, err := r.agent.LogOf(ctx, n, to.have)
	if err != nil {
		return false
	}
	defer log.Close()
	_, err = io.Copy(to, log)
	return err == nil
}

// A counting writer knows how much has come, and says when the first has.
type counting struct {
	w     io.Writer
	have  int64
	first func()
}

func (c *counting) Write(p []byte) (int, error) {
	c.first()
	n, err := c.w.Write(p)
	c.have += int64(n)
	return n, err
}

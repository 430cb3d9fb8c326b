package runpod

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/runpodapi"
)

// Stop deletes the pod at once and returns when it is seen to be gone. Where it
// fails it may be called again.
func (d *deployment) Stop(ctx context.Context) error {
	return d.StopWith(ctx, func() error {
		d.Ask()
		err := d.end(ctx) // first: the follower still gets the end of the log
		d.letGo()
		return err
	})
}

// end deletes the pod and returns when it is seen to be gone. Its name is watched
// for as long as other deployments live: a twin that shows up later is deleted.
func (d *deployment) end(ctx context.Context) error {
	d.mu.Lock()
	t := termination{ids: []string{d.ref.ID}, name: d.ref.Name, price: d.terms.USDPerHour, made: d.created, listed: d.listed}
	d.mu.Unlock()
	if err := d.b.end(ctx, t); err != nil {
		return err
	}
	d.b.retire(d.ref.Name, d.ref.ID)
	return nil
}

// Keep tells the pod to end itself at until and lets go of it. It needs the
// bootstrap's agent.
func (d *deployment) Keep(ctx context.Context, until time.Time) error {
	switch {
	case d.agent == nil:
		return fmt.Errorf("keep pod %s: there is no agent in it: %w", d.ref.ID, host.ErrNotSupported)
	case until.After(d.expires):
		return fmt.Errorf("keep pod %s: it ends itself at %s", d.ref.ID, d.expires.Format(time.RFC3339))
	}
	err := d.KeepWith(ctx, func() error {
		keep := func(ctx context.Context) error { return d.agent.Keep(ctx, until) }
		if err := d.b.fx.Call(ctx, effect.AgentEnd, keep); err != nil {
			return err
		}
		d.Ask()
		d.letGo()
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep pod %s: %w", d.ref.ID, err)
	}
	return nil
}

// letGo ends what start has started.
func (d *deployment) letGo() {
	d.stop()
	d.running.Wait()
}

// Adopt takes over a pod that was kept, with the secrets that are in its own
// environment.
func (b *Backend) Adopt(ctx context.Context, spec backends.Spec, ref backends.Ref) (backends.Deployment, error) {
	if err := errors.Join(b.Check(spec), b.mine(ref)); err != nil {
		return nil, err
	}
	seen, err := b.account.After(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	p, ok := seen.Find(ref.ID)
	if !ok || p.Status != runpodapi.StatusRunning {
		return nil, fmt.Errorf("%w: pod %s does not run any more", backends.ErrNotFound, ref.ID)
	}
	marks, ok := b.listed(p)
	if !ok || marks.Owner != spec.Owner || p.Env[backends.MarkDigest] != spec.Digest {
		return nil, fmt.Errorf("%w: pod %s is not the one that was kept", backends.ErrNotFound, ref.ID)
	}
	role := spec.Roles[0]
	d := b.deployment(spec, p, p.Cost, networkOf(p, portOf(role)), keysOf(p, role))
	d.ref.RunID, d.ref.Pod = ref.RunID, ref.Pod
	d.terms.Ref, d.terms.Since, d.expires = d.ref, p.Since(), marks.Expires
	if err := d.await(ctx); err != nil {
		return nil, err
	}
	if d.agent != nil {
		// From now on it is us who keep it alive.
		if err := d.agent.Keep(ctx, time.Time{}); err != nil {
			return nil, fmt.Errorf("adopt pod %s: %w", ref.ID, err)
		}
	}
	d.start()
	return d, nil
}

package docker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/ending"
)

// Adopt implements [backends.Adopter]: it takes over the running containers of
// a pod that an earlier run has kept. Their heartbeat begins again. The logs
// are copied from their start.
func (b *Backend) Adopt(ctx context.Context, spec backends.Spec, ref backends.Ref) (_ backends.Deployment, err error) {
	if err := b.mine(ref); err != nil {
		return nil, err
	}
	ids, _, err := b.pod(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("pod %s: %w", ref.Pod, backends.ErrNotFound)
	}
	d := &deployment{b: b, spec: spec, terms: backends.Terms{Ref: ref}, Ending: ending.New()}
	defer func() {
		if err != nil {
			d.letGo()
		}
	}()
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			if err := b.adoptOne(ctx, d, ids, role, n); err != nil {
				return nil, fmt.Errorf("pod %s: %s %d: %w", ref.Pod, role.Name, n, err)
			}
		}
	}
	return d, nil
}

func (b *Backend) adoptOne(ctx context.Context, d *deployment, ids []string, role backends.Role, n int) error {
	for _, id := range ids {
		c, err := b.inspect(ctx, id)
		if err != nil {
			return err
		}
		labels := c.Config.Labels
		if labels[labelRole] != role.Name || labels[labelReplica] != strconv.Itoa(n) {
			continue
		}
		switch {
		case c.State == nil || !c.State.Running:
			return fmt.Errorf("its container does not run: %w", backends.ErrNotFound)
		case labels[labelDigest] != d.spec.Digest:
			return fmt.Errorf("its server is another one (%s, not %s): %w", labels[labelDigest], d.spec.Digest, backends.ErrNotFound)
		}
		if len(d.replicas) == 0 {
			d.terms.Since, _ = time.Parse(time.RFC3339Nano, c.Created)
			img, err := b.inspectImage(ctx, c.Image)
			if err != nil {
				return err
			}
			// By the name that the plan has for it, where that is still the same.
			if named, err := b.inspectImage(ctx, imageOf(d.spec, role)); err == nil && named.id == img.id {
				img = named
			}
			d.terms.ImageDigest = img.digest
		}
		return d.watch(ctx, id, role, n)
	}
	return fmt.Errorf("it has no such container: %w", backends.ErrNotFound)
}

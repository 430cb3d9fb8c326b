package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

// halt stops a container with a grace, but not beyond ctx: a container that is
// removed by force needs no more of it.
func (b *Backend) halt(ctx context.Context, id string, grace time.Duration) error {
	// The bootstrap inside gives the engine this grace and then kills it.
	seconds := int((grace+2*time.Second)/time.Second) + 1
	if end, ok := ctx.Deadline(); ok {
		left := int(time.Until(end)/time.Second) - 3
		seconds = max(0, min(seconds, left))
	}
	err := b.call(ctx, effect.DockerStop, func(ctx context.Context) error {
		_, err := b.api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
	if cerrdefs.IsNotFound(err) || cerrdefs.IsNotModified(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	return nil
}

// remove removes a container and its anonymous volumes, and returns when the
// daemon knows it no more: by its id, and in two successive lists. It tries as
// long as ctx lasts.
func (b *Backend) remove(ctx context.Context, id string) error {
	var last error
	for absent := 0; ; {
		err := b.call(ctx, effect.DockerRemove, func(ctx context.Context) error {
			_, err := b.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		})
		// A conflict is a removal that is under way already.
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			last = err
		}
		if _, fault := errors.AsType[*effect.Fault](err); fault {
			return fmt.Errorf("remove %s: %w", id, err)
		}
		known, err := b.known(ctx, id)
		switch {
		case err != nil:
			absent, last = 0, err
		case known:
			absent = 0
		default:
			if absent++; absent == 2 {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove %s: not seen to be gone: %w", id, errors.Join(context.Cause(ctx), last))
		case <-time.After(lookEvery):
		}
	}
}

// known asks for a container by its id and in the list of all.
func (b *Backend) known(ctx context.Context, id string) (bool, error) {
	if _, err := b.inspect(ctx, id); err == nil || !cerrdefs.IsNotFound(err) {
		return err == nil, err
	}
	all, err := b.containers(ctx, labelOwner)
	return slices.ContainsFunc(all, func(c container.Summary) bool { return c.ID == id }), err
}

// Pause stops the containers of a pod and keeps their disks.
func (b *Backend) Pause(ctx context.Context, ref backends.Ref) error {
	return b.eachOf(ctx, ref, func(i provision.Instance) error { return b.halt(ctx, i.ID, i.Grace) })
}

// Resume starts them again. They keep the published ports and the expiry time of their
// creation; their addresses may change.
func (b *Backend) Resume(ctx context.Context, ref backends.Ref) error {
	return b.eachOf(ctx, ref, func(i provision.Instance) error { return containers{b}.Start(ctx, i) })
}

func (b *Backend) eachOf(ctx context.Context, ref backends.Ref, f func(provision.Instance) error) error {
	if ref.Details[detailInside] != "" {
		return fmt.Errorf("pod %s is a process in a container that sweep did not make: it cannot be paused", ref.Pod)
	}
	all, err := b.Instances(ctx, ref)
	if err == nil && len(all) == 0 {
		err = backends.ErrNotFound
	}
	if err == nil {
		err = provision.Each(all, f)
	}
	if err != nil {
		return fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	return nil
}

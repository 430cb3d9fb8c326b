package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

// sharedDir is where containers of one deployment find the volume that they
// share.
const sharedDir = "/tmp/.sweep-shared"

// sharedOptions make a volume of memory that every user can write to: images run
// as different ones. It is for configuration, and for roles that find each other
// by files.
// https://docs.docker.com/reference/cli/docker/volume/create/#driver-specific-options
var sharedOptions = map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "mode=1777,size=64m"}

// bootstrapFiles returns where the files of a container that is alone are.
func bootstrapFiles(name string) string { return bootstrap.FilesDir(name) }

// Group makes the network and the volume of a deployment of several containers,
// both called by its name.
func (p containers) Group(ctx context.Context, pod string, units []*provision.Unit) error {
	plan, _ := units[0].Data.(*containerPlan)
	labels := map[string]string{labelName: pod}
	for mark, value := range units[0].Marks {
		labels[labelFor(mark)] = value
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	if plan.network == pod {
		err := p.b.call(call, effect.DockerGroup, func(ctx context.Context) error {
			_, err := p.b.api.NetworkCreate(ctx, pod, client.NetworkCreateOptions{Driver: "bridge", Labels: labels})
			return err
		})
		if err != nil {
			return fmt.Errorf("network %s: %w", pod, err)
		}
	}
	if plan.volume != "" {
		err := p.b.call(call, effect.DockerGroup, func(ctx context.Context) error {
			_, err := p.b.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: plan.volume, Driver: "local", DriverOpts: sharedOptions, Labels: labels})
			return err
		})
		if err != nil {
			return fmt.Errorf("volume %s: %w", pod, err)
		}
	}
	return nil
}

// Ungroup removes them, and returns when the daemon knows them no more.
func (p containers) Ungroup(ctx context.Context, pod string) error {
	network := p.b.ungroup(ctx, func(ctx context.Context) error {
		_, err := p.b.api.NetworkRemove(ctx, pod, client.NetworkRemoveOptions{})
		return err
	})
	volume := p.b.ungroup(ctx, func(ctx context.Context) error {
		_, err := p.b.api.VolumeRemove(ctx, pod, client.VolumeRemoveOptions{})
		return err
	})
	if err := errors.Join(network, volume); err != nil {
		return fmt.Errorf("what the containers of %s shared: %w", pod, err)
	}
	return nil
}

// ungroup removes one thing as long as ctx lasts: a container that has just gone
// can hold it for a moment.
func (b *Backend) ungroup(ctx context.Context, remove func(context.Context) error) error {
	for {
		err := b.call(ctx, effect.DockerUngroup, remove)
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		if _, fault := errors.AsType[*effect.Fault](err); fault {
			return err
		}
		// Once more after a success: gone is what is seen to be gone.
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(lookEvery / 10):
		}
	}
}

package docker

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/effect"
)

// claimGPUs chooses GPUs that no container of sweep has, and holds them until
// [Backend.unclaim]. Docker itself does not look who uses a GPU: a request for
// one gets the first, whether it is free or not.
//
// Containers of other runs are known by their labels. Two runs that choose in
// the same second can choose the same: they are better given different lists.
func (b *Backend) claimGPUs(ctx context.Context, n int) (ids []string, err error) {
	if n == 0 || len(b.config.GPUs) == 0 {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	busy, err := b.busyGPUs(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range b.config.GPUs {
		if len(ids) < n && !busy[id] && !b.claims[id] {
			ids = append(ids, id)
		}
	}
	if len(ids) < n {
		return nil, fmt.Errorf("%w: %d of the %d GPUs in gpus are free, and the server needs %d",
			backends.ErrCapacity, len(ids), len(b.config.GPUs), n)
	}
	for _, id := range ids {
		b.claims[id] = true
	}
	return ids, nil
}

func (b *Backend) unclaim(ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		delete(b.claims, id)
	}
}

// busyGPUs returns those of containers that run or are about to.
func (b *Backend) busyGPUs(ctx context.Context) (map[string]bool, error) {
	busy := map[string]bool{}
	err := b.call(ctx, effect.DockerRead, func(ctx context.Context) error {
		list, err := b.api.ContainerList(ctx, client.ContainerListOptions{
			All: true, Filters: client.Filters{}.Add("label", labelGPUs).Add("status", "created", "running", "paused", "restarting"),
		})
		if err != nil {
			return fmt.Errorf("list containers: %w", err)
		}
		for _, c := range list.Items {
			for id := range strings.SplitSeq(c.Labels[labelGPUs], ",") {
				busy[id] = true
			}
		}
		return nil
	})
	return busy, err
}

// checkGPUs refuses a spec whose rows would speak of a GPU that the engine
// never saw: an engine without one goes on with the CPU, and says so only in
// its log.
func (c Config) checkGPUs(spec backends.Spec) error {
	known, ok := catalog.GPUByName(spec.GPU)
	switch {
	case len(c.GPUs) == 0 && ok:
		return fmt.Errorf("%w: gpu %s, but backend.gpus is empty: list the GPUs that containers may use (nvidia-smi -L), "+
			"or call the axis by a label of your own, such as cpu", backends.ErrSpec, known.Name)
	case len(c.GPUs) > 0 && spec.GPUs > len(c.GPUs):
		return fmt.Errorf("%w: the deployment needs %d GPUs, and backend.gpus lists %d", backends.ErrSpec, spec.GPUs, len(c.GPUs))
	}
	return nil
}

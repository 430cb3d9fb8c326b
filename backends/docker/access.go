package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
)

// Access implements [backends.Accessor] from what the daemon says of the pod's
// containers: their environment and their addresses of this moment.
func (b *Backend) Access(ctx context.Context, ref backends.Ref) ([]backends.Access, error) {
	if ref.Details[detailInside] != "" {
		// It is never kept: it ends with its run.
		return nil, fmt.Errorf("pod %s is a process in a container that sweep did not make: %w", ref.Pod, host.ErrNotSupported)
	}
	found, err := b.Instances(ctx, ref)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("it has no container: %w", backends.ErrNotFound)
	}
	var all []backends.Access
	for _, i := range found {
		if err != nil {
			break
		}
		var a backends.Access
		if a, err = b.accessTo(ctx, i.ID); err == nil {
			all = append(all, a)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", cmp.Or(ref.Pod, ref.Name), err)
	}
	slices.SortFunc(all, backends.ByReplica)
	return all, nil
}

// accessTo returns how the engine in one container is reached.
func (b *Backend) accessTo(ctx context.Context, id string) (backends.Access, error) {
	c, err := b.inspect(ctx, id)
	if err != nil {
		return backends.Access{}, err
	}
	env := environOf(c)
	a, err := backends.AccessOf(func(name string) string { return env[name] }, "the container's environment")
	if err != nil {
		return a, err
	}
	network := reachOf(c)
	path, words := host.Direct, "the container's own address, on a bridge of this machine"
	if !network.ip.IsValid() {
		path, words = host.Proxy, "a port of this machine's loopback, behind which a process of Docker copies"
	}
	switch {
	case c.State == nil || !c.State.Running:
		a.Nowhere("its container is stopped: sweep pods start starts it")
	default:
		a.At(path, words, func(port int) string {
			if at := network.port(port); at != "" {
				return "http://" + at
			}
			return ""
		})
	}
	return a, nil
}

// environOf returns the environment of a container.
func environOf(c container.InspectResponse) map[string]string {
	env := map[string]string{}
	if c.Config == nil {
		return env
	}
	for _, v := range c.Config.Env {
		if name, value, ok := strings.Cut(v, "="); ok {
			env[name] = value
		}
	}
	return env
}

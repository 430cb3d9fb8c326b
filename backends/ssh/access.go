package ssh

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
)

// Access implements [backends.Accessor] from the environment of the pod's
// processes on the host, which also has their key.
func (b *Backend) Access(ctx context.Context, ref backends.Ref) ([]backends.Access, error) {
	if err := b.Mine(ref); err != nil {
		return nil, err
	}
	p := b.unitsOf(ref)
	release, err := p.Hold(ctx, ref.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	found, err := b.over(p).Instances(ctx, ref)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(i provision.Instance) bool { return !i.Running })
	if len(found) == 0 {
		return nil, fmt.Errorf("pod %s runs no more: %w", ref.Name, backends.ErrNotFound)
	}
	var all []backends.Access
	for _, i := range found {
		a, err := p.accessTo(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", ref.Name, err)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, backends.ByReplica)
	return all, nil
}

// accessTo returns how one unit is reached.
func (p units) accessTo(ctx context.Context, i provision.Instance) (backends.Access, error) {
	environs, err := p.Inspect(ctx, i)
	if err != nil {
		return backends.Access{}, err
	}
	a, err := backends.AccessOf(func(name string) string { return environs[0][name] }, "the environment of its process on the host")
	if err == nil {
		p.b.reach(&a)
	}
	return a, err
}

// reach adds the addresses of a server on the host. One that listens on the host's
// loopback needs a tunnel, which has the same ports on this machine.
func (b *Backend) reach(a *backends.Access) {
	direct := a.Host != loopback
	url := func(port int) string { return b.urlOf(port, direct) }
	if direct {
		a.At(host.Direct, "the host's own address, without TLS: prompts, answers and the key are in clear text", url)
		return
	}
	a.At(host.Tunnel, "an SSH tunnel, which has to be open meanwhile", url)
	a.Tunnel = []string{"ssh", "-N"}
	ports := []int{a.Port}
	if len(a.MetricsPaths) > 0 && a.MetricsPort != a.Port {
		ports = append(ports, a.MetricsPort)
	}
	for _, port := range ports {
		a.Tunnel = append(a.Tunnel, "-L", fmt.Sprintf("%d:%s:%d", port, loopback, port))
	}
	if b.c.Port != Defaults().Port {
		a.Tunnel = append(a.Tunnel, "-p", strconv.Itoa(b.c.Port))
	}
	if b.c.Key != "" {
		a.Tunnel = append(a.Tunnel, "-i", b.c.Key)
	}
	if usual, err := expand(Defaults().KnownHosts); err != nil || b.c.KnownHosts != usual {
		a.Tunnel = append(a.Tunnel, "-o", b.c.knownHostsOption())
	}
	a.Tunnel = append(a.Tunnel, b.c.User+"@"+b.c.Host)
}

package ssh

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
)

// Access implements [backends.Accessor] from the environment of the pod's
// processes on the host, which also has their key.
func (b *Backend) Access(ctx context.Context, ref backends.Ref) ([]backends.Access, error) {
	name, err := b.podName(ref)
	if err != nil {
		return nil, err
	}
	l, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.close()
	workdir := b.workdirOf(ref)
	s, err := l.look(ctx, workdir, name)
	if err != nil {
		return nil, err
	}
	pod := s.pod(name)
	if pod == nil || len(s.live[name]) == 0 {
		return nil, fmt.Errorf("pod %s runs no more: %w", name, backends.ErrNotFound)
	}
	var all []backends.Access
	for _, n := range slices.Sorted(maps.Keys(pod.processes)) {
		env, err := l.environ(ctx, workdir, name, n)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", name, err)
		}
		a, err := backends.AccessOf(func(name string) string { return env[name] }, "the environment of its process on the host")
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", name, err)
		}
		b.reach(&a)
		all = append(all, a)
	}
	return all, nil
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
		a.Tunnel = append(a.Tunnel, "-o", "UserKnownHostsFile="+b.c.KnownHosts)
	}
	a.Tunnel = append(a.Tunnel, b.c.User+"@"+b.c.Host)
}

// podName is the name of the pod that a ref is of, if it is on this host.
func (b *Backend) podName(ref backends.Ref) (string, error) {
	if ref.Kind != Kind {
		return "", fmt.Errorf("pod %s is of backend %s, not %s: %w", ref.Pod, ref.Kind, Kind, backends.ErrNotFound)
	}
	for _, detail := range []string{"host", "port", "user"} {
		if want, ours := ref.Details[detail], b.at()[detail]; want != "" && want != ours {
			return "", fmt.Errorf("pod %s is on another host: its %s is %s, not %s: %w", ref.Pod, detail, want, ours, backends.ErrNotFound)
		}
	}
	name := ref.Name
	if name == "" {
		name, _, _ = strings.Cut(ref.ID, "@")
	}
	if _, ok := backends.ParseName(name); !ok {
		return "", fmt.Errorf("ref %q does not name a pod: %w", ref.ID, backends.ErrNotFound)
	}
	return name, nil
}

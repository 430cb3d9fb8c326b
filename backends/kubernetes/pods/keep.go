package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/kubeapi"
)

var (
	_ provision.Inspector = provider{}
	_ provision.Resumer   = provider{}
	_ backends.Accessor   = (*Backend)(nil)
)

// keep has the cluster end the deployment at a time: its Job gets that deadline, and no
// heartbeat moves it any more. The load pods end at once.
func (l *launch) keep(ctx context.Context, until time.Time) error {
	l.quiet()
	l.mu.Lock()
	fleet := l.fleet
	l.mu.Unlock()
	if fleet != nil {
		if err := fleet.Close(ctx); err != nil {
			return err
		}
	}
	n, err := l.b.owners()
	if err != nil {
		return err
	}
	return signs.Denied(n.Insist(ctx, l.owner, time.Until(until)))
}

// Inspect implements [provision.Inspector]. A server in a pod has no key of sweep's, and
// its environment is in a Secret, which sweep does not read.
func (p provider) Inspect(ctx context.Context, i provision.Instance) ([]map[string]string, error) {
	at, err := p.look(ctx, i.Unit)
	switch {
	case kubeapi.NotFound(err) || err == nil && at.Meta.UID != i.ID:
		return nil, fmt.Errorf("pod %s: %w", i.Unit, backends.ErrNotFound)
	case err != nil:
		return nil, signs.Denied(err)
	}
	return []map[string]string{{backends.MarkServer: at.Meta.Annotations[annotationServer]}}, nil
}

// Resume implements [provision.Resumer].
func (p provider) Resume(ctx context.Context, pod backends.Name, units []*provision.Unit) (provision.Allocation, error) {
	n, err := p.b.owners()
	if err != nil {
		return provision.Allocation{}, err
	}
	o, err := n.Find(ctx, pod.String())
	if err != nil {
		return provision.Allocation{}, signs.Denied(err)
	}
	l := p.b.launch(pod, units[0].Spec, units)
	for _, u := range units {
		at := &u.Replicas[0].Place
		at.Bind, at.Host = provision.Everywhere, l.host(u.Replicas[0])
	}
	if o.Over() {
		return provision.Allocation{}, fmt.Errorf("job %s is %s: %w", pod, o.Status, backends.ErrNotFound)
	}
	l.owner = o
	begin := func(ctx context.Context) error {
		err := n.TakeOver(ctx, o, p.b.place.Heartbeat)
		if errors.Is(err, owner.ErrLost) {
			return fmt.Errorf("%w: %w", backends.ErrNotFound, err)
		}
		if err != nil {
			return signs.Denied(err)
		}
		l.begin(ctx, n)
		return nil
	}
	return provision.Allocation{Clients: l, Keep: l.keep, Begin: begin, Close: l.close}, nil
}

// Access implements [backends.Accessor] from what the cluster says of the pods. Whether
// their addresses can be reached from here, a connection shows.
func (b *Backend) Access(ctx context.Context, ref backends.Ref) ([]backends.Access, error) {
	found, err := b.Instances(ctx, ref)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("it has no pod: %w", backends.ErrNotFound)
	}
	var all []backends.Access
	for _, i := range found {
		if err != nil {
			break
		}
		var a backends.Access
		if a, err = b.accessTo(ctx, i); err == nil {
			all = append(all, a)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", cmp.Or(ref.Pod, ref.Name), err)
	}
	slices.SortFunc(all, backends.ByReplica)
	return all, nil
}

// accessTo returns how the server in one pod is reached.
func (b *Backend) accessTo(ctx context.Context, i provision.Instance) (backends.Access, error) {
	at, err := provider{b}.look(ctx, i.Unit)
	if kubeapi.NotFound(err) {
		return backends.Access{}, fmt.Errorf("it has no pod %s: %w", i.Unit, backends.ErrNotFound)
	}
	if err != nil {
		return backends.Access{}, signs.Denied(err)
	}
	a, err := backends.AccessOf(func(name string) string {
		if name == backends.MarkServer {
			return at.Meta.Annotations[annotationServer]
		}
		return ""
	}, "its Secret")
	if err != nil {
		return a, err
	}
	if a.KeyEnv != "" {
		a.Why[backends.AccessKey] = "its environment is in a Secret of the deployment, which sweep does not read"
	}
	if at.Status.Phase != "Running" || at.Status.IP == "" {
		a.Nowhere("its pod is " + at.Status.Phase)
		return a, nil
	}
	direct := net.JoinHostPort(at.Status.IP, strconv.Itoa(a.Port))
	if b.refuses(ctx, direct) == "" {
		a.At(host.Direct, "the pod's own address, in the cluster's network", func(port int) string {
			return "http://" + net.JoinHostPort(at.Status.IP, strconv.Itoa(port))
		})
		return a, nil
	}
	a.Tunnel = []string{"kubectl", "port-forward", "--namespace", b.place.Namespace, "pod/" + i.Unit}
	for _, port := range slices.Compact(slices.Sorted(slices.Values([]int{a.Port, cmp.Or(a.MetricsPort, a.Port)}))) {
		a.Tunnel = append(a.Tunnel, strconv.Itoa(port))
	}
	for _, option := range [][2]string{{"--context", b.place.Cluster.Context}, {"--kubeconfig", b.place.Cluster.Kubeconfig}} {
		if option[1] != "" {
			a.Tunnel = append(a.Tunnel, option[0], option[1])
		}
	}
	a.At(host.Tunnel, "a port of this machine, carried to the pod by the API server", func(port int) string {
		return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	})
	return a, nil
}

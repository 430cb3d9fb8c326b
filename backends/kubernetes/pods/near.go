package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/result"
)

var _ backends.ClientHost = (*launch)(nil)

// entryOf returns the role that requests go to.
func entryOf(spec backends.Spec) string { return cmp.Or(spec.Entry, spec.Roles[0].Name) }

// unreached says why this process cannot reach a server that requests go to, "" if it can
// reach all. Their pods run by then.
func (l *launch) unreached() string {
	for _, r := range l.entries {
		if h := r.server(); h != nil && h.why != "" {
			return h.direct + " cannot be reached from here (" + h.why + ")"
		}
	}
	return ""
}

// near makes the load pods that the plan wants, and one if the servers cannot be reached
// from here. The owner of the launch has them, and the ledger of pods has the owner.
func (l *launch) near(ctx context.Context) error {
	why := l.unreached()
	want := l.want
	switch {
	case want.N == 0 && why == "":
		return nil
	case want.N == 0 && want.Processes:
		return fmt.Errorf("%w: %s, and the clients of load.clients are processes of this machine: leave kind: process out, or %s", backends.ErrSpec, why, elsewhere)
	}
	want.N, want.Namespace = max(1, want.N), l.b.place.Namespace
	api, err := l.b.api()
	if err != nil {
		return err
	}
	fleet := clients.New(clients.Config{API: api, Effects: l.b.fx, Name: l.id, Engine: l.engine, Want: want, Owner: l.owner})
	l.mu.Lock()
	l.fleet, l.remote = fleet, why != ""
	l.mu.Unlock()
	if err = fleet.Own(ctx); err == nil {
		_, err = fleet.Clients(ctx, want.N)
	}
	if _, refused := errors.AsType[*kubeapi.Denied](err); refused {
		err = fmt.Errorf("%w: %w: ask for the Role that sweep probe --kube %s --print-deploy-role prints", backends.ErrRefused, err, l.b.place.Namespace)
	}
	if err != nil && why != "" {
		return fmt.Errorf("%s; a load pod would reach it, but: %w; or %s", why, err, elsewhere)
	}
	return err
}

const elsewhere = "run sweep in the cluster"

// Remote implements [backends.ClientHost].
func (l *launch) Remote() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remote
}

// Clients implements [backends.ClientHost]. The servers listen by then: a client that
// cannot connect to them never will.
func (l *launch) Clients(ctx context.Context, n int) ([]backends.Client, error) {
	l.mu.Lock()
	fleet := l.fleet
	l.mu.Unlock()
	if fleet == nil {
		return nil, errors.New("load.clients: this launch has no load pods")
	}
	list, err := fleet.Clients(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, r := range l.entries {
		h := r.server()
		if h == nil {
			continue
		}
		c := list[0]
		conn, err := worker.Dial(ctx, worker.Address{URL: c.URL, Token: c.Token, Dial: c.Dial}, h.direct)
		if err != nil {
			err = fmt.Errorf("a load pod in namespace %s does not reach pod %s at %s: %w: look at the network policies of the namespace", l.b.place.Namespace, h.pod, h.direct, err)
			return nil, &backends.Failure{Class: result.ErrConnect, Err: err}
		}
		conn.Close()
		break // requests go to the first
	}
	return list, nil
}

// letGo ends what this process does for the load pods.
func (l *launch) letGo() {
	l.mu.Lock()
	fleet := l.fleet
	l.mu.Unlock()
	if fleet != nil {
		fleet.LetGo()
	}
}

// path returns how requests get to a pod that is reached or not.
func (l *launch) path(reached bool) host.Path {
	if reached || l != nil && l.Remote() {
		return host.Direct // load pods send them
	}
	return host.Tunnel
}

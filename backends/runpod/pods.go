package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/provision"
	"sweep.dev/sweep/internal/runpodapi"
)

// pods is the [provision.Provider] of an account: a unit is a pod.
type pods struct {
	b    *Backend
	rent *rent         // what a launch makes; nil for what runs already
	age  time.Duration // that a list may have from which pods are found
}

var (
	_ provision.Provider  = pods{}
	_ provision.Inspector = pods{}
	_ provision.Retirer   = pods{}
)

// A rent is how one pod is to be had.
type rent struct {
	offer   offer
	network string // networkTCP or networkProxy
}

// A lease is what this process knows of a pod's name that it has sent.
type lease struct {
	made   time.Time // when its create was sent
	listed time.Time // when a list first had the pod; zero: no list had it yet
	over   bool      // no pod may have the name any more: it was given up, or
	id     string    // its pod, which an old list may still have, is gone
}

// lease changes what is known of a name and returns it.
func (b *Backend) lease(name string, change func(*lease)) lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leases[name]
	if change != nil {
		change(&l)
		b.leases[name] = l
	}
	return l
}

// Retire implements [provision.Retirer]: [remote.discard] deletes what shows up.
func (p pods) Retire(unit string) { p.b.lease(unit, func(l *lease) { l.over, l.id = true, "" }) }

// Where engine and agent listen in the container.
const (
	enginePort = 8000
	agentPort  = 8765
)

// Allocate implements [provision.Provider].
func (p pods) Allocate(_ context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	u := &provision.Unit{Data: p.rent}
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			u.Replicas = append(u.Replicas, &provision.Replica{Role: role, Place: p.b.place(role, n, pod)})
		}
	}
	return provision.Allocation{
		Units: []*provision.Unit{u}, USDPerHour: p.rent.offer.price, StorageUSDPerHour: p.b.diskPrice(),
	}, nil
}

// place chooses the ports of a replica, which listens to everybody.
func (b *Backend) place(role backends.Role, n int, pod backends.Name) provision.Place {
	at := provision.Place{Address: backends.Address{
		Bind: "0.0.0.0", Host: "127.0.0.1", Port: cmp.Or(role.Port, enginePort), Replica: n,
	}}
	used := []int{at.Port}
	for _, port := range role.Ports {
		used = append(used, port)
	}
	next := func(port int) int {
		for slices.Contains(used, port) {
			port++
		}
		used = append(used, port)
		return port
	}
	if b.Bootstrap {
		at.Dir, at.Agent = bootstrap.FilesDir(pod.String()), next(agentPort)
	}
	for _, name := range slices.Sorted(maps.Keys(role.Ports)) {
		if at.Ports == nil {
			at.Ports = map[string]int{}
		}
		if at.Ports[name] = role.Ports[name]; at.Ports[name] == 0 {
			at.Ports[name] = next(agentPort)
		}
	}
	return at
}

// Create rents a pod, once: a request without a clear answer is never sent again.
func (p pods) Create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
	request, err := p.b.request(u, p.rent)
	if err != nil {
		return provision.Instance{}, err
	}
	p.b.lease(u.Name, func(l *lease) { l.made = time.Now() })
	made, err := p.b.client.Create(ctx, request, p.b.Patience)
	switch {
	case err == nil:
		i := instance(made)
		i.Since, i.USDPerHour = time.Now().UTC(), cmp.Or(made.Cost, p.rent.offer.price) // it may be unknown for a while
		return i, nil
	case runpodapi.Certain(err):
		return provision.Instance{}, err
	case ctx.Err() != nil:
		err = errors.Join(context.Cause(ctx), err)
	}
	return provision.Instance{}, fmt.Errorf("pod %s: %w: %w", u.Name, provision.ErrUnsure, err)
}

// instance is a pod as package provision knows it.
func instance(p runpodapi.Pod) provision.Instance {
	i := provision.Instance{
		ID: p.ID, Unit: p.Name, Marks: p.Env, Status: p.Status, Running: p.Status == runpodapi.StatusRunning,
		Since: p.Since(), USDPerHour: p.Cost, Data: p,
	}
	if p.GPU != nil {
		i.GPU = catalogName(p.GPU.ID)
	}
	return i
}

// Find finds living pods by their names, those that run first. Where one deployment
// is meant it is tried as long as ctx lasts.
func (p pods) Find(ctx context.Context, pod string) ([]provision.Instance, error) {
	for try := 0; ; try++ {
		seen, err := p.b.account.After(ctx, time.Now().Add(-p.age))
		if err == nil {
			return found(seen, pod), nil
		}
		if pod == "" || !runpodapi.Transient(err) || runpodapi.Sleep(ctx, runpodapi.Backoff(try)) != nil {
			return nil, err
		}
	}
}

func found(seen runpodapi.Listing, pod string) (all []provision.Instance) {
	for _, p := range seen.Pods {
		if _, ours := backends.ParseName(p.Name); ours && p.Alive() && (pod == "" || p.Name == pod) {
			all = append(all, instance(p))
		}
	}
	slices.SortStableFunc(all, func(a, b provision.Instance) int { return rank(a.Status) - rank(b.Status) })
	return all
}

func rank(status string) int {
	switch status {
	case runpodapi.StatusRunning:
		return 0
	case runpodapi.StatusExited, runpodapi.StatusError:
		return 2
	}
	return 1
}

// Inspect implements [provision.Inspector].
func (p pods) Inspect(_ context.Context, i provision.Instance) ([]map[string]string, error) {
	made, _ := i.Data.(runpodapi.Pod)
	return []map[string]string{made.Env}, nil
}

// Delete deletes a pod and returns when it is seen to be gone. Its name is watched
// for as long as other pods are attached: a twin that shows up later is deleted.
func (p pods) Delete(ctx context.Context, i provision.Instance, _ time.Duration, _ func(context.Context)) error {
	l := p.b.lease(i.Unit, nil)
	if err := p.b.end(ctx, termination{id: i.ID, name: i.Unit, price: i.USDPerHour, made: l.made, listed: l.listed}); err != nil {
		return err
	}
	p.b.lease(i.Unit, func(l *lease) { l.over, l.id = true, i.ID })
	return nil
}

package runpod

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/backends/runpodapi"
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
	_ provision.Refuser   = pods{}
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

// Where an engine and the agent listen in the container, and from where on further
// ports are.
const (
	enginePort  = 8000
	agentPort   = 8765
	furtherPort = 8800
)

// Allocate implements [provision.Provider]: all roles are in one pod.
func (p pods) Allocate(_ context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	return provision.Allocation{
		Units:      []*provision.Unit{{Data: p.rent, Replicas: p.b.divide(spec, pod)}},
		USDPerHour: p.rent.offer.price, StorageUSDPerHour: p.b.diskPrice(),
	}, nil
}

// divide gives the replicas of a pod their ports, which differ, and their GPUs, in
// the order of the roles. A port that the plan names is that of the first who asks
// for it; the next one's is the next that is free.
func (b *Backend) divide(spec backends.Spec, pod backends.Name) (all []*provision.Replica) {
	agent, gpu, gpus := 0, 0, 0
	used := map[int]bool{}
	next := func(port int) int {
		for used[port] {
			port++
		}
		used[port] = true
		return port
	}
	for _, role := range spec.Roles {
		gpus += role.Replicas * role.GPUs
		for n := range role.Replicas {
			all = append(all, &provision.Replica{Role: role, Place: provision.Place{Address: backends.Address{
				Bind: "0.0.0.0", Host: "127.0.0.1", Port: next(cmp.Or(role.Port, enginePort)), Replica: n,
			}}})
		}
	}
	for _, r := range all {
		for _, name := range slices.Sorted(maps.Keys(r.Role.Ports)) {
			if r.Place.Ports == nil {
				r.Place.Ports = map[string]int{}
			}
			r.Place.Ports[name] = next(cmp.Or(r.Role.Ports[name], furtherPort))
		}
		if b.Bootstrap {
			if agent == 0 {
				agent = next(agentPort)
			}
			r.Place.Agent, r.Place.Dir = agent, bootstrap.FilesDir(pod.String())
		}
		if len(all) == 1 {
			break // it has the pod to itself
		}
		r.Place.Dir += fmt.Sprintf("/%s.%d", r.Role.Name, r.Place.Replica)
		if gpus > 0 {
			var own []string
			for range r.Role.GPUs {
				own = append(own, strconv.Itoa(gpu))
				gpu++
			}
			r.Place.Env = map[string]string{"CUDA_VISIBLE_DEVICES": strings.Join(own, ",")}
		}
	}
	return all
}

// Refuse implements [provision.Refuser]: RunPod bounds a request.
func (p pods) Refuse(u *provision.Unit) error {
	_, err := p.b.request(u, cmp.Or(p.rent, &rent{network: networkTCP})) // of a check
	return err
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

// instance returns a pod as package provision knows it.
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
	return environs(made)
}

// environs returns the environments of a pod's replicas.
func environs(p runpodapi.Pod) ([]map[string]string, error) {
	text, several := p.Env[bootstrap.ReplicasVar]
	if !several {
		return []map[string]string{p.Env}, nil
	}
	var replicas []bootstrap.Replica
	if err := json.Unmarshal([]byte(text), &replicas); err != nil {
		return nil, fmt.Errorf("pod %s: %s gave an answer that sweep cannot read: %w", p.ID, bootstrap.ReplicasVar, err)
	}
	all := make([]map[string]string, len(replicas))
	for n, r := range replicas {
		all[n] = maps.Clone(p.Env)
		maps.Copy(all[n], r.Env)
	}
	return all, nil
}

// Delete deletes a pod and returns when it is seen to be gone. Its name is watched
// for as long as other pods are attached: a duplicate that shows up later is deleted.
func (p pods) Delete(ctx context.Context, i provision.Instance, _ time.Duration, _ func(context.Context)) error {
	l := p.b.lease(i.Unit, nil)
	if err := p.b.end(ctx, termination{id: i.ID, name: i.Unit, price: i.USDPerHour, made: l.made, listed: l.listed}); err != nil {
		return err
	}
	p.b.lease(i.Unit, func(l *lease) { l.over, l.id = true, i.ID })
	return nil
}

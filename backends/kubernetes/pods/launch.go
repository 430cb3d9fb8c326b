package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/provision"
)

// A provider is the [provision.Provider] of pods.
type provider struct{ b *Backend }

var (
	_ provision.Provider = provider{}
	_ provision.Grouper  = provider{}
)

// A launch is what the units of one deployment share.
type launch struct {
	b       *Backend
	name    string // of the deployment
	several bool   // units
	owner   *owner.Owner

	last    map[string]string    // the last unit of each role
	waiting map[string][]*remote // of a role whose last unit is not attached yet

	stop  context.CancelFunc // of the heartbeat; nil before it begins
	beats sync.WaitGroup
	lost  chan struct{} // closed when the cluster has ended the deployment
	why   error         // set before lost is closed
}

const (
	// defaultPort is the engine's port inside its pod, if it is free.
	defaultPort = 8000
	// nextPort is the first of a role's further ports.
	nextPort = 8011
)

// Allocate divides a deployment into pods, and makes nothing.
func (p provider) Allocate(_ context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	a := provision.Allocation{Units: provision.PerReplica(spec, pod)}
	l := &launch{b: p.b, name: pod.String(), several: len(a.Units) > 1, lost: make(chan struct{}), last: map[string]string{}, waiting: map[string][]*remote{}}
	for _, u := range a.Units {
		r := u.Replicas[0]
		l.last[r.Role.Name] = u.Name
		host := "127.0.0.1"
		if l.several {
			host = hostname(r.Role.Name, r.Place.Replica) + "." + l.name + "." + p.b.place.Namespace + ".svc"
		}
		r.Place = placeOf(r.Role, r.Place.Replica, host)
		r.Place.Dir = p.b.files + "/" + u.Name
		u.Data = l
	}
	a.Close = l.close
	return a, nil
}

// placeOf chooses the ports of a replica in its pod.
func placeOf(role backends.Role, n int, host string) provision.Place {
	at := provision.Place{Address: backends.Address{Bind: "0.0.0.0", Host: host, Port: role.Port, Replica: n}}
	if at.Port == 0 {
		at.Port = defaultPort
	}
	used := []int{at.Port}
	for _, port := range role.Ports {
		used = append(used, port)
	}
	for name, port := range role.Ports {
		if at.Ports == nil {
			at.Ports = map[string]int{}
		}
		for next := nextPort; port == 0; next++ {
			if !slices.Contains(used, next) {
				port = next
				used = append(used, next)
			}
		}
		at.Ports[name] = port
	}
	return at
}

// Group makes the owner of a deployment, and what its pods share and need before they
// are there. From then on a heartbeat keeps it alive.
func (p provider) Group(ctx context.Context, pod string, units []*provision.Unit) error {
	l, _ := units[0].Data.(*launch)
	n, err := p.b.owners()
	if err != nil {
		return err
	}
	u := units[0]
	l.owner, err = n.Create(ctx, owner.Request{
		Name: u.Pod, Marks: u.Marks, Engine: u.Spec.Engine, Image: imageOf(u.Spec, u.Replicas[0].Role), Lease: p.b.place.Heartbeat,
	})
	if errors.Is(err, owner.ErrTaken) {
		return fmt.Errorf("%w: %w", provision.ErrTaken, err)
	}
	if err != nil {
		return refusal("job "+pod, err)
	}
	l.begin(ctx, n)
	if l.several {
		if err := p.make(ctx, "services", l.service()); err != nil {
			return refusal("service "+pod, err)
		}
	}
	for _, u := range units {
		if secret := l.secret(u); secret != nil {
			if err := p.make(ctx, "secrets", secret); err != nil {
				return refusal("secret "+u.Name, err)
			}
		}
	}
	return nil
}

// make creates an object of which nobody needs more.
func (p provider) make(ctx context.Context, collection string, o map[string]any) error {
	return p.b.call(ctx, effect.KubeCreate, func(ctx context.Context, api *kubeapi.Client) error {
		return api.Create(ctx, p.b.path(collection, ""), o, nil)
	})
}

// attached notes a remote, and returns all of its role if it is the last of them. Units are
// attached one after the other.
func (l *launch) attached(r *remote) []*remote {
	role := r.unit.Replicas[0].Role.Name
	l.waiting[role] = append(l.waiting[role], r)
	if l.last[role] != r.unit.Name {
		return nil
	}
	all := l.waiting[role]
	delete(l.waiting, role)
	return all
}

// begin keeps the deployment alive until close.
func (l *launch) begin(ctx context.Context, n owner.Namespace) {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	lease := l.b.place.Heartbeat
	l.beats.Go(func() {
		bootstrap.Keepalive(life, min(lease/5, l.b.every.beat), func(ctx context.Context) error {
			return n.Extend(ctx, l.owner, lease)
		}, func(err error) {
			if errors.Is(err, owner.ErrLost) {
				l.why = &backends.Failure{Class: "ended", Hint: "somebody has deleted its Job, or no heartbeat got through for " + lease.String(), Err: err}
				close(l.lost)
				stop()
			}
		})
	})
}

// close lets go: the deployment lives for a lease from the last heartbeat on.
func (l *launch) close() {
	if l.stop != nil {
		l.stop()
		l.beats.Wait()
	}
}

// Ungroup deletes the owner with all that it has.
func (p provider) Ungroup(ctx context.Context, pod string) error {
	n, err := p.b.owners()
	if err != nil {
		return err
	}
	return denied(n.Delete(ctx, pod, ""))
}

// Create makes a pod, which starts it.
func (p provider) Create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
	l, _ := u.Data.(*launch)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	var made pod
	err := p.b.call(call, effect.KubeCreate, func(ctx context.Context, api *kubeapi.Client) error {
		return api.Create(ctx, p.b.path("pods", ""), l.pod(u), &made)
	})
	switch {
	case err == nil || made.Meta.UID != "": // made, and then a fault
		return provision.Instance{ID: made.Meta.UID, Since: made.Meta.Created}, err
	case kubeapi.Refused(err) && !kubeapi.Exists(err):
		return provision.Instance{}, refusal("pod "+u.Name, err)
	}
	return provision.Instance{}, fmt.Errorf("pod %s: %w: %w", u.Name, provision.ErrUnsure, err)
}

// answerPatience bounds a create, which must not be cut short by a context: its result
// would be unknown.
const answerPatience = time.Minute

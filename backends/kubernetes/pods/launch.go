package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
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
	id      backends.Name
	several bool // units
	owner   *owner.Owner

	engine  string
	want    backends.ClientsWant
	entry   string    // the role that requests go to
	final   string    // the last unit
	entries []*remote // those of entry, attached one after the other

	last    map[string]string    // the last unit of each role
	waiting map[string][]*remote // of a role whose last unit is not attached yet

	mu     sync.Mutex
	fleet  *clients.Fleet // the load pods; nil: there are none
	remote bool           // the servers are reached from them alone

	stop  context.CancelFunc // of the heartbeat; nil before it begins
	beats sync.WaitGroup
	lost  chan struct{} // closed when the cluster has ended the deployment
	why   error         // set before lost is closed
}

// Allocate divides a deployment into pods, and makes nothing.
func (p provider) Allocate(_ context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	a := provision.Allocation{Units: provision.PerReplica(spec, pod)}
	l := p.b.launch(pod, spec, a.Units)
	for _, u := range a.Units {
		r := u.Replicas[0]
		r.Place = provision.PlaceOf(r.Role, r.Place.Replica, l.host(r), false)
		r.Place.Dir = p.b.files + "/" + u.Name
	}
	a.Clients, a.Keep, a.Close = l, l.keep, l.close
	return a, nil
}

// launch returns what some units share, and each of them has it.
func (b *Backend) launch(pod backends.Name, spec backends.Spec, units []*provision.Unit) *launch {
	l := &launch{
		b: b, name: pod.String(), id: pod, several: len(units) > 1, engine: spec.Engine, want: spec.Clients, entry: entryOf(spec),
		last: map[string]string{}, waiting: map[string][]*remote{}, lost: make(chan struct{}),
	}
	for _, u := range units {
		l.last[u.Replicas[0].Role.Name], l.final = u.Name, u.Name
		u.Data = l
	}
	return l
}

// host returns what the others call a replica.
func (l *launch) host(r *provision.Replica) string {
	if !l.several {
		return "127.0.0.1"
	}
	return hostname(r.Role.Name, r.Place.Replica) + "." + l.name + "." + l.b.place.Namespace + ".svc"
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
	err = p.room().Await(ctx, func() (err error) {
		l.owner, err = n.Create(ctx, owner.Request{
			Name: u.Pod, Marks: u.Marks, Engine: u.Spec.Engine, Image: u.Replicas[0].Role.Image, Lease: p.b.place.Heartbeat,
		})
		if errors.Is(err, owner.ErrTaken) {
			return fmt.Errorf("%w: %w", provision.ErrTaken, err)
		}
		return signs.Refusal(false, "job "+pod, err)
	})
	if err != nil {
		return err
	}
	l.begin(ctx, n)
	if l.several {
		if err := p.make(ctx, "services", "service "+pod, l.service()); err != nil {
			return err
		}
	}
	for _, u := range units {
		if secret := l.secret(u); secret != nil {
			if err := p.make(ctx, "secrets", "secret "+u.Name, secret); err != nil {
				return err
			}
		}
	}
	return nil
}

// make creates an object of which nobody needs more.
func (p provider) make(ctx context.Context, collection, what string, o map[string]any) error {
	return p.room().Await(ctx, func() error {
		return signs.Refusal(false, what, p.b.call(ctx, effect.KubeCreate, func(ctx context.Context, api *kubeapi.Client) error {
			return api.Create(ctx, p.b.path(collection, ""), o, nil)
		}))
	})
}

// room returns how a create waits for room in a quota: as a pod waits for a node.
func (p provider) room() signs.Room {
	return signs.Room{Every: p.b.every.quota, Pending: p.b.config.Pending}
}

// attached notes a remote, and returns all of its role if it is the last of them. Units are
// attached one after the other.
func (l *launch) attached(r *remote) []*remote {
	role := r.unit.Replicas[0].Role.Name
	if role == l.entry {
		l.entries = append(l.entries, r)
	}
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
			// It is waited for, as the API server may carry out what was given up, and then move
			// the deadline after a later one was set.
			return n.Extend(context.WithoutCancel(ctx), l.owner, lease)
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
	l.letGo()
	l.quiet()
}

// quiet ends the heartbeat, and returns when the last one was answered.
func (l *launch) quiet() {
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
	return signs.Denied(n.Delete(ctx, pod, ""))
}

// Create makes a pod, which starts it.
func (p provider) Create(ctx context.Context, u *provision.Unit) (i provision.Instance, err error) {
	err = p.room().Await(ctx, func() (err error) {
		i, err = p.create(ctx, u)
		return err
	})
	return i, err
}

// create makes a pod once.
func (p provider) create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
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
		return provision.Instance{}, signs.Refusal(false, "pod "+u.Name, err)
	}
	return provision.Instance{}, fmt.Errorf("pod %s: %w: %w", u.Name, provision.ErrUnsure, err)
}

// answerPatience bounds a create, which must not be cut short by a context: its result
// would be unknown.
const answerPatience = time.Minute

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/manifests"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/kubeapi"
)

// pauses are how long a look at the cluster waits for what.
type pauses struct {
	connect time.Duration // until a connection is open
	poll    time.Duration // between two looks at the pods under load
	join    time.Duration // between two looks for a stack that was just made
	// settle is how long the address of a stack that was just made may refuse connections
	// before it counts as out of reach from here.
	settle time.Duration
}

var usual = pauses{connect: 3 * time.Second, poll: 5 * time.Second, join: time.Second, settle: 10 * time.Second}

// errSoon is a stack that may be reached in a moment.
var errSoon = errors.New("its address does not answer yet")

// Authorize adds nothing: what requests carry is the deployment's, since an entry may
// want headers of its own.
func (b *Backend) Authorize(backends.Header) {}

// PlainTCP implements [backends.Network].
func (b *Backend) PlainTCP() bool { return b.url == nil || b.url.Scheme == "http" }

// Probe looks for the stack, and asks its entry for its models. For a stack that is to be
// made, or that cannot be reached from here, it asks the cluster what this user may.
func (b *Backend) Probe(ctx context.Context) error {
	if b.manifests != nil {
		return b.probeManifests(ctx)
	}
	api, v, err := b.open(ctx)
	if err != nil {
		return err
	}
	e, err := b.entryOf(ctx, v.Stack)
	if none, ok := errors.AsType[*closedError](err); ok {
		return b.mayLoad(ctx, api, none)
	}
	if err != nil {
		return err
	}
	return foreign.Probe(ctx, e.host.At, e.host.Dial, e.headers)
}

// open finds the stack. Rights that are missing are a refusal.
func (b *Backend) open(ctx context.Context) (*kubeapi.Client, *stack.View, error) {
	api, err := kubeapi.Connect(b.cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", backends.ErrRefused, err)
	}
	v, err := stack.Open(ctx, api, b.namespace, b.attach)
	if _, denied := errors.AsType[*kubeapi.Denied](err); denied {
		return nil, nil, fmt.Errorf("%w: %w: ask for the Role that sweep probe --kube %s --print-role prints", backends.ErrRefused, err, b.namespace)
	}
	return api, v, err
}

// Launch makes the stack of the plan's manifests. Without manifests it starts nothing. The
// pod stands in the ledger all the same: its life is that of any other.
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	if b.manifests != nil {
		return b.launchManifests(ctx, spec, l)
	}
	d, err := b.found(ctx, spec, l, nil)
	if err != nil {
		return nil, err
	}
	if d.fleet != nil {
		return d, nil // it is in the ledger
	}
	if err := d.record(ctx, l); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// found returns a stack that runs, with its load pods, of which the ledger is told. One that a
// launch of manifests has made is in the ledger, with its load pods.
func (b *Backend) found(ctx context.Context, spec backends.Spec, l backends.Ledger, run *manifests.Running) (*deployment, error) {
	api, v, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := serves(v.Stack); err != nil {
		return nil, err // before any load pod is made for it
	}
	way, err := b.wayTo(ctx, v.Stack, spec.Clients)
	if err != nil && run != nil && time.Since(run.Ready) >= b.every.settle && (spec.Clients.N > 0 || spec.Clients.Processes) {
		err = &nearError{err} // no further look changes who is to send
	}
	if err != nil {
		return nil, err
	}
	if by := way.remote; run != nil && by != nil && spec.Clients.N == 0 && time.Since(run.Ready) < b.every.settle {
		return nil, fmt.Errorf("%w: %w", errSoon, by)
	}
	d := &deployment{
		run: run, b: b, api: api, spec: spec, view: v, entry: way.entries[0], done: make(chan struct{}),
		ref:   backends.Ref{Kind: Kind, RunID: spec.RunID, Pod: spec.Pod, ID: way.entries[0].host.URL(), Name: b.namespace + "/" + v.Stack.Name},
		relay: newRelay(api, b.namespace, b.guard.Dial),
	}
	if way.pods {
		if err = d.near(ctx, l, way); err != nil {
			err = &nearError{err}
		}
	}
	if err == nil {
		err = d.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.release(ctx, l))
	}
	d.follow(ctx, v.Stack)
	return d, nil
}

// record writes the intent and the deployment into the ledger.
func (d *deployment) record(ctx context.Context, l backends.Ledger) error {
	pod := d.spec.Pod
	if err := l.Record(ctx, backends.Transition{Pod: pod, State: backends.Intended, Kind: Kind}); err != nil {
		return fmt.Errorf("intent of pod %s: %w", pod, err)
	}
	if err := l.Record(ctx, backends.Transition{Pod: pod, State: backends.Created, Ref: &d.ref}); err != nil {
		err = fmt.Errorf("record of pod %s: %w", pod, err)
		return errors.Join(err, l.Record(ctx, backends.Transition{Pod: pod, State: backends.Gone}))
	}
	return nil
}

// podHost is a pod as its metrics are read.
type podHost struct {
	foreign.Host
	dialer dialer
}

var _ host.Host = (*podHost)(nil)

// Dial implements [host.Host].
func (h *podHost) Dial(ctx context.Context, network, addr string) (c net.Conn, err error) {
	if h.dialer != nil {
		return h.dialer(ctx, network, addr)
	}
	return h.Host.Dial(ctx, network, addr)
}

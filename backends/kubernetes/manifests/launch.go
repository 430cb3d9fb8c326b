package manifests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/ending"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/manifest"
)

const (
	// DetailObjects is the key of a ref's details that has its objects: if the owner is
	// gone, nothing else says what they were.
	DetailObjects = "objects"
	// defaultLife is how long a launch lives whose spec says nothing.
	defaultLife = 24 * time.Hour
	// longestBeat bounds the time between two signs of life.
	longestBeat = time.Minute
	// watchEvery is the time between two looks at the pods of a launch that is ready.
	watchEvery = 2 * time.Second
	// releasePatience is how long what a failed launch has made may take to go.
	releasePatience = 2 * time.Minute
)

// A Launcher launches manifests in a namespace.
type Launcher struct {
	In   owner.Namespace
	Set  *manifest.Set
	Kind string            // the backend's
	At   map[string]string // see [backends.Transition]
	// Load is the namespace of its load pods, if that is another one.
	Load string
	// Lease is how long everything lives without a sign of life.
	Lease time.Duration
}

// A Running is a launch whose objects are ready.
type Running struct {
	Ref   backends.Ref
	Ready time.Time // all objects were

	of    *Launcher
	owner *owner.Owner
	up    chan struct{} // closed when all objects are ready
	quiet func()        // ends the signs of life and the looks at the pods, and waits for their end

	// Ending is when the cluster has ended the launch, or a node of its pods is lost.
	*ending.Ending
}

// Launch makes the objects and returns when they are ready. Before anything is made it
// has refused what cannot be. An error after that has given everything back, or the
// ledger still owes it.
func (l *Launcher) Launch(ctx context.Context, spec backends.Spec, ledger backends.Ledger) (*Running, error) {
	release, err := l.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	expires := spec.Expires
	if expires.IsZero() {
		expires = time.Now().Add(defaultLife)
	}
	name := backends.NewName(spec.Owner, spec.RunID, expires)
	run := &Running{
		of: l, up: make(chan struct{}), Ending: ending.New(), quiet: func() {},
		Ref: backends.Ref{Kind: l.Kind, RunID: spec.RunID, Pod: spec.Pod, Name: name.String(), Details: map[string]string{DetailObjects: owner.RefsText(release.Refs())}},
	}
	maps.Copy(run.Ref.Details, l.At)
	record := recorder(ctx, ledger, spec.Pod)
	if err := record(backends.Transition{State: backends.Intended, Kind: l.Kind, Name: name.String(), At: run.Ref.Details, Expires: &name.Expires}); err != nil {
		return nil, err
	}
	if err := errors.Join(context.Cause(ctx), record(backends.Transition{State: backends.Sent})); err != nil {
		return nil, errors.Join(err, record(backends.Transition{State: backends.Gone}))
	}
	if err := run.start(ctx, release, name, spec, record); err != nil {
		return nil, errors.Join(err, run.GiveBack(ctx, ledger))
	}
	run.Ready = time.Now()
	close(run.up)
	return run, nil
}

// start makes the owner, then what it owns.
func (r *Running) start(ctx context.Context, release *Release, name backends.Name, spec backends.Spec, record func(backends.Transition) error) error {
	request := owner.Request{Name: name, Marks: backends.Marks(spec), Engine: spec.Engine, Lease: r.of.Lease}
	if r.of.Load != "" {
		request.Labels = map[string]string{owner.LabelLoad: r.of.Load}
	}
	var own *owner.Owner
	err := signs.Room{}.Await(ctx, func() (err error) {
		own, err = r.of.In.Create(ctx, request)
		return signs.Refusal(true, "what owns the objects", err)
	})
	if err != nil {
		return err
	}
	r.owner, r.Ref.ID = own, own.UID
	ref := r.Ref
	if err := record(backends.Transition{State: backends.Created, Ref: &ref}); err != nil {
		return err
	}
	r.begin(ctx)
	if err := r.of.In.Note(ctx, own, release.Refs()); err != nil {
		return err
	}
	up, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-r.Done():
			cancel(r.Err())
		case <-up.Done():
		}
	}()
	if err = release.Apply(up, own); err == nil { // either may wait for long
		err = release.Await(up, name.String())
	}
	cancel(nil)
	<-watched
	return err
}

// begin gives signs of life, and looks at the pods once they are ready, until quiet is
// called.
func (r *Running) begin(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var both sync.WaitGroup
	both.Go(func() { r.beat(ctx) })
	both.Go(func() { r.watch(ctx) })
	r.quiet = sync.OnceFunc(func() { cancel(); both.Wait() })
}

// beat gives signs of life until ctx ends. A launch that the cluster has ended is done.
func (r *Running) beat(ctx context.Context) {
	tick := time.NewTicker(min(r.of.Lease/4, longestBeat))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.of.In.Extend(ctx, r.owner, r.of.Lease); errors.Is(err, owner.ErrLost) && ctx.Err() == nil {
			r.Ended(fmt.Errorf("the cluster has ended the deployment: %w", err))
			return
		}
	}
}

// watch looks at the pods of a launch that is ready, until ctx ends. One whose node is lost
// ends the launch: nothing else says so, and what is asked of its servers waits for ever.
// What else becomes of a pod is for whoever measures the stack.
func (r *Running) watch(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.up:
	}
	by := judges{}
	for {
		pods, err := podsOf(ctx, r.of.In, r.Ref.Name)
		if err != nil { // a node that nobody can look at is not lost for that
			by = judges{}
		}
		for i := range pods {
			if why := by.stranded(&pods[i], time.Now()); why != nil {
				r.Ended(why)
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
	}
}

// recorder records transitions of a pod.
func recorder(ctx context.Context, ledger backends.Ledger, pod string) func(backends.Transition) error {
	return func(a backends.Transition) error {
		a.Pod = pod
		if err := ledger.Record(ctx, a); err != nil {
			return fmt.Errorf("record of pod %s: %w", pod, err)
		}
		return nil
	}
}

// GiveBack ends a launch that failed, even if ctx is over, and records that it is gone.
func (r *Running) GiveBack(ctx context.Context, ledger backends.Ledger) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releasePatience, fmt.Errorf("not within %v", releasePatience))
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		return fmt.Errorf("what the launch has made may still be there: %w", err)
	}
	return recorder(ctx, ledger, r.Ref.Pod)(backends.Transition{State: backends.Gone})
}

// Owner returns what owns the objects of the launch.
func (r *Running) Owner() *owner.Owner { return r.owner }

// Stop deletes everything and returns when it is seen to be gone. It is idempotent.
func (r *Running) Stop(ctx context.Context) error {
	r.quiet()
	return End(ctx, r.of.In, r.Ref)
}

// End deletes what a ref names, and returns when it is seen to be gone: the owner, the
// objects that the ref or the owner names, and their pods.
func End(ctx context.Context, in owner.Namespace, ref backends.Ref) error {
	return in.Delete(ctx, ref.Name, ref.ID, owner.ParseRefs(ref.Details[DetailObjects])...)
}

// Probe asks the cluster for everything that no deployment can do without: the kinds of
// the objects, and the rights to make them and what owns them.
func (l *Launcher) Probe(ctx context.Context) error {
	r, err := l.planned(nil)
	if err != nil {
		return err
	}
	return r.possible(ctx)
}

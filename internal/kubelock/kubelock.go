// Package kubelock holds a Lease of a Kubernetes cluster, so that of all programs that
// want the same GPUs one alone is at work.
//
// The cluster only keeps the Lease; its users obey it. A holder renews it, and stops its
// work in good time if it cannot. Another one takes it over only after it was given back,
// or after it has not changed for its whole duration by the other's own clock: clocks of
// two machines are never compared.
package kubelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"sweep.dev/sweep/internal/kubeapi"
)

// ErrLost is the cause with which work ends whose Lease could not be renewed.
var ErrLost = errors.New("the lock of the GPU pool is lost")

// Times of a lock. Every holder of one Lease must have the same Duration.
type Times struct {
	Duration time.Duration // after which others may take over; whole seconds
	Renew    time.Duration // between two renewals
	GiveUp   time.Duration // after the last renewal: what is left of Duration is for the teardown
	Poll     time.Duration // between two looks at a Lease of another holder
}

// Usual are the times of nights: after a crash the next one begins five minutes later, and
// a holder that is cut off from the cluster has three of them to give back what it started.
var Usual = Times{Duration: 5 * time.Minute, Renew: 20 * time.Second, GiveUp: 2 * time.Minute, Poll: 5 * time.Second}

// A Lock is one Lease, as one of its users sees it.
type Lock struct {
	API       *kubeapi.Client
	Namespace string
	Name      string
	Holder    string // of this user alone, at any time
	Times     Times
	// Say is called with who has the lock when this one begins to wait for it.
	Say func(holder string)
}

func (l *Lock) path() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + l.Namespace + "/leases/" + l.Name
}

// Take waits until the lock is free, and takes it: it is renewed until it is given back.
// The context bounds the wait alone. The Lease must exist. A cluster that answered once may
// fail to answer for a while.
func (l *Lock) Take(ctx context.Context) (*HeldLock, error) {
	var seen watched
	said := ""
	for {
		asked := time.Now()
		of, err := l.read(ctx)
		if err != nil && (seen.version == "" || kubeapi.NotFound(err)) {
			return nil, err
		}
		holder := of.holder()
		switch {
		case err != nil: // asked again
		case seen.expired(of, time.Now()), holder == "", holder == l.Holder:
			if err := l.write(ctx, of, l.Holder); err == nil {
				return l.hold(ctx, of, asked), nil
			} else if _, denied := errors.AsType[*kubeapi.Denied](err); denied {
				return nil, err
			}
		case holder != said:
			said = holder
			if l.Say != nil {
				l.Say(holder)
			}
		}
		if err := pause(ctx, l.Times.Poll); err != nil {
			return nil, fmt.Errorf("lock %s/%s: %s has it: %w", l.Namespace, l.Name, cmp.Or(said, "another one"), err)
		}
	}
}

// A HeldLock is a lock that is held until it is released or lost.
type HeldLock struct {
	lock  *Lock
	lease lease
	lost  context.Context // ends when the lock is lost, with why as its cause
	quit  chan struct{}
	done  chan struct{}
}

// Work returns a context that ends when the lock is lost, with [ErrLost] as its cause. An
// interrupted one keeps the lock, since work that ends still gives back what it started.
func (h *HeldLock) Work(ctx context.Context) (work context.Context, cancel context.CancelFunc) {
	work, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.lost, func() { end(context.Cause(h.lost)) })
	return work, func() { stop(); end(nil) }
}

// Release gives the lock back, once. A lock that was lost is left to who has it.
func (h *HeldLock) Release(ctx context.Context) error {
	close(h.quit)
	<-h.done
	select {
	case <-h.lost.Done():
		return nil
	default:
		return h.lock.release(ctx, h.lease)
	}
}

// read gets the Lease.
func (l *Lock) read(ctx context.Context) (lease, error) {
	got := lease{}
	err := l.API.Get(ctx, l.path(), &got)
	if kubeapi.NotFound(err) {
		err = fmt.Errorf("there is no Lease %s in namespace %s: apply what sweep night schedule printed: %w", l.Name, l.Namespace, err)
	}
	return got, err
}

// write puts a holder into the Lease, unless it has changed since it was read. The lease
// becomes the new one.
func (l *Lock) write(ctx context.Context, of lease, holder string) error {
	now := time.Now().UTC().Format(microTime)
	spec := of.spec()
	if holder != "" && of.holder() != holder {
		spec["acquireTime"] = now
		transitions, _ := spec["leaseTransitions"].(float64)
		spec["leaseTransitions"] = transitions + 1
	}
	spec["holderIdentity"], spec["renewTime"] = holder, now
	spec["leaseDurationSeconds"] = int(l.Times.Duration.Seconds())
	of["spec"] = spec
	after := lease{}
	if err := l.API.Replace(ctx, l.path(), of, &after); err != nil {
		return err
	}
	clear(of)
	maps.Copy(of, after)
	return nil
}

// hold renews the Lease until it is released. renewed is a time at which it was not yet
// renewed: a request takes a while.
func (l *Lock) hold(ctx context.Context, of lease, renewed time.Time) *HeldLock {
	ctx = context.WithoutCancel(ctx)
	lost, lose := context.WithCancelCause(ctx)
	h := &HeldLock{lock: l, lease: of, lost: lost, quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for {
			select {
			case <-h.quit:
				return
			case <-time.After(l.Times.Renew):
			}
			asked := time.Now()
			err := l.renew(ctx, of, renewed.Add(l.Times.GiveUp))
			switch {
			case err == nil:
				renewed = asked
			case errors.Is(err, ErrLost):
				lose(err)
				return
			case time.Since(renewed) >= l.Times.GiveUp:
				lose(fmt.Errorf("%w: not renewed for %v: %w", ErrLost, l.Times.GiveUp, err))
				return
			}
		}
	}()
	return h
}

// renew writes the Lease again, and no later than a time.
func (l *Lock) renew(ctx context.Context, of lease, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := l.write(ctx, of, l.Holder)
	if !kubeapi.Changed(err) {
		return lostIfGone(err)
	}
	// Somebody wrote into it, or the answer to our own last write was lost.
	now, err := l.read(ctx)
	if err != nil {
		return lostIfGone(err)
	}
	if now.holder() != l.Holder {
		return fmt.Errorf("%w to %s", ErrLost, now.holder())
	}
	clear(of)
	maps.Copy(of, now)
	return l.write(ctx, of, l.Holder)
}

// lostIfGone makes a Lease that was deleted a lock that is lost: another one may be made.
func lostIfGone(err error) error {
	if kubeapi.NotFound(err) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// release lets the next one take the lock at once.
func (l *Lock) release(ctx context.Context, of lease) error {
	err := l.write(ctx, of, "")
	if !kubeapi.Changed(err) {
		return err
	}
	now, err := l.read(ctx)
	if err != nil || now.holder() != l.Holder {
		return err
	}
	return l.write(ctx, now, "")
}

// A lease is the object, with whatever others keep in it.
type lease map[string]any

// microTime is the form of its times.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

func (l lease) spec() map[string]any {
	if spec, ok := l["spec"].(map[string]any); ok {
		return spec
	}
	return map[string]any{}
}

func (l lease) holder() string { holder, _ := l.spec()["holderIdentity"].(string); return holder }

// maxDuration bounds what a holder may say of its own.
const maxDuration = time.Hour

func (l lease) duration() time.Duration {
	seconds, _ := l.spec()["leaseDurationSeconds"].(float64)
	if seconds < 1 || seconds > maxDuration.Seconds() {
		return maxDuration
	}
	return time.Duration(seconds * float64(time.Second))
}

func (l lease) version() string {
	meta, _ := l["metadata"].(map[string]any)
	version, _ := meta["resourceVersion"].(string)
	return version
}

// watched is a Lease as it was seen, and since when it has not changed.
type watched struct {
	version string
	since   time.Time
}

// expired reports whether a Lease has not changed for its whole duration.
func (w *watched) expired(l lease, now time.Time) bool {
	if v := l.version(); v != w.version || w.since.IsZero() {
		w.version, w.since = v, now
	}
	return now.Sub(w.since) >= l.duration()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package backends

import (
	"context"
	"errors"
	"fmt"
)

// ReplicaName returns the name of one replica of a role in texts: "worker 1", or "worker"
// if it is the only one.
func (r Role) ReplicaName(n int) string {
	if r.Replicas == 1 {
		return r.Name
	}
	return fmt.Sprintf("%s %d", r.Name, n)
}

// AwaitStarted calls Started for each replica of a role that d has just started,
// and returns when the next role may be started. A server of d that ends
// meanwhile ends the wait with d's Err.
func (r Role) AwaitStarted(ctx context.Context, d Deployment) error {
	if r.Started == nil {
		return nil
	}
	up, stop := WhileUp(ctx, d)
	defer stop()
	for n := range r.Replicas {
		err := r.Started(up, d.Host(r.Name, n), n)
		if ended := d.Err(); ended != nil {
			return ended
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.ReplicaName(n), err)
		}
	}
	return nil
}

// End returns why a deployment ended, after its Done; never nil.
func End(d Deployment) error {
	if err := d.Err(); err != nil {
		return err
	}
	return errors.New("the server ended, and the backend gives no reason")
}

// WhileUp returns ctx until a deployment ends by itself; that is the cause then. stop
// must be called.
func WhileUp(ctx context.Context, d Deployment) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-d.Done():
			cancel(End(d))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
	}
}

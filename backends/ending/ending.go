// Package ending notes how a deployment ended, by itself or because it was stopped
// or kept: the part of backends.Deployment that is the same wherever servers run.
package ending

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var errOver = errors.New("it is stopped or kept already")

// An Ending is the end of a deployment. Its methods may be called concurrently.
type Ending struct {
	done chan struct{}

	turn chan struct{} // held by the StopWith or KeepWith that is at work
	over bool          // guarded by turn

	mu    sync.Mutex
	asked bool
	err   error // set before done is closed
}

// New makes the ending of a deployment that has not ended.
func New() *Ending { return &Ending{done: make(chan struct{}), turn: make(chan struct{}, 1)} }

// StopWith calls stop, unless the deployment is stopped or kept. One StopWith or
// KeepWith is at work at a time; a caller waits for another one until ctx ends.
func (e *Ending) StopWith(ctx context.Context, stop func() error) error {
	if err := e.last(ctx, stop); !errors.Is(err, errOver) {
		return err
	}
	return nil
}

// KeepWith calls keep. It is an error if the deployment is stopped or kept
// already; else it is like [Ending.StopWith].
func (e *Ending) KeepWith(ctx context.Context, keep func() error) error { return e.last(ctx, keep) }

func (e *Ending) last(ctx context.Context, f func() error) error {
	select {
	case e.turn <- struct{}{}: // even if ctx is over: the turn is free
	default:
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("another stop or keep is still at work: %w", context.Cause(ctx))
		}
	}
	defer func() { <-e.turn }()
	if e.over {
		return errOver
	}
	err := f()
	e.over = err == nil
	return err
}

// Ended notes an end. The first one counts; one that was asked for is none.
func (e *Ending) Ended(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked || e.err != nil {
		return
	}
	e.err = err
	close(e.done)
}

// Ask notes that from now on an end is what somebody wants.
func (e *Ending) Ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = true
}

// Done is closed when an end was noted.
func (e *Ending) Done() <-chan struct{} { return e.done }

// Err says which, after Done. Nil before.
func (e *Ending) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

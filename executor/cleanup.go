package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir"
)

// A cleanup is a stack of things to undo, last in, first out. Each is undone
// once, and who undoes it hears what went wrong: the end of its scope or an
// early release.
type cleanup struct {
	mu    sync.Mutex
	stack []*undo
}

type undo struct {
	once sync.Once
	f    func(context.Context) error
}

func (u *undo) run(ctx context.Context) (err error) {
	u.once.Do(func() { err = u.f(ctx) })
	return err
}

// push puts f on the stack. The returned function undoes it early.
func (c *cleanup) push(f func(context.Context) error) func(context.Context) error {
	u := &undo{f: f}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stack = append(c.stack, u)
	return u.run
}

// run undoes everything and joins what went wrong.
func (c *cleanup) run(ctx context.Context) error {
	c.mu.Lock()
	stack := c.stack
	c.stack = nil
	c.mu.Unlock()
	var errs []error
	for _, u := range slices.Backward(stack) {
		errs = append(errs, u.run(ctx))
	}
	return errors.Join(errs...)
}

// A debt is the ledger of one launch, which remembers whether its pod is owed.
type debt struct {
	backends.Ledger
	mu   sync.Mutex
	owed bool
	ref  *backends.Ref
}

// Intent implements [backends.Ledger]. Without it nothing is begun.
func (l *debt) Intent(ctx context.Context, pod, kind string) error {
	err := l.Ledger.Intent(ctx, pod, kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed = err == nil
	return err
}

// Created implements [backends.Ledger].
func (l *debt) Created(ctx context.Context, pod string, ref backends.Ref) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ref = &ref
	return l.Ledger.Created(ctx, pod, ref)
}

// Gone implements [backends.Ledger].
func (l *debt) Gone(ctx context.Context, pod string) error {
	err := l.Ledger.Gone(ctx, pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed = l.owed && err != nil
	return err
}

// settle ends what a launch that failed could not release itself. Where that
// fails too the deployment is given up.
func (d *deployment) settle(pod string, debt *debt) {
	debt.mu.Lock()
	owed, ref := debt.owed, debt.ref
	debt.mu.Unlock()
	if !owed {
		return
	}
	ctx, cancel := context.WithTimeoutCause(d.Teardown, d.Plan.Timeouts.Stop+5*time.Second,
		errors.New("timeouts.stop: what the launch left did not end in time"))
	defer cancel()
	known, err := d.Backend.List(ctx, d.State.Manifest.Owner)
	if err == nil {
		err = d.terminate(ctx, rundir.Owed{Pod: pod, Ref: ref}, known)
	}
	if err == nil {
		err = d.ledger.Gone(ctx, pod)
	}
	if err != nil {
		d.addCleanup(fmt.Errorf("pod %s of a launch that failed: %w", pod, err))
		d.givenUp = true
	}
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

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
	owed rundir.Owed // Pod is "" while nothing is
}

// Record implements [backends.Ledger].
func (l *debt) Record(ctx context.Context, a backends.Arrow) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.State == backends.Created {
		l.owed.Ref = a.Ref // whether or not it can be written down
	}
	err := l.Ledger.Record(ctx, a)
	switch {
	case err != nil:
	case a.State == backends.Gone:
		l.owed = rundir.Owed{}
	case a.State == backends.Intended:
		l.owed = rundir.Owed{Pod: a.Pod, Kind: a.Kind, Name: a.Name, At: a.At}
	}
	return err
}

// settle ends what a launch that failed could not release itself. Where that
// fails too the deployment is given up.
func (d *deployment) settle(debt *debt) {
	debt.mu.Lock()
	owed := debt.owed
	debt.mu.Unlock()
	if owed.Pod == "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(d.Teardown, d.stopTimeout(),
		errors.New("timeouts.stop: what the launch left did not end in time"))
	defer cancel()
	known, err := d.Backend.List(ctx, d.State.Manifest.Owner)
	if err == nil {
		err = d.terminate(ctx, owed, known)
	}
	if err != nil {
		d.addCleanup(fmt.Errorf("pod %s of a launch that failed: %w", owed.Pod, err))
		d.givenUp = true
	}
}

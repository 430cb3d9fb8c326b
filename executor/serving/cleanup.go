package serving

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// run undoes it. A panic is an error: what stands below on the stack is still undone, and
// what was not is known.
func (u *undo) run(ctx context.Context) (err error) {
	u.once.Do(func() {
		defer Recovered(&err)
		err = u.f(ctx)
	})
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

package backendtest

import (
	"context"
	"slices"
	"sync"

	"sweep.dev/sweep/backends"
)

// A Ledger keeps what it was told, in order. Its zero value is empty and never
// fails.
type Ledger struct {
	// Fail is what Record returns for an arrow; the arrow is kept all the same,
	// as a disk may keep what it has reported as lost. May be nil.
	Fail func(backends.Arrow) error
	// OnIntent is called before an intent is durable. May be nil.
	OnIntent func()

	mu     sync.Mutex
	arrows []backends.Arrow
}

var _ backends.Ledger = (*Ledger)(nil)

// Record implements [backends.Ledger].
func (l *Ledger) Record(_ context.Context, a backends.Arrow) error {
	l.mu.Lock()
	l.arrows = append(l.arrows, a)
	l.mu.Unlock()
	if a.State == backends.Intended && l.OnIntent != nil {
		l.OnIntent()
	}
	if l.Fail != nil {
		return l.Fail(a)
	}
	return nil
}

// Arrows returns what was kept so far.
func (l *Ledger) Arrows() []backends.Arrow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.arrows)
}

// States returns the states that a pod went through, in order.
func (l *Ledger) States() []backends.State {
	var states []backends.State
	for _, a := range l.Arrows() {
		states = append(states, a.State)
	}
	return states
}

// FailAt makes a Fail that returns err for every arrow to a state.
func FailAt(state backends.State, err error) func(backends.Arrow) error {
	return func(a backends.Arrow) error {
		if a.State == state {
			return err
		}
		return nil
	}
}

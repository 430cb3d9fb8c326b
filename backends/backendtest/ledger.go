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
	// Fail is what Record returns for a transition; the transition is kept all the same,
	// as a disk may keep what it has reported as lost. May be nil.
	Fail func(backends.Transition) error
	// OnIntent is called before an intent is durable. May be nil.
	OnIntent func()

	mu          sync.Mutex
	transitions []backends.Transition
}

var _ backends.Ledger = (*Ledger)(nil)

// Record implements [backends.Ledger].
func (l *Ledger) Record(_ context.Context, a backends.Transition) error {
	l.mu.Lock()
	l.transitions = append(l.transitions, a)
	l.mu.Unlock()
	if a.State == backends.Intended && l.OnIntent != nil {
		l.OnIntent()
	}
	if l.Fail != nil {
		return l.Fail(a)
	}
	return nil
}

// Transitions returns what was kept so far.
func (l *Ledger) Transitions() []backends.Transition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.transitions)
}

// States returns the states that a pod went through, in order.
func (l *Ledger) States() []backends.State {
	var states []backends.State
	for _, a := range l.Transitions() {
		states = append(states, a.State)
	}
	return states
}

// FailAt makes a Fail that returns err for every transition to a state.
func FailAt(state backends.State, err error) func(backends.Transition) error {
	return func(a backends.Transition) error {
		if a.State == state {
			return err
		}
		return nil
	}
}

package backendtest

import (
	"context"
	"slices"
	"sync"

	"sweep.dev/sweep/backends"
)

// An Entry is one call of a ledger.
type Entry struct {
	Op   string // intent, created, gone
	Pod  string
	Kind string       // of an intent
	Ref  backends.Ref // of a created
}

// A Ledger keeps what it was told, in order. Its zero value is empty and never
// fails.
type Ledger struct {
	// What Intent and Created return; the entry is kept all the same, as a
	// disk may keep what it has reported as lost.
	IntentErr, CreatedErr error
	// OnIntent is called before Intent returns. May be nil.
	OnIntent func()

	mu      sync.Mutex
	entries []Entry
}

var _ backends.Ledger = (*Ledger)(nil)

// Intent keeps an intent.
func (l *Ledger) Intent(_ context.Context, pod, kind string) error {
	l.add(Entry{Op: "intent", Pod: pod, Kind: kind})
	if l.OnIntent != nil {
		l.OnIntent()
	}
	return l.IntentErr
}

// Created keeps a ref.
func (l *Ledger) Created(_ context.Context, pod string, ref backends.Ref) error {
	l.add(Entry{Op: "created", Pod: pod, Ref: ref})
	return l.CreatedErr
}

// Gone keeps an end.
func (l *Ledger) Gone(_ context.Context, pod string) error {
	l.add(Entry{Op: "gone", Pod: pod})
	return nil
}

func (l *Ledger) add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// Entries returns what was kept so far.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Ops returns the names of the calls, in order.
func (l *Ledger) Ops() []string {
	var ops []string
	for _, e := range l.Entries() {
		ops = append(ops, e.Op)
	}
	return ops
}

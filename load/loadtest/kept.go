package loadtest

import (
	"slices"
	"sync"

	"sweep.dev/sweep/result"
)

// Kept records requests for a test, which may look at them while they come. The zero
// value has none.
type Kept struct {
	mu   sync.Mutex
	rows []result.Request
}

// Record keeps a request.
func (k *Kept) Record(q result.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows = append(k.rows, q)
}

// N returns how many there are.
func (k *Kept) N() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.rows)
}

// All returns the requests, in the order in which they were recorded.
func (k *Kept) All() []result.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.rows)
}

// Package ending notes how a deployment's servers ended by themselves: the part
// of backends.Deployment that is the same wherever they run.
package ending

import "sync"

// An Ending is the end of a deployment that nobody asked for. Its methods may
// be called concurrently.
type Ending struct {
	done chan struct{}

	mu    sync.Mutex
	asked bool
	err   error // set before done is closed
}

// New makes the ending of a deployment that has not ended.
func New() *Ending { return &Ending{done: make(chan struct{})} }

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

// Ask says that from now on an end is what somebody wants.
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

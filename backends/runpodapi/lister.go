package runpodapi

import (
	"context"
	"time"
)

// A Listing is the whole account at one moment.
type Listing struct {
	Began time.Time // of the call: what happened later may not be in it
	Pods  []Pod
}

// Find returns the pod with an id, as this listing has it.
func (l Listing) Find(id string) (Pod, bool) {
	for _, p := range l.Pods {
		if p.ID == id {
			return p, true
		}
	}
	return Pod{}, false
}

// A Lister shares lists of the account between all who want to know of their
// pods: one call tells all of them.
type Lister struct {
	client *Client
	turn   chan struct{} // held by the goroutine that calls the API or reads last
	last   Listing
}

// NewLister makes a Lister that has seen nothing yet.
func NewLister(c *Client) *Lister { return &Lister{client: c, turn: make(chan struct{}, 1)} }

// After returns a listing whose call began after t: a known one, or a new one.
// Those who ask meanwhile wait for the same call; where the one who makes it
// goes away, the next one makes it.
func (l *Lister) After(ctx context.Context, t time.Time) (Listing, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return Listing{}, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if l.last.Began.After(t) {
		return l.last, nil
	}
	began := time.Now()
	pods, err := l.client.Pods(ctx)
	if err != nil {
		return Listing{}, err
	}
	l.last = Listing{began, pods}
	return l.last, nil
}

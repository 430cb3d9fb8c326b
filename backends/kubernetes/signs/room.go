package signs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
)

// Room is how a create waits for room in a quota.
type Room struct {
	Every   time.Duration // between two tries; 0 is 2 s
	Pending time.Duration // in all; 0 is until the context ends
}

// Await tries a create again while its error is that of a quota that is used up: what uses it
// may be another deployment of the same run. It returns the last error of create, which has
// those of [Refusal], with the cause of ctx if ctx has ended.
func (r Room) Await(ctx context.Context, create func() error) error {
	if r.Every == 0 {
		r.Every = 2 * time.Second
	}
	var last error
	for begun := time.Now(); ; {
		err := create()
		switch {
		case UsedUp(err) && (r.Pending == 0 || time.Since(begun) < r.Pending):
		case err != nil && last != nil && ctx.Err() != nil: // its end came during the call
			return fmt.Errorf("%w: %w", last, err)
		default:
			return err
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx)) // whose class comes first
		case <-time.After(r.Every):
		}
	}
}

// UsedUp reports whether a create was refused for a quota that another end gives room in.
func UsedUp(err error) bool {
	f, ok := errors.AsType[*backends.Failure](err)
	return ok && f.Class == Quota && errors.Is(err, backends.ErrCapacity)
}

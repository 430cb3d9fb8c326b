package provision

import (
	"context"
	"errors"
	"io"
	"time"

	"sweep.dev/sweep/internal/effect"
)

// brokenPause is between two tries to follow a replica.
const brokenPause = 500 * time.Millisecond

// follow copies what a replica says to its log, and notes its end. Where the
// connection breaks it goes on from where it was.
func (d *deployment) follow(ctx context.Context, m *member, n int, log *effect.File) {
	to := &counted{w: io.Discard, failed: d.unlogged}
	if log != nil {
		defer func() { _ = log.Close() }() // a log that cannot be written must not end a run
		to.w = log
	}
	for ctx.Err() == nil {
		err := m.remote.Follow(ctx, n, to.have, to)
		if err != nil && !errors.Is(err, ErrBroken) {
			d.Ended(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(brokenPause):
		}
	}
}

// A counted writer knows how much has come. What comes after a write that failed
// is dropped.
type counted struct {
	w      io.Writer
	failed func(error)
	have   int64
}

func (c *counted) Write(p []byte) (int, error) {
	if _, err := c.w.Write(p); err != nil {
		c.failed(err)
		c.w = io.Discard
	}
	c.have += int64(len(p))
	return len(p), nil
}

package provision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

const (
	// brokenPause is the first pause between two tries to follow a replica that break
	// at once; it doubles up to attached.
	brokenPause = 500 * time.Millisecond
	// attached is how long a try lasts that counts as one that did not break at once,
	// and how long such tries may go on before the rows say so.
	attached = 10 * time.Second
	// brokenLimit is how long they may go on at all: without the log the server's end
	// is not seen.
	brokenLimit = 2 * time.Minute
)

// follow copies what a replica says to its log, and notes its end. Where the
// connection breaks it goes on from where it was; where it only ever breaks the
// deployment is over.
func (d *deployment) follow(ctx context.Context, m *member, n int, log *effect.File) {
	to := &counted{w: io.Discard, failed: d.unlogged}
	if log != nil {
		defer func() { _ = log.Close() }() // a log that cannot be written must not end a run
		to.w = log
	}
	var since time.Time // when the tries began that broke at once; zero: the last one did not
	said := false
	for pause := brokenPause; ctx.Err() == nil; pause = min(2*pause, attached) {
		begun, had := time.Now(), to.have
		err := m.remote.Follow(ctx, n, to.have, to)
		name := m.unit.Replicas[n].Name()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !errors.Is(err, ErrBroken):
			d.Ended(err)
			return
		case to.have > had || time.Since(begun) >= attached:
			since, pause = time.Time{}, brokenPause
		case since.IsZero():
			since = begun
		case time.Since(since) >= brokenLimit:
			d.Ended(fmt.Errorf("%s cannot be followed for %v: %w", name, brokenLimit, err))
			return
		case time.Since(since) >= attached && !said:
			said = true // once: errors may have a number that changes
			d.note(result.Finding{Code: finding.ServerNotFollowed, Text: fmt.Sprintf("%s cannot be followed: %v", name, err)})
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
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

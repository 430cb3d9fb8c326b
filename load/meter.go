package load

import (
	"context"
	"sync/atomic"
	"time"
)

// reportEvery is how often a driver reports its progress.
const reportEvery = 250 * time.Millisecond

// A Meter counts what a driver has done, for its [Options.Progress]. It may be
// used by several goroutines.
type Meter struct{ Sent, Done, Failed, Tokens atomic.Int64 }

// Progress returns the counts up to now.
func (m *Meter) Progress() Progress {
	// Done before Sent, so that what is in flight is never negative.
	done, failed, tokens := m.Done.Load(), m.Failed.Load(), m.Tokens.Load()
	sent := m.Sent.Load()
	return Progress{
		Sent: int(sent), Done: int(done), Failed: int(failed),
		InFlight: int(max(0, sent-done)), OutputTokens: int(tokens),
	}
}

// Report calls to, if that is not nil, four times a second until the context is
// done.
func (m *Meter) Report(ctx context.Context, to func(Progress)) {
	if to == nil {
		return
	}
	t := time.NewTicker(reportEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			to(m.Progress())
		}
	}
}

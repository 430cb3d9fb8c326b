package executor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/serving/budget"
)

// A meeting lets the first two launches go on once both have asked to rent.
type meeting struct {
	*fakeBackend
	asked *sync.WaitGroup
	n     *atomic.Int32
}

func (b meeting) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	return b.fakeBackend.Launch(ctx, spec, meetingLedger{l, b})
}

type meetingLedger struct {
	backends.Ledger
	meeting
}

func (l meetingLedger) Record(ctx context.Context, a backends.Transition) error {
	err := l.Ledger.Record(ctx, a)
	if a.State == backends.Intended && l.n.Add(1) <= 2 {
		l.asked.Done()
		l.asked.Wait()
	}
	return err
}

// Two launches that both ask before either is billed do not both pass: the
// second one waits until the first one's pod is given back.
func TestMoney_parallel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, gpu: [a, b], concurrency: 1}`, `timeouts: {stop: 100s}`)
	w.backend.usdPerHour = 3600
	b := meeting{w.backend, &sync.WaitGroup{}, &atomic.Int32{}}
	b.asked.Add(2)
	// $101 for each while it is given back, which leaves $49 to measure with.
	rep := w.must(func(c *Config) { c.Parallel, c.Servers.MaxCost, c.Backend = 2, 150, b })
	want(t, "asked", b.n.Load(), 3)
	want(t, "servers", len(w.backend.list()), 2)
	want(t, "at once", w.backend.peak, 1)
	want(t, "committed", rep.Committed, 2)
	want(t, "owed", len(w.state().Owed), 0)
}

// A pod that cannot be ended leaves no room to wait for: the run ends, and reports
// it at once, while it may still be billed.
func TestMoney_stuck(t *testing.T) {
	t.Parallel()
	no := errors.New("cannot be ended")
	w := newWorld(t, always(script{stop: func(context.Context) error { return no }}),
		`matrix: {engine: sim, gpu: [a, b], concurrency: 1}`, `timeouts: {stop: 100m}`)
	// $100 for each while it is given back, and half an hour until $50 more are spent.
	w.backend.usdPerHour = 60
	b := meeting{w.backend, &sync.WaitGroup{}, &atomic.Int32{}}
	b.asked.Add(2)
	rep, err := w.run(t.Context(), func(c *Config) { c.Parallel, c.Servers.MaxCost, c.Backend = 2, 150, b })
	if !errors.Is(rep.Interrupted, budget.ErrMaxCost) || !errors.Is(rep.Left.Cleanup, no) {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "servers", len(w.backend.list()), 1)
	want(t, "owed", len(w.state().Owed), 1)
}

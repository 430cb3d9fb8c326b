package executor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/event"
)

// An intended rental counts at once: however many launches ask at the same time,
// the budget lets as many pass as it can pay for.
func TestMoney_intended(t *testing.T) {
	t.Parallel()
	now := time.Now()
	// A pod at $3600/h costs $10 while it is given back, and $1 for one poll.
	m := &money{max: 25, reserve: 10 * time.Second}
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			switch _, err := m.intend("p", 3600, now); {
			case err == nil:
				passed.Add(1)
			case !errors.Is(err, ErrMaxCost):
				t.Error(err)
			}
		})
	}
	all.Wait()
	want(t, "passed", passed.Load(), 2)
	want(t, "spending", m.spending(now), event.Spending{MaxUSD: 25})

	// One is given up before it was sent, so another one fits; and costs nothing.
	m.end(m.live[0], now.Add(time.Hour))
	r, err := m.intend("q", 3600, now)
	want(t, "in its place", err, nil)
	m.bill(r, now)
	m.bill(r, now.Add(time.Second)) // it is billed from the first moment on
	want(t, "billed", m.spending(now.Add(2*time.Second)), event.Spending{Pods: 1, USDPerHour: 3600, USD: 2, MaxUSD: 25})
	want(t, "over", errors.Is(m.over(now.Add(4*time.Second)), ErrMaxCost), true)
	want(t, "raised", errors.Is(m.raise(r, 7200, now), ErrMaxCost), true)
	want(t, "not raised", m.raise(r, 1, now), nil)
	var full *noRoom
	_, err = m.intend("r", 3600, now)
	want(t, "no room beside others", errors.As(err, &full) && errors.Is(err, ErrMaxCost), true)
	for _, r := range m.live {
		m.strand(r) // none can be ended: there is no room to wait for
	}
	<-full.freed
	_, err = m.intend("r", 3600, now)
	want(t, "no room ever", errors.Is(err, ErrMaxCost) && !errors.As(err, &full), true)
}

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

func (l meetingLedger) Record(ctx context.Context, a backends.Arrow) error {
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
	rep := w.must(func(c *Config) { c.Parallel, c.MaxCost, c.Backend = 2, 150, b })
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
	rep, err := w.run(t.Context(), func(c *Config) { c.Parallel, c.MaxCost, c.Backend = 2, 150, b })
	if !errors.Is(rep.Interrupted, ErrMaxCost) || !errors.Is(rep.Cleanup, no) {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "servers", len(w.backend.list()), 1)
	want(t, "owed", len(w.state().Owed), 1)
}

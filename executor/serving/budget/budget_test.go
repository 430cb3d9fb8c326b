package budget

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/executor/event"
)

// An intended rental counts at once: however many launches ask at the same time,
// the budget lets as many pass as it can pay for.
func TestBudget_intended(t *testing.T) {
	t.Parallel()
	now := time.Now()
	// A pod at $3600/h costs $10 while it is given back, and $1 for one poll.
	b := New(25, 10*time.Second, 0)
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			switch _, err := b.Intend("p", 3600, now); {
			case err == nil:
				passed.Add(1)
			case !errors.Is(err, ErrMaxCost):
				t.Error(err)
			}
		})
	}
	all.Wait()
	want(t, "passed", passed.Load(), 2)
	want(t, "spending", b.Spending(now), event.Spending{MaxUSD: 25})

	// One is given up before it was sent, so another one fits; and costs nothing.
	b.End(b.live[0], now.Add(time.Hour))
	r, err := b.Intend("q", 3600, now)
	want(t, "in its place", err, nil)
	b.Bill(r, now)
	b.Bill(r, now.Add(time.Second)) // it is billed from the first moment on
	want(t, "billed", b.Spending(now.Add(2*time.Second)), event.Spending{Pods: 1, USDPerHour: 3600, USD: 2, MaxUSD: 25})
	want(t, "over", errors.Is(b.over(now.Add(4*time.Second)), ErrMaxCost), true)
	want(t, "raised", errors.Is(b.Raise(r, 7200, now), ErrMaxCost), true)
	want(t, "not raised", b.Raise(r, 1, now), nil)
	var full *NoRoom
	_, err = b.Intend("r", 3600, now)
	want(t, "no room beside others", errors.As(err, &full) && errors.Is(err, ErrMaxCost), true)
	for _, r := range b.live {
		b.Strand(r) // none can be ended: there is no room to wait for
	}
	<-full.Freed
	_, err = b.Intend("r", 3600, now)
	want(t, "no room ever", errors.Is(err, ErrMaxCost) && !errors.As(err, &full), true)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

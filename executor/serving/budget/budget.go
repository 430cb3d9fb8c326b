// Package budget counts what a run spends on rented servers, keeps back what it
// costs to give them back, and says when the run has used up what it may.
package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/executor/event"
)

// Causes with which a run ends that has used up what it may.
var (
	ErrMaxCost  = errors.New("the budget for this run is used up")
	ErrLifetime = errors.New("a pod has reached its max_pod_lifetime")
)

// poll is how often a run looks at what it costs: the increment by which a
// bill may pass the budget, beside the reserve.
const poll = time.Second

// A Rental is what one pod costs. It is intended before its create is sent, and
// billed from the moment at which the pod may exist.
type Rental struct {
	pod        string
	usdPerHour float64
	since      time.Time // zero: intended, not billed yet
	expires    time.Time // zero: never
	stuck      bool      // it could not be ended, and may be billed on
}

func (r *Rental) billed() bool { return !r.since.IsZero() }

func (r *Rental) cost(now time.Time) float64 {
	if !r.billed() {
		return 0
	}
	return r.usdPerHour * now.Sub(r.since).Hours()
}

// A Budget is what a run spends, and what it may. A pod is counted from the moment
// at which its create is sent until it is seen to be gone, at the price that the
// ledger has, which covers disks: never less than the bill, but for the second
// that a provider which bills by the second rounds up.
type Budget struct {
	max     float64       // USD; 0 is no bound
	reserve time.Duration // that a teardown may take: what it costs is kept back

	mu    sync.Mutex
	ended float64 // spent on pods that are gone, also by earlier runs of the directory
	live  []*Rental
	freed chan struct{} // closed when one of live ends or is stuck; nil while no launch waits for it
}

// New makes the budget of a run: maxUSD is 0 for no bound, and spent is gone
// already. reserve is how long a teardown may take.
func New(maxUSD float64, reserve time.Duration, spent float64) *Budget {
	return &Budget{max: maxUSD, reserve: reserve, ended: spent}
}

// A NoRoom is a rental that the budget has no room for beside the others of the
// run, and may have once one of them is given back.
type NoRoom struct {
	Err   error
	Freed <-chan struct{} // closed then
}

func (e *NoRoom) Error() string { return e.Err.Error() }
func (e *NoRoom) Unwrap() error { return e.Err }

// Intend sets aside what one more pod costs, or says that the budget has no room
// for it: with a [NoRoom] as long as other pods are there that can be ended.
// Rentals that are intended and not billed yet count: of two launches at the same
// moment, the second one sees the first.
func (b *Budget) Intend(pod string, usdPerHour float64, now time.Time) (*Rental, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.affords(now, usdPerHour); err != nil {
		if !slices.ContainsFunc(b.live, func(r *Rental) bool { return !r.stuck }) {
			return nil, err
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		return nil, &NoRoom{err, b.freed}
	}
	r := &Rental{pod: pod, usdPerHour: usdPerHour}
	b.live = append(b.live, r)
	return r, nil
}

// Take counts a pod that is there already, even if it is over the budget.
func (b *Budget) Take(pod string, usdPerHour float64, expires, now time.Time) *Rental {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Rental{pod: pod, usdPerHour: usdPerHour, since: now, expires: expires}
	b.live = append(b.live, r)
	return r
}

// Raise sets aside what a rental costs more than was thought, or says that the
// budget has no room for it.
func (b *Budget) Raise(r *Rental, usdPerHour float64, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.affords(now, max(0, usdPerHour-r.usdPerHour)); err != nil {
		return err
	}
	r.usdPerHour = max(r.usdPerHour, usdPerHour)
	return nil
}

// Bill counts what a rental costs from now on.
func (b *Budget) Bill(r *Rental, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.billed() {
		r.since = now
	}
}

// Change takes what is known of a pod by now.
func (b *Budget) Change(r *Rental, usdPerHour float64, expires time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.usdPerHour, r.expires = max(r.usdPerHour, usdPerHour), expires
}

// End counts a pod no more.
func (b *Budget) End(r *Rental, now time.Time) {
	if r == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended += r.cost(now)
	b.live = slices.DeleteFunc(b.live, func(x *Rental) bool { return x == r })
	b.wake()
}

// Strand counts a pod that could not be ended: it costs on, and no launch waits
// for its room.
func (b *Budget) Strand(r *Rental) {
	if r == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.stuck = true
	b.wake()
}

// wake lets the launches that had no room ask again. b.mu is held.
func (b *Budget) wake() {
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// Spending returns the cost of the run up to now.
func (b *Budget) Spending(now time.Time) event.Spending {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := event.Spending{USD: b.ended, MaxUSD: b.max}
	for _, r := range b.live {
		if r.billed() {
			s.Pods++
			s.USDPerHour += r.usdPerHour
			s.USD += r.cost(now)
		}
	}
	return s
}

// affords reports whether the run may cost usdPerHour more: its cost so far, with that
// of all pods that are billed or intended while they are given back and for one
// poll, stays within the budget. b.mu is held.
func (b *Budget) affords(now time.Time, usdPerHour float64) error {
	if b.max <= 0 {
		return nil
	}
	usd, rate := b.ended, usdPerHour
	for _, r := range b.live {
		usd += r.cost(now)
		rate += r.usdPerHour
	}
	if usd+rate*(b.reserve+poll).Hours() > b.max {
		return fmt.Errorf("%w: $%.2f of $%.2f are spent, and pods at $%.2f/h together cost up to $%.2f more while they are given back",
			ErrMaxCost, usd, b.max, rate, rate*b.reserve.Hours())
	}
	return nil
}

// over says why the run has to end now, or nil.
func (b *Budget) over(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.affords(now, 0); err != nil {
		return err
	}
	for _, r := range b.live {
		if !r.expires.IsZero() && now.Add(b.reserve).After(r.expires) {
			return fmt.Errorf("%w: pod %s ends itself at %s", ErrLifetime, r.pod, r.expires.Local().Format(time.TimeOnly))
		}
	}
	return nil
}

// Watch shows what the run costs every few seconds while something is rented, and
// calls stop with the cause when the run has used up what it may. It returns then,
// or with ctx.
func (b *Budget) Watch(ctx context.Context, show func(event.Spending), stop func(error)) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if s := b.Spending(now); s.Pods > 0 && s.USDPerHour > 0 && n%5 == 0 {
				show(s)
			}
			if err := b.over(now); err != nil {
				stop(err)
				return
			}
		}
	}
}

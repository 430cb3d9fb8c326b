package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/event"
	"sweep.dev/sweep/rundir"
)

// Causes with which a run ends that has used up what it may.
var (
	ErrMaxCost  = errors.New("the budget for this run is used up")
	ErrLifetime = errors.New("a pod has reached its max_pod_lifetime")
)

// moneyPoll is how often a run looks at what it costs: the increment by which a
// bill may pass the budget, beside the reserve.
const moneyPoll = time.Second

// A rental is what one pod costs. It is intended before its create is sent, and
// billed from the moment at which the pod may exist.
type rental struct {
	pod        string
	usdPerHour float64
	since      time.Time // zero: intended, not billed yet
	expires    time.Time // zero: never
	stuck      bool      // it could not be ended, and may be billed on
}

func (r *rental) billed() bool { return !r.since.IsZero() }

func (r *rental) cost(now time.Time) float64 {
	if !r.billed() {
		return 0
	}
	return r.usdPerHour * now.Sub(r.since).Hours()
}

// money is what a run spends. It is counted from the moment at which a create is
// sent until the pod is seen to be gone, at the price that the ledger has, which
// covers disks: never less than the bill, but for the second that a provider
// which bills by the second rounds up.
type money struct {
	max     float64       // USD; 0 is no bound
	reserve time.Duration // that a teardown may take: what it costs is kept back

	mu    sync.Mutex
	ended float64 // spent on pods that are gone, also by earlier runs of the directory
	live  []*rental
	freed chan struct{} // closed when one of live ends or is stuck; nil while no launch waits for it
}

// A noRoom is a rental that the budget has no room for beside the others of the
// run, and may have once one of them is given back.
type noRoom struct {
	error
	freed <-chan struct{} // closed then
}

func (e *noRoom) Unwrap() error { return e.error }

// intend sets aside what one more pod costs, or says that the budget has no room
// for it: with a [noRoom] as long as other pods are there that can be ended.
// Rentals that are intended and not billed yet count: of two launches at the same
// moment, the second one sees the first.
func (m *money) intend(pod string, usdPerHour float64, now time.Time) (*rental, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.affords(now, usdPerHour); err != nil {
		if !slices.ContainsFunc(m.live, func(r *rental) bool { return !r.stuck }) {
			return nil, err
		}
		if m.freed == nil {
			m.freed = make(chan struct{})
		}
		return nil, &noRoom{err, m.freed}
	}
	r := &rental{pod: pod, usdPerHour: usdPerHour}
	m.live = append(m.live, r)
	return r, nil
}

// take counts a pod that is there already, whatever the budget says.
func (m *money) take(pod string, o rundir.Owed, now time.Time) *rental {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &rental{pod: pod, usdPerHour: o.USDPerHour, since: now, expires: o.Expires}
	m.live = append(m.live, r)
	return r
}

// raise sets aside what a rental costs more than was thought, or says that the
// budget has no room for it.
func (m *money) raise(r *rental, usdPerHour float64, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.affords(now, max(0, usdPerHour-r.usdPerHour)); err != nil {
		return err
	}
	r.usdPerHour = max(r.usdPerHour, usdPerHour)
	return nil
}

// bill counts what a rental costs from now on.
func (m *money) bill(r *rental, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !r.billed() {
		r.since = now
	}
}

// change takes what is known of a pod by now.
func (m *money) change(r *rental, o rundir.Owed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.usdPerHour, r.expires = max(r.usdPerHour, o.USDPerHour), o.Expires
}

// end counts a pod no more.
func (m *money) end(r *rental, now time.Time) {
	if r == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended += r.cost(now)
	m.live = slices.DeleteFunc(m.live, func(x *rental) bool { return x == r })
	m.wake()
}

// strand counts a pod that could not be ended: it costs on, and no launch waits
// for its room.
func (m *money) strand(r *rental) {
	if r == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r.stuck = true
	m.wake()
}

// wake lets the launches that had no room ask again. m.mu is held.
func (m *money) wake() {
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

func (m *money) spending(now time.Time) event.Spending {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := event.Spending{USD: m.ended, MaxUSD: m.max}
	for _, r := range m.live {
		if r.billed() {
			s.Pods++
			s.USDPerHour += r.usdPerHour
			s.USD += r.cost(now)
		}
	}
	return s
}

// affords says whether the run may cost usdPerHour more: its cost so far, with that
// of all pods that are billed or intended while they are given back and for one
// poll, stays within the budget. m.mu is held.
func (m *money) affords(now time.Time, usdPerHour float64) error {
	if m.max <= 0 {
		return nil
	}
	usd, rate := m.ended, usdPerHour
	for _, r := range m.live {
		usd += r.cost(now)
		rate += r.usdPerHour
	}
	if usd+rate*(m.reserve+moneyPoll).Hours() > m.max {
		return fmt.Errorf("%w: $%.2f of $%.2f are spent, and pods at $%.2f/h together cost up to $%.2f more while they are given back",
			ErrMaxCost, usd, m.max, rate, rate*m.reserve.Hours())
	}
	return nil
}

// over says why the run has to end now, or nil.
func (m *money) over(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.affords(now, 0); err != nil {
		return err
	}
	for _, r := range m.live {
		if !r.expires.IsZero() && now.Add(m.reserve).After(r.expires) {
			return fmt.Errorf("%w: pod %s ends itself at %s", ErrLifetime, r.pod, r.expires.Local().Format(time.TimeOnly))
		}
	}
	return nil
}

// watch ends the run when it has used up what it may. It returns with ctx.
func (r *run) watchMoney(ctx context.Context) {
	tick := time.NewTicker(moneyPoll)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if s := r.money.spending(now); s.Pods > 0 && s.USDPerHour > 0 && n%5 == 0 {
				r.emit(event.Event{Type: event.Money, Spending: &s})
			}
			if err := r.money.over(now); err != nil {
				r.stop(err)
				return
			}
		}
	}
}

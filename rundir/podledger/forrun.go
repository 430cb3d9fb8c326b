package podledger

import (
	"errors"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir"
)

// A RunLedger is the ledger as one run writes it. Its methods may be called
// concurrently.
type RunLedger struct {
	pods  *Ledger
	run   Run
	kind  string
	place string
}

// ForRun returns the ledger of this machine for a run on a kind of backend. place tells the backend's
// configuration from any other: a pod that is kept on another host is the same
// server, and out of reach.
func (b *Ledger) ForRun(run Run, kind, place string) RunLedger { return RunLedger{b, run, kind, place} }

// Ledger is [Ledger.Ledger] with a digest that has the place in it.
func (p RunLedger) Ledger(digest string, inner backends.Ledger) backends.Ledger {
	return p.pods.Ledger(p.run, p.here(digest), inner)
}

func (p RunLedger) here(digest string) string {
	if digest == "" || p.place == "" {
		return digest
	}
	return digest + "@" + p.place
}

// Adopt takes over a kept pod of this owner that was launched with digest and
// is kept for at least life from now; the one that is kept longest. ok is false
// if there is none.
func (p RunLedger) Adopt(digest string, life time.Duration) (o rundir.Owed, ok bool, err error) {
	entries, err := p.pods.Entries()
	if err != nil && !errors.Is(err, ErrDamaged) { // a damaged entry is no reason to rent once more, nor not to
		return rundir.Owed{}, false, err
	}
	for {
		var best *Entry
		for i, e := range entries {
			fits := e.State == backends.Kept && e.Kind == p.kind && e.Owner == p.run.Owner &&
				e.Digest == p.here(digest) && digest != "" && !e.Expires.Before(time.Now().Add(life))
			if fits && (best == nil || e.Expires.After(best.Expires)) {
				best = &entries[i]
			}
		}
		if best == nil {
			return rundir.Owed{}, false, nil
		}
		taken, err := p.pods.Take(*best, p.run)
		switch {
		case err == nil:
			return taken.Owed, true, nil
		case !errors.Is(err, ErrChanged):
			return rundir.Owed{}, false, err
		}
		best.State = backends.Gone // to us: another run was faster
	}
}

// Holds reports whether a pod that the run has kept is still its to give back:
// false if another run has taken it over.
func (p RunLedger) Holds(pod string) (bool, error) {
	entries, err := p.pods.Entries()
	if err != nil {
		return false, err
	}
	taken := slices.ContainsFunc(entries, func(e Entry) bool {
		return e.Pod == pod && e.RunID != p.run.ID && slices.Contains(e.Former, p.run.ID)
	})
	return !taken, nil
}

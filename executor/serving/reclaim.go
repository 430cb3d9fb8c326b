package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/rundir"
)

// A listing returns the pods that a provider has. It asks once.
type listing func() ([]backends.Listed, error)

// list returns a listing that asks the provider at its first call.
func (m *Manager) list(ctx context.Context) listing {
	return sync.OnceValues(func() ([]backends.Listed, error) {
		return m.config.Backend.List(ctx, m.config.State.Manifest.Owner)
	})
}

// Reclaim ends what an earlier run of this directory left running. Nothing new
// is started while something old may still hold a port, a GPU or money.
//
// All pods are ended at once: one whose create got no answer may have to be
// looked for over minutes, and the others cost money meanwhile.
func (m *Manager) Reclaim(ctx context.Context) error {
	if len(m.config.State.Owed) == 0 {
		return nil
	}
	list := m.list(ctx)
	var all sync.WaitGroup
	for _, owed := range m.config.State.Owed {
		all.Go(func() { m.reclaimOne(ctx, owed, list) })
	}
	all.Wait()
	for id, launches := range m.config.State.Launches {
		for n := range launches {
			m.hideInLogs(id, n+1)
		}
	}
	return m.Left().Cleanup
}

// reclaimWithin bounds the end of a pod of an earlier run, beyond what the end of a server may
// take: one whose create got no answer is looked for over minutes.
const reclaimWithin = 10 * time.Minute

// reclaimOne ends one owed pod, if that is due. One that is not seen to be gone in time is owed
// as before, and a clean-up that is not verified.
func (m *Manager) reclaimOne(ctx context.Context, owed rundir.Owed, list listing) {
	limit := m.stopTimeout() + reclaimWithin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not seen to be gone within %v", limit))
	defer cancel()
	due, err := m.due(ctx, owed, list)
	if err == nil && due {
		err = m.terminate(ctx, m.ledger, owed, list)
	}
	switch {
	case err != nil:
		m.addCleanup(fmt.Errorf("pod %s of an earlier run: %w", owed.Pod, err))
		m.owe(owed)
	case due:
		m.config.Run.Emit(event.Event{Type: event.Notice, Text: fmt.Sprintf("pod %s of an earlier run is gone", owed.Pod)})
	}
}

// due reports whether a pod that an earlier run of this directory owes is to be
// ended now. Another run may have taken over one that it kept, and given it back.
func (m *Manager) due(ctx context.Context, owed rundir.Owed, list listing) (bool, error) {
	if !owed.Kept() || m.config.Options.PodLedger == nil {
		return true, nil
	}
	holds, err := m.config.Options.PodLedger.Holds(owed.Pod)
	if err != nil {
		return false, err
	}
	known, err := list()
	if err != nil {
		return false, fmt.Errorf("list what an earlier run left: %w", err)
	}
	there := slices.ContainsFunc(known, func(l backends.Listed) bool { return l.Name == owed.Name })
	if !holds || !there && !owed.Due(time.Now()) {
		return false, m.config.Dir.Ledger().Record(ctx, backends.Transition{Pod: owed.Pod, State: backends.Gone})
	}
	return owed.Due(time.Now()), nil
}

// terminate ends everything that an owed pod may be: what the ledger names, and
// what else the provider lists as this launch's. When it returns without an error
// the ledger says that the pod is gone.
//
// A pod whose id is known is ended without waiting for the list, and never waits
// for the search for one whose create got no answer.
func (m *Manager) terminate(ctx context.Context, l backends.Ledger, owed rundir.Owed, list listing) error {
	// A full disk is no reason to leave anything running.
	disk := l.Record(ctx, backends.Transition{Pod: owed.Pod, State: backends.DeleteSent})
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	end := func(refs ...backends.Ref) { // one after another
		all.Go(func() {
			for _, ref := range refs {
				if err := m.config.Backend.Terminate(ctx, ref); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	var lost []backends.Ref // what has to be looked for by its name
	switch {
	case owed.Ref != nil:
		end(*owed.Ref)
	// Of an intent alone nothing was sent. If the answer to what was sent is not
	// known, the pod may show up late, and a second one too.
	case owed.Name != "" && owed.State != backends.Intended:
		lost = []backends.Ref{owed.Find(m.config.State.Manifest.RunID)}
	}
	known, listErr := list()
	for _, p := range known {
		switch {
		case p.RunID != m.config.State.Manifest.RunID, p.Pod != owed.Pod:
		case owed.Ref != nil && owed.Ref.ID == p.ID:
		case len(lost) > 0 && p.Name == owed.Name:
			lost = append(lost, p.Ref) // after the search, which finds it at once
		default:
			end(p.Ref)
		}
	}
	end(lost...)
	all.Wait()
	if listErr != nil {
		errs = append(errs, fmt.Errorf("list what is left: %w", listErr))
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(disk, err)
	}
	return errors.Join(disk, l.Record(ctx, backends.Transition{Pod: owed.Pod, State: backends.Gone}))
}

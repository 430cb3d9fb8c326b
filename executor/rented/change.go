package rented

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir/podledger"
)

// ErrExpired is a pod that would end itself as soon as it is started.
var ErrExpired = errors.New("its expiry time has passed, so it would end at once")

// endTimeout bounds the end of one pod, beyond what its provider may need until
// it is seen to be gone.
const endTimeout = 5 * time.Minute

// Stop stops a pod. It is written down first: a stopped pod that the ledger
// takes for a running one would be ended by sweep gc, and what is on its disk
// would be lost.
func (inv *Inventory) Stop(ctx context.Context, p Pod) error {
	pauser, err := p.pauser()
	if err != nil {
		return err
	}
	return inv.journaled(p, backends.Stopped, func() error { return pauser.Pause(ctx, p.ref()) })
}

// Start starts a stopped pod. If its run is over a person has it now: it is
// kept until its time is over, and the next run of the same server may adopt it.
func (inv *Inventory) Start(ctx context.Context, p Pod) error {
	pauser, err := p.pauser()
	if err != nil {
		return err
	}
	if until := p.Until(); !until.IsZero() && !until.After(time.Now()) {
		return ErrExpired
	}
	state := backends.Kept
	if p.Run == RunLive {
		state = backends.Created
	}
	return inv.journaled(p, state, func() error { return pauser.Resume(ctx, p.ref()) })
}

func (p Pod) pauser() (backends.Pauser, error) {
	pauser, ok := p.By.backend.(backends.Pauser)
	if !ok {
		return nil, fmt.Errorf("pods of %s cannot be stopped and started, only terminated", p.Kind)
	}
	return pauser, nil
}

// Terminate ends a pod and returns when it is seen to be gone.
func (inv *Inventory) Terminate(ctx context.Context, p Pod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTimeout+p.By.Factory.Settle, errors.New("not seen to be gone in time"))
	defer cancel()
	e, err := inv.write(p, backends.DeleteSent)
	if errors.Is(err, podledger.ErrChanged) {
		return err
	}
	disk := err // a full disk is no reason to leave anything running
	if err := p.By.backend.Terminate(ctx, p.ref()); err != nil {
		return errors.Join(disk, err)
	}
	p.Entry = e
	_, err = inv.write(p, backends.Gone)
	return errors.Join(disk, err)
}

// once leaves each entry of the ledger with the first pod that shares it, which
// writes it down for all.
func once(list []Pod) []Pod {
	seen := map[*podledger.Entry]bool{}
	for i, p := range list {
		if p.Entry != nil && seen[p.Entry] {
			list[i].Entry = nil
		}
		seen[p.Entry] = true
	}
	return list
}

// journaled writes a state down, does what leads to it, and writes the earlier
// one down again if that fails.
func (inv *Inventory) journaled(p Pod, state backends.State, do func() error) error {
	e, err := inv.write(p, state)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		if e != nil {
			_, back := inv.ledger.Update(*e, backends.Transition{Pod: e.Pod, State: p.Entry.State})
			err = errors.Join(err, back)
		}
		return err
	}
	return nil
}

// write writes down what becomes of a pod, if the ledger has it.
func (inv *Inventory) write(p Pod, state backends.State) (*podledger.Entry, error) {
	if p.Entry == nil {
		return nil, nil
	}
	e, err := inv.ledger.Update(*p.Entry, backends.Transition{Pod: p.Entry.Pod, State: state})
	return &e, err
}

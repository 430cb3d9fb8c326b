package serving

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/serving/budget"
	"sweep.dev/sweep/rundir"
)

// A pod is one launch as its ledger knows it. It is the ledger of its own
// launch, and remembers whether something of it is owed.
type pod struct {
	of     *Servers
	name   string // Spec.Pod
	ledger backends.Ledger

	mu     sync.Mutex
	owed   rundir.Owed    // Pod is "" while nothing is
	rental *budget.Rental // what it costs; nil before it is intended
}

// Record implements [backends.Ledger]. What the run cannot pay for is not begun.
func (p *pod) Record(ctx context.Context, a backends.Transition) error {
	if a.State == backends.Intended {
		if err := p.intend(a.USDPerHour); err != nil {
			return err
		}
	}
	err := p.ledger.Record(ctx, a)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.State == backends.Created && p.owed.Pod != "":
		p.owed.Apply(a, time.Now()) // whether or not it could be written down
	case err != nil:
	case a.State == backends.Gone:
		p.owed = rundir.Owed{}
	default:
		p.owed.Apply(a, time.Now())
	}
	switch {
	case p.owed.Pod == "", p.owed.State == backends.Kept:
		p.of.m.budget.End(p.rental, time.Now())
		p.rental = nil
	case p.rental != nil:
		if p.owed.State != backends.Intended {
			p.of.m.budget.Bill(p.rental, time.Now())
		}
		p.of.m.budget.Change(p.rental, p.owed.USDPerHour, p.owed.Expires)
	}
	return err
}

// intend sets aside what the pod will cost.
func (p *pod) intend(usdPerHour float64) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rental != nil { // an earlier create of this launch is not known to be gone
		return p.of.m.budget.Raise(p.rental, usdPerHour, time.Now())
	}
	p.rental, err = p.of.m.budget.Intend(p.name, usdPerHour, time.Now())
	return err
}

// hold records a running pod that is taken over: this run owes its end and pays its cost, even
// if the intent could not be written down or is over the budget.
func (p *pod) hold(intent backends.Transition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owed.Pod == "" {
		p.owed.Apply(intent, time.Now())
		p.rental = p.of.m.budget.Take(p.name, p.owed.USDPerHour, p.owed.Expires, time.Now())
	}
}

// debt returns what of the pod is owed now.
func (p *pod) debt() (owed rundir.Owed, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owed, p.owed.Pod != ""
}

// strand notes that the pod could not be ended, if anything of it is owed.
func (p *pod) strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owed.Pod != "" {
		p.of.m.owe(p.owed)
		p.of.m.budget.Strand(p.rental)
	}
}

// settle ends what a launch that failed could not release itself. Where that
// fails too the deployment is given up.
func (p *pod) settle() {
	owed, ok := p.debt()
	if !ok {
		return
	}
	ctx, cancel := p.of.m.teardown("what the launch left did not end in time")
	defer cancel()
	if err := p.of.m.terminate(ctx, p, owed, p.of.m.list(ctx)); err != nil {
		p.strand()
		p.of.giveUp(fmt.Errorf("pod %s of a launch that failed: %w", owed.Pod, err))
	}
}

// stop ends a deployment that was launched. A ledger that cannot be written is
// no reason to leave anything running.
func (p *pod) stop(ctx context.Context, dep backends.Deployment) error {
	var disk []error
	for _, state := range []backends.State{backends.Draining, backends.DeleteSent} {
		disk = append(disk, p.Record(ctx, backends.Transition{Pod: p.name, State: state}))
	}
	if err := dep.Stop(ctx); err != nil {
		return errors.Join(append(disk, fmt.Errorf("stop %s: %w", p.name, err))...)
	}
	return errors.Join(append(disk, p.Record(ctx, backends.Transition{Pod: p.name, State: backends.Gone}))...)
}

// keep leaves a deployment running until a date, for a later run of the same
// server.
func (p *pod) keep(ctx context.Context, dep backends.Keeper, until time.Time) error {
	if err := p.Record(ctx, backends.Transition{Pod: p.name, State: backends.Kept, Expires: &until}); err != nil {
		return err
	}
	if err := dep.Keep(ctx, until); err != nil {
		return fmt.Errorf("keep %s: %w", p.name, err)
	}
	return nil
}

package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir"
)

// ledgerOf returns the ledger of one launch: the run directory's and the ledger of the machine.
func (d *Servers) ledgerOf(spec backends.Spec) backends.Ledger {
	if d.config.Options.PodLedger == nil {
		return d.config.Dir.Ledger()
	}
	return d.config.Options.PodLedger.Ledger(spec.Digest, d.config.Dir.Ledger())
}

// leastLife is how much longer a kept pod has to live to be worth adopting.
const leastLife = 10 * time.Minute

// obtain takes over a kept server that is the same, or launches one.
func (d *Servers) obtain(ctx context.Context, spec backends.Spec, p *pod) (backends.Deployment, error) {
	adopter, ok := d.config.Backend.(backends.Adopter)
	if !ok || d.config.Options.PodLedger == nil || d.config.Plan.Repeats.Each() { // a kept server's launch may be that of other trials
		return d.config.Backend.Launch(ctx, spec, p)
	}
	kept, ok, err := d.config.Options.PodLedger.Adopt(spec.Digest, leastLife)
	if err != nil {
		return nil, fmt.Errorf("look for a kept pod: %w", err)
	}
	if !ok {
		return d.config.Backend.Launch(ctx, spec, p)
	}
	dep, err := d.adopt(ctx, adopter, spec, p, kept)
	if !errors.Is(err, backends.ErrNotFound) {
		return dep, err
	}
	d.notice("the kept pod %s is gone; another one is launched", kept.Name)
	return d.config.Backend.Launch(ctx, spec, p)
}

// adopt takes over a kept pod: its life goes on in this run's ledger.
func (d *Servers) adopt(ctx context.Context, b backends.Adopter, spec backends.Spec, p *pod, kept rundir.Owed) (backends.Deployment, error) {
	ref := kept.Find(spec.RunID)
	p.name = kept.Pod // by which the ledger of the machine has it already
	// It is there already, so even the first transition has its ref: of an intent
	// without one nothing was sent, and nothing is ended.
	intent := backends.Transition{
		Pod: p.name, State: backends.Intended, Kind: kept.Kind, Name: kept.Name, At: kept.At,
		Expires: &kept.Expires, USDPerHour: kept.USDPerHour, Ref: &ref,
	}
	for _, a := range []backends.Transition{
		intent,
		{Pod: p.name, State: backends.Sent},
		{Pod: p.name, State: backends.Created, Ref: &ref},
	} {
		if err := p.Record(ctx, a); err != nil {
			p.hold(intent)
			return nil, err
		}
	}
	spec.Expires = kept.Expires
	dep, err := b.Adopt(ctx, spec, ref)
	if errors.Is(err, backends.ErrNotFound) {
		err = errors.Join(err, p.Record(ctx, backends.Transition{Pod: p.name, State: backends.Gone}))
		p.name = spec.Pod
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", kept.Name, err)
	}
	d.notice("pod %s, which an earlier run kept, is taken over", kept.Name)
	return dep, nil
}

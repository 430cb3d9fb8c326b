package rundir

import (
	"context"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// Ledger is the pods' ledger of this run, for backends.
func (d *Dir) Ledger() backends.Ledger { return ledger{d.journal} }

// A ledger writes the life of pods into a journal.
type ledger struct{ j *journal }

var _ backends.Ledger = ledger{}

// Intent looks at ctx: what is not wanted any more is not begun.
func (l ledger) Intent(ctx context.Context, pod, kind string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.j.append(effect.LedgerIntent, typePodIntent, podIntent{Pod: pod, Kind: kind})
}

func (l ledger) Created(_ context.Context, pod string, ref backends.Ref) error {
	return l.j.append(effect.LedgerCreated, typePodCreated, podCreated{Pod: pod, Ref: ref})
}

func (l ledger) Gone(_ context.Context, pod string) error {
	return l.j.append(effect.LedgerGone, typePodGone, podGone{Pod: pod})
}

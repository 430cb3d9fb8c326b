package rundir

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// Ledger returns the pods' ledger of this run, for backends.
func (d *Dir) Ledger() backends.Ledger { return ledger{d.journal} }

// A ledger writes the life of pods into a journal: one line of the type pod for
// each transition.
type ledger struct{ j *journal }

var _ backends.Ledger = ledger{}

// points are the transitions' fault points.
func point(s backends.State) (effect.Point, bool) {
	switch s {
	case backends.Intended:
		return effect.LedgerIntent, true
	case backends.Sent:
		return effect.LedgerSent, true
	case backends.Created:
		return effect.LedgerCreated, true
	case backends.Ready:
		return effect.LedgerReady, true
	case backends.Kept:
		return effect.LedgerKept, true
	case backends.Stopped:
		return effect.LedgerStopped, true
	case backends.Draining:
		return effect.LedgerDraining, true
	case backends.DeleteSent:
		return effect.LedgerDelete, true
	case backends.Gone:
		return effect.LedgerGone, true
	}
	return "", false
}

// Record implements [backends.Ledger].
func (l ledger) Record(ctx context.Context, a backends.Transition) error {
	if a.State == backends.Intended && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	at, ok := point(a.State)
	if !ok || a.Pod == "" {
		return fmt.Errorf("ledger: no pod has the state %q (pod %q)", a.State, a.Pod)
	}
	return l.j.append(at, typePod, a)
}

// An Owed pod was intended, perhaps made, and is not known to be gone.
type Owed struct {
	Pod        string
	Kind       string
	State      backends.State
	Name       string
	At         map[string]string
	Expires    time.Time // zero if it has none
	USDPerHour float64
	Ref        *backends.Ref // nil if only the intent is known
	Since      time.Time     // of the intent
	Changed    time.Time     // of the last transition
}

// Find returns the ref by which a backend finds the pod: the one it gave, or one
// that says the name alone.
func (o Owed) Find(runID string) backends.Ref {
	if o.Ref != nil {
		return *o.Ref
	}
	return backends.Ref{Kind: o.Kind, RunID: runID, Pod: o.Pod, Name: o.Name, Details: o.At}
}

// Kept reports whether it was left running on purpose.
func (o Owed) Kept() bool { return o.State == backends.Kept }

// Due reports whether the pod should be gone by now: not one that is kept until
// later.
func (o Owed) Due(now time.Time) bool {
	return !o.Kept() || !now.Before(o.Expires)
}

// Apply takes one more transition of a pod's life, at its time. After any transition
// but the last the pod is owed, in any order of transitions: asking about it once too
// often costs nothing.
func (o *Owed) Apply(a backends.Transition, at time.Time) {
	if a.State == backends.Intended || o.Pod == "" {
		*o = Owed{Pod: a.Pod, Since: at}
	}
	o.State, o.Changed = a.State, at
	if a.Kind != "" {
		o.Kind = a.Kind
	}
	if a.Name != "" {
		o.Name = a.Name
	}
	if a.At != nil {
		o.At = a.At
	}
	if a.Expires != nil {
		o.Expires = *a.Expires
	}
	if a.USDPerHour > 0 {
		o.USDPerHour = a.USDPerHour
	}
	if a.Ref != nil {
		o.Ref = a.Ref
		o.Kind = cmp.Or(o.Kind, a.Ref.Kind)
	}
}

// pod takes a transition into the list of what is owed.
func (r *replayer) pod(e Event) error {
	a, err := into[backends.Transition](e)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.owed, func(o Owed) bool { return o.Pod == a.Pod })
	switch {
	case a.State == backends.Gone && i >= 0:
		if o := r.owed[i]; o.State != backends.Intended { // else nothing was sent
			r.st.SpentUSD += o.USDPerHour * e.Time.Sub(o.Since).Hours()
		}
		r.owed = slices.Delete(r.owed, i, i+1)
		return nil
	case a.State == backends.Gone:
		return nil // said twice, by a run that died in between and by its resume
	case i < 0:
		r.owed = append(r.owed, Owed{})
		i = len(r.owed) - 1
	}
	r.owed[i].Apply(a, e.Time)
	return nil
}

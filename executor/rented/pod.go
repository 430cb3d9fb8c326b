package rented

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir/podledger"
)

// A RunSeen is what can be told from here of the run that a pod belongs to.
type RunSeen string

// The states in which a run is seen.
const (
	RunUnseen RunSeen = ""        // its directory is not here, or is another run's
	RunLive   RunSeen = "live"    // its directory is locked
	RunEnded  RunSeen = "not run" // its directory is here, and is not locked
)

// A Pod is what a provider, the ledger of this machine, or both say of one pod.
// If only the ledger does, Listed is made of that.
type Pod struct {
	backends.Listed
	AtProvider bool             // a provider lists it
	Entry      *podledger.Entry // nil if the ledger does not have it
	Run        RunSeen
	Holder     string // who has the run directory locked, in words that begin with a space

	By *Provider // lists it, or would be asked about it; nil if none can
}

// Label returns the pod's name, or its id at the provider if it has none.
func (p Pod) Label() string { return cmp.Or(p.Name, p.ID) }

// Asked reports whether the pod's provider was asked, and answered.
func (p Pod) Asked() bool { return p.By != nil && p.By.Err == nil }

// expires returns when the pod has to be gone by what its provider says. A mark
// that allows more time than the name was not made by this version of us: the
// later one counts.
func (p Pod) expires() time.Time {
	name, _ := backends.ParseName(p.Name)
	if p.Expires.After(name.Expires) {
		return p.Expires
	}
	return name.Expires
}

// Until returns when the pod has to be gone, also by what the ledger says; zero if
// nothing does.
func (p Pod) Until() time.Time {
	if p.Entry != nil && (p.Entry.State == backends.Kept || p.expires().IsZero()) {
		return p.Entry.Expires
	}
	return p.expires()
}

// Overdue reports whether the pod should be gone by now.
func (p Pod) Overdue(now time.Time) bool {
	until := p.Until()
	return !until.IsZero() && over(now, until)
}

// USD returns the cost of the pod so far in USD, at its provider's price.
func (p Pod) USD(now time.Time) float64 {
	if p.Since.IsZero() {
		return 0
	}
	return p.USDPerHour * max(0, now.Sub(p.Since)).Hours()
}

// skew is how far the clock of the machine that made a pod may be behind ours:
// a pod counts as expired when its time has been over for that long.
const skew = 2 * time.Minute

// over reports whether a date is past, also for a clock that is late.
func over(now, date time.Time) bool { return !now.Before(date.Add(skew)) }

// A ForeignError says why a pod is not provably its owner's.
type ForeignError struct{ Pod, Why string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("pod %s is not provably yours: %s", e.Pod, e.Why)
}

// Foreign returns a [*ForeignError] if the pod is not provably owner's by its name and
// its marks.
func (p Pod) Foreign(owner string) error {
	if _, why := ours(p.Listed, owner); why != "" {
		return &ForeignError{p.Label(), why}
	}
	return nil
}

// Is reports whether the pod is owner's: by its name, or by the ledger.
func (p Pod) Is(owner string) bool {
	return p.Foreign(owner) == nil || p.Entry != nil && p.Entry.Owner == owner
}

// ours returns what a pod's name says if it is provably one that sweep has made for
// owner, and else why it is not.
func ours(l backends.Listed, owner string) (name backends.Name, why string) {
	name, ok := backends.ParseName(l.Name)
	switch {
	case !ok:
		return name, "its name is not one that sweep gives"
	case owner == "" || name.Owner != backends.OwnerTag(owner) && name.Owner != owner:
		return name, "it is another owner's"
	case l.Owner != "" && l.Owner != name.Owner && backends.OwnerTag(l.Owner) != name.Owner:
		return name, "its marks name another owner than its name"
	case l.RunID != "" && l.RunID != name.Run && backends.RunTag(l.RunID) != name.Run:
		return name, "its marks name another run than its name"
	}
	return name, ""
}

// ref returns what the provider finds the pod by: as it lists it, or as the ledger
// has it.
func (p Pod) ref() backends.Ref {
	if !p.AtProvider && p.Entry != nil {
		return p.Entry.Find()
	}
	return p.Ref
}

// Access asks the provider how the pod is reached from this machine, replica by
// replica.
func (p Pod) Access(ctx context.Context) ([]backends.Access, error) {
	if p.By == nil {
		return nil, fmt.Errorf("no %s could be asked", p.Kind)
	}
	if p.By.Err != nil {
		return nil, p.By.Err
	}
	from, ok := p.By.backend.(backends.Accessor)
	if !ok {
		return nil, fmt.Errorf("backend %s does not say how to reach its pods", p.Kind)
	}
	ctx, cancel := asking(ctx)
	defer cancel()
	return from.Access(ctx, p.ref())
}

package rented

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/rundir"
)

// A Scope is the pods that may be ended as left behind, and when.
type Scope struct {
	Now     time.Time
	Owner   string // in full, or its tag
	Run     string // only this run's, whatever is known of it; "" for all
	Expired bool   // only what is past its date
}

// An Action is what to do with a pod.
type Action string

// The actions.
const (
	Foreign Action = "foreign" // not provably this owner's: never touched
	Other   Action = "other"   // of a run that was not asked for
	Leave   Action = "leave"
	End     Action = "end"
)

// A Decision is what to do with a pod, and why.
type Decision struct {
	Pod    Pod
	Action Action
	Why    string
}

// Decide decides about every pod, in their order.
func (inv *Inventory) Decide(s Scope) []Decision {
	list := make([]Decision, len(inv.Pods))
	for i, p := range inv.Pods {
		list[i] = Decision{Pod: p}
		list[i].Action, list[i].Why = decide(p, s)
	}
	return list
}

// decide never ends what is not provably the owner's, and no unexpired pod of a
// run that is at work; it always ends the owner's expired ones. What cannot be
// seen from here is left until its date unless a person names the run.
func decide(p Pod, s Scope) (Action, string) {
	name, why := ours(p.Listed, s.Owner)
	if why != "" {
		return Foreign, why
	}
	if s.Run != "" && s.Run != name.Run && backends.RunTag(s.Run) != name.Run {
		return Other, "of another run"
	}
	expires := p.expires()
	left := humanize.Duration(expires.Sub(s.Now))
	if over(s.Now, expires) {
		return End, fmt.Sprintf("its time was over %s ago", humanize.Duration(s.Now.Sub(expires)))
	}
	if p.Entry != nil {
		switch until := p.Entry.Expires; p.Entry.State {
		case backends.Kept:
			if over(s.Now, until) {
				return End, fmt.Sprintf("it was kept until %s ago", humanize.Duration(s.Now.Sub(until)))
			}
			return Leave, "it is kept for another " + humanize.Duration(until.Sub(s.Now))
		case backends.Stopped:
			return Leave, "a person has stopped it; its time is over in " + left
		}
	}
	switch {
	case p.Run == RunLive:
		return Leave, "its run is at work" + p.Holder
	case s.Expired:
		return Leave, "its time is over in " + left
	case s.Run != "":
		return End, "it is of the run that was named"
	case p.Run == RunEnded:
		return End, "its run is not at work any more"
	}
	ends := "it expires in " + left
	if !p.Lease.IsZero() && p.Lease.Before(expires) {
		ends = "without a sign of life of its run it ends in " + humanize.Duration(max(0, p.Lease.Sub(s.Now)))
	}
	return Leave, fmt.Sprintf("its run is not visible from here, and %s: sweep gc --run %s ends it", ends, name.Run)
}

// End ends pods, all at once, since each is money. It returns the error of each:
// nil if the pod is seen to be gone.
func (inv *Inventory) End(ctx context.Context, list []Pod) []error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, p := range once(slices.Clone(list)) {
		all.Go(func() {
			if p.By == nil || p.By.backend == nil {
				errs[i] = fmt.Errorf("no %s could be asked", p.Kind)
				return
			}
			errs[i] = inv.Terminate(ctx, p)
		})
	}
	all.Wait()
	return errs
}

// A Run is the run that is about to rent something.
type Run struct {
	ID      string
	Owner   string
	Factory backends.Factory
	Backend backends.Backend
	Owed    []rundir.Owed // by its own journal
}

// An Ended is a pod that was left behind, why it was ended, and the error if it is
// not seen to be gone.
type Ended struct {
	Pod Pod
	Why string
	Err error
}

// EndLeftovers ends what earlier runs of the owner have left at the run's own
// provider: what is past its date, and what is of a run that is over. The error is
// that of a provider that does not answer.
func (s Sources) EndLeftovers(ctx context.Context, r Run) ([]Ended, error) {
	own := &Provider{Factory: r.Factory, backend: r.Backend}
	inv := &Inventory{Providers: []*Provider{own}}
	entries := inv.open(s)
	inv.ask(ctx)
	if own.Err != nil {
		return nil, own.Err
	}
	inv.join(entries, func(kind string) bool { return kind == r.Factory.Kind })
	for i, p := range inv.Pods {
		// This process has rented nothing yet, and what the journal owes is the
		// executor's: a pod that is this run's by the ledger of the machine
		// alone was being taken over when an earlier process died.
		if p.Entry != nil && p.Entry.RunID == r.ID &&
			!slices.ContainsFunc(r.Owed, func(o rundir.Owed) bool { return o.Pod == p.Entry.Pod }) {
			inv.Pods[i].Run = RunEnded
		}
	}
	var ended []Ended
	var due []Pod
	for _, d := range inv.Decide(Scope{Now: time.Now(), Owner: r.Owner}) {
		if d.Action == End {
			due = append(due, d.Pod)
			ended = append(ended, Ended{Pod: d.Pod, Why: d.Why})
		}
	}
	for i, err := range inv.End(ctx, due) {
		ended[i].Err = err
	}
	return ended, nil
}

package main

import (
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir/book"
)

// What sweep gc ends and what it leaves, decided without looking anywhere.

// skew is how far the clock of the machine that made a pod may be behind ours:
// a pod counts as expired when its time has been over for that long.
const skew = 2 * time.Minute

// A runSeen is what can be told from here of the run that a pod belongs to.
type runSeen string

const (
	runUnseen runSeen = ""        // its directory is not here, or is another run's
	runLive   runSeen = "live"    // its directory is locked
	runEnded  runSeen = "not run" // its directory is here, and nobody has it locked
)

// A found pod is what a provider, the ledger of this machine, or both say of
// one pod. Where only the ledger does, Listed is made of that.
type found struct {
	backends.Listed
	listed bool        // a provider lists it
	entry  *book.Entry // nil where the ledger does not have it
	run    runSeen
	holder string // who has the run directory locked, in words

	by *vendor // who lists it, or would be asked about it; nil where nobody can
}

// A scope is the pods that sweep gc may end, and when.
type scope struct {
	now     time.Time
	owner   string // in full, or its tag
	run     string // only this run's, whatever is known of it; "" for all
	expired bool   // only what is past its date
}

// A decision is what to do with a found pod, and why.
type decision struct {
	action action
	why    string
}

type action string

const (
	foreign action = "foreign" // not provably this owner's: never touched
	other   action = "other"   // of a run that was not asked for
	leave   action = "leave"
	end     action = "end"
)

// decide never ends what is not provably the owner's, and no unexpired pod of a
// run that is at work; it always ends the owner's expired ones. What can not be
// seen from here is left until its date unless a person names the run.
func decide(f found, s scope) decision {
	name, why := ours(f.Listed, s.owner)
	if why != "" {
		return decision{foreign, why}
	}
	if s.run != "" && s.run != name.Run && backends.RunTag(s.run) != name.Run {
		return decision{other, "of another run"}
	}
	expires := f.expires()
	if over(s.now, expires) {
		return decision{end, fmt.Sprintf("its time was over %s ago", span(s.now.Sub(expires)))}
	}
	if f.entry != nil {
		switch until := f.entry.Expires; f.entry.State {
		case backends.Kept:
			if over(s.now, until) {
				return decision{end, fmt.Sprintf("it was kept until %s ago", span(s.now.Sub(until)))}
			}
			return decision{leave, "it is kept for another " + span(until.Sub(s.now))}
		case backends.Stopped:
			return decision{leave, fmt.Sprintf("a person has stopped it; its time is over in %s", span(expires.Sub(s.now)))}
		}
	}
	switch {
	case f.run == runLive:
		return decision{leave, "its run is at work" + f.holder}
	case s.expired:
		return decision{leave, "its time is over in " + span(expires.Sub(s.now))}
	case s.run != "":
		return decision{end, "it is of the run that was named"}
	case f.run == runEnded:
		return decision{end, "its run is not at work any more"}
	}
	return decision{leave, fmt.Sprintf("its run cannot be seen from here, and its time is over in %s: sweep gc --run %s ends it", span(expires.Sub(s.now)), name.Run)}
}

// expires is when the pod has to be gone by what stands at its provider. A mark
// that allows more time than the name was not made by this version of us: the
// later one counts.
func (f found) expires() time.Time {
	name, _ := backends.ParseName(f.Name)
	if f.Expires.After(name.Expires) {
		return f.Expires
	}
	return name.Expires
}

// until is when the pod has to be gone, also by what the ledger says; zero where
// nothing does.
func (f found) until() time.Time {
	if f.entry != nil && (f.entry.State == backends.Kept || f.expires().IsZero()) {
		return f.entry.Expires
	}
	return f.expires()
}

// over says whether a date is past, also for a clock that is late.
func over(now, date time.Time) bool { return !now.Before(date.Add(skew)) }

// ours says what a pod's name says where it is provably one that sweep has made
// for owner, and else why it is not.
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

// span is a time for people, never negative.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

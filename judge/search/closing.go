package search

import (
	"slices"

	"sweep.dev/sweep/result/objective"
)

// closes is how many trials may close a search at each certified load: the second is run where
// the first missed an objective, as one trial in some does by chance.
const closes = 2

// closing returns the next trial that shows whether a certified load is still carried at the end
// of a search. One that was measured last needs none, and one of several devices has none: their
// servers are gone but for the last.
func closing(s Settings, outcomes []Outcome, answers []Answer) (next Probe, ok bool) {
	end := len(outcomes)
	for end > 0 && outcomes[end-1].Why == Close {
		end--
	}
	if end == 0 || s.Devices > 1 {
		return Probe{}, false
	}
	last := outcomes[end-1]
	for _, a := range answers {
		if a.Capacity == nil {
			continue
		}
		level := slices.Index(s.Levels, *a.Capacity)
		if level == last.Level && last.Why == Confirm {
			continue
		}
		kept, missed, void := closed(outcomes[end:], level, a.Objective)
		if kept > 0 || missed >= closes || void >= maxInvalid {
			continue
		}
		next = Probe{Level: level, Trial: tried(outcomes, level) + 1, Why: Close, Device: last.Device, Times: 1}
		for _, o := range outcomes {
			if o.Level == level && o.Why == Confirm {
				next.Times = max(next.Times, o.Times)
			}
		}
		return next, true
	}
	return Probe{}, false
}

// closed counts the closing trials of a level that kept an objective, that missed it, and that
// say nothing.
func closed(outcomes []Outcome, level int, name string) (kept, missed, void int) {
	for _, o := range outcomes {
		if o.Why != Close || o.Level != level {
			continue
		}
		met, known := o.keptObjective(name)
		switch {
		case o.State == Failed || known && !met:
			missed++
		case known:
			kept++
		default:
			void++
		}
	}
	return kept, missed, void
}

// keptObjective reports whether a trial kept an objective; known is false if it says nothing of it.
func (o *Outcome) keptObjective(name string) (keptObjective, known bool) {
	for _, r := range o.SLOs {
		if r.Name == name && o.measured() {
			keptObjective, known = objective.Kept(r)
			return keptObjective, known && !(keptObjective && o.State == Drifting)
		}
	}
	return false, false
}

// refuse takes back the certificates of loads that the server did not carry at the end.
func refuse(s Settings, outcomes []Outcome, answers []Answer) {
	for i := range answers {
		a := &answers[i]
		if a.Capacity == nil {
			continue
		}
		if _, missed, _ := closed(outcomes, slices.Index(s.Levels, *a.Capacity), a.Objective); missed < closes {
			continue
		}
		a.Reason, a.By, a.Capacity, a.OpenFrom, a.OpenTo = Changed, "", nil, nil, nil
		for d := range a.Devices {
			a.Devices[d].Capacity, a.Devices[d].Reason = nil, Changed
		}
	}
}

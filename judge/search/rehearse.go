package search

import (
	"fmt"
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// Rehearse is a search of a server that keeps every objective on the levels below edge
// and on none from there on, the probes in their order. Each level of a sure one is
// certified at the first look; of another one with all that it may have, and only two levels
// below that which the first stage has found. Trials that are not run because
// of their device are left out.
func Rehearse(s Settings, edge int, sure bool) []Probe { return RehearseFrom(s, nil, edge, sure) }

// RehearseFrom is [Rehearse] of what is left of a search after some outcomes. A sure one goes on
// on the devices that it has had, and another one on others, as a new launch may.
func RehearseFrom(s Settings, done []Outcome, edge int, sure bool) []Probe {
	on := make(map[int]string, max(1, s.Devices))
	if sure {
		for device, id := range devices(s, done) {
			on[device] = id
		}
	} else {
		s.Trials, s.MaxTrials = max(s.Trials, s.MaxProbes/4), s.MaxProbes
	}
	outcomes := slices.Clone(done)
	var probes []Probe
	for {
		p, ok := Next(s, outcomes)
		if !ok {
			return probes
		}
		o := rehearsed(s, p, edge, sure)
		if id := on[p.Device]; id != "" {
			o.On = id
		}
		outcomes, probes = append(outcomes, o), append(probes, p)
	}
}

// Edges are the levels that may still be the first that a server does not keep, by what a
// search has tried on its way: from above low up to high.
func Edges(s Settings, done []Outcome) (low, high int) {
	low, high = 0, len(s.Levels)
	answers := Answers(s, done)
	for _, i := range s.turns() {
		a := answers[i]
		if a.Reason != Budget {
			continue // it has its answer
		}
		low, high = max(0, lastKept(done, a.Objective)), len(s.Levels)
		for _, o := range done {
			if kept, known := keptBy(o, a.Objective); known && !kept && o.Level > low {
				high = min(high, o.Level)
			}
		}
		break // the loads of a later one are above
	}
	return low, max(low+1, high)
}

// lastKept is the highest level that kept an objective on the way; -1 for none.
func lastKept(done []Outcome, name string) int {
	last := -1
	for _, o := range done {
		if kept, known := keptBy(o, name); known && kept {
			last = max(last, o.Level)
		}
	}
	return last
}

// keptBy says whether a trial on the way to a point estimate kept an objective.
func keptBy(o Outcome, name string) (kept, known bool) {
	if o.Why != Find || o.State != Measured {
		return false, false
	}
	for _, r := range o.SLOs {
		if r.Name == name {
			return objective.Kept(r)
		}
	}
	return false, false
}

// rehearsed is how a probe of a rehearsal ends. Its objective has one part, which all
// values keep or none.
func rehearsed(s Settings, p Probe, edge int, sure bool) Outcome {
	const n, allowed = 400, 0.05
	over := 0
	switch {
	case p.Level >= edge && (sure || p.Why == Find):
		over = n
	case !sure && p.Why == Confirm && p.Level >= edge-2:
		over = n * allowed // which no number of trials decides
	}
	o := Outcome{Probe: p, State: Measured, On: fmt.Sprint(p.Device)}
	for _, name := range s.Objectives {
		part := result.SLOPart{Rule: result.RuleShare, Allowed: allowed, N: n, Requests: n, Over: over, Deff: 1, Verdict: result.SLOUndecided}
		o.SLOs = append(o.SLOs, result.SLOResult{Name: name, Verdict: result.SLOUndecided, Parts: []result.SLOPart{part}})
	}
	return o
}

// Launches is how many servers what is left of a search starts, once it is done with so many
// devices: one on each other device, and at most as many more as may be on one that is taken.
func (s Settings) Launches(done int) (expected, most int) {
	all := max(1, s.Devices)
	n := max(1, all-done)
	further := min(n, all-1) // the first device of all may be any
	return n, n + further*(maxSeen+1)
}

package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"sweep.dev/sweep/result"
)

// A Server is one that a search is rehearsed on.
type Server struct {
	Edge     int // it keeps every objective on the levels below this, and on none from there on
	Requests int // of a trial of the plan; 0 stands for 300
	// Hard is a server whose levels are certified with all that each may have, and only two below
	// that which the first stage has found. Of another one the share of requests over a limit is
	// the allowed one at the edge and grows with the load as steeply as [steepness] says, and of
	// requests that fare alike up to [alike] say as much as one.
	Hard bool
}

// What is expected of a server that is not known: the share of requests over a limit is logistic
// in the logarithm of the load, and requests of a trial fare alike. With these a search takes
// about what searches of the batching engine in docs/statistics.md take. A trial is worth 30
// requests that fare each for itself, or more.
const (
	steepness = 8.0
	alike     = 20.0
)

// Rehearse returns the probes of a search in their order. Trials that are not run because of
// their device are left out.
func Rehearse(s Settings, server Server) []Probe { return RehearseFrom(s, nil, server) }

// RehearseFrom is [Rehearse] of what is left of a search after some outcomes. One goes on on the
// devices that it has had, and a hard one on others, as a new launch may.
func RehearseFrom(s Settings, done []Outcome, server Server) []Probe {
	on := make(map[int]string, max(1, s.Devices))
	if !server.Hard {
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
		o := server.Ends(s, p)
		if id := on[p.Device]; id != "" {
			o.On = id
		}
		outcomes, probes = append(outcomes, o), append(probes, p)
	}
}

// Edges returns the levels that may still be the first that a server does not keep, by what a
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

// lastKept returns the highest level that kept an objective on the way; -1 for none.
func lastKept(done []Outcome, name string) int {
	last := -1
	for _, o := range done {
		if kept, known := keptBy(o, name); known && kept {
			last = max(last, o.Level)
		}
	}
	return last
}

// keptBy reports whether a trial on the way to a point estimate kept an objective.
func keptBy(o Outcome, name string) (kept, known bool) {
	if o.Why != Find || o.State != Measured {
		return false, false
	}
	return o.keptObjective(name)
}

// Ends returns how a probe of a rehearsal ends. Its objective has one part.
func (v Server) Ends(s Settings, p Probe) Outcome {
	const allowed = 0.05
	each := cmp.Or(v.Requests, 300)
	n := each * max(1, p.Times)
	part := result.SLOPart{Rule: result.RuleShare, Allowed: allowed, N: n, Requests: n, Deff: 1, Verdict: result.SLOUndecided}
	switch {
	case v.Hard && p.Why == Find && p.Level >= v.Edge:
		part.Over = n
	case v.Hard && p.Why == Confirm && p.Level >= v.Edge-2:
		part.Over = n / 20 // which no number of trials decides
	case !v.Hard:
		part.Deff = min(alike, max(1, float64(each)/30))
		at := s.Levels[min(v.Edge, len(s.Levels)-1)]
		if v.Edge >= len(s.Levels) { // beyond the last
			at *= 2
		}
		odds := allowed / (1 - allowed) * math.Exp(steepness*math.Log(s.Levels[p.Level]/at))
		part.Over = int(math.Round(float64(n) * odds / (1 + odds)))
		if p.Level >= v.Edge {
			part.Over = max(part.Over, int(float64(n)*allowed)+1)
		}
	}
	o := Outcome{Probe: p, State: Measured, On: fmt.Sprint(p.Device)}
	if !v.Hard {
		o.Requests = n
	}
	for _, name := range s.Objectives {
		o.SLOs = append(o.SLOs, result.SLOResult{Name: name, Verdict: result.SLOUndecided, Parts: []result.SLOPart{part}})
	}
	return o
}

// Launches returns how many servers what is left of a search starts, once it is done with so many
// devices: one on each other device, and at most as many more as may be on one that is taken.
func (s Settings) Launches(done int) (expected, most int) {
	all := max(1, s.Devices)
	n := max(1, all-done)
	further := min(n, all-1) // the first device of all may be any
	return n, n + further*(maxSeen+1)
}

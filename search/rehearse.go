package search

import (
	"fmt"

	"sweep.dev/sweep/result"
)

// Rehearse is a search of a server that keeps every objective on the levels below edge
// and on none from there on, the probes in their order. Each level of a sure one is
// certified at the first look; of another one with all trials that it may have, and only
// two levels below that which the first stage has found. Trials that are not run because
// of their device are left out.
func Rehearse(s Settings, edge int, sure bool) []Probe {
	if !sure {
		s.Trials = s.MaxTrials
	}
	var outcomes []Outcome
	for {
		p, ok := Next(s, outcomes)
		if !ok {
			break
		}
		outcomes = append(outcomes, rehearsed(s, p, edge, sure))
	}
	probes := make([]Probe, len(outcomes))
	for i, o := range outcomes {
		probes[i] = o.Probe
	}
	return probes
}

// rehearsed is how a probe of a rehearsal ends. Its objective has one part, which all
// values keep or none.
func rehearsed(s Settings, p Probe, edge int, sure bool) Outcome {
	const n, allowed = 400, 0.05
	over := 0
	if p.Level >= edge || !sure && p.Why == Confirm && p.Level >= edge-2 {
		over = n
	}
	o := Outcome{Probe: p, State: Measured, On: fmt.Sprint(p.Device)}
	for _, name := range s.Objectives {
		part := result.SLOPart{Rule: result.RuleShare, Allowed: allowed, N: n, Requests: n, Over: over, Deff: 1, Verdict: result.SLOUndecided}
		o.SLOs = append(o.SLOs, result.SLOResult{Name: name, Verdict: result.SLOUndecided, Parts: []result.SLOPart{part}})
	}
	return o
}

// Launches is how many servers a search starts: one on each device, and at most so many
// that are on a device that is taken.
func (s Settings) Launches() (expected, most int) {
	n := max(1, s.Devices)
	return n, n + (n-1)*(maxSeen+1)
}

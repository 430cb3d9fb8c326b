// Package validity says which numbers of a trial may be used. It has each cause by which
// they may not in one of three lists: another thing was measured, which makes the row
// INVALID; the client observed late what the server did, which bounds by how far each figure
// may be off; or something that a figure is made of is not known.
//
// It judges the measurement alone: the trial of a slow server is VALID, and the
// objectives say whether the server is good enough. It has no clock and does no I/O.
package validity

import (
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/summary"
)

// Evidence is all that a verdict rests on.
type Evidence struct {
	// Row holds the trial's columns. A column that is null breaks no rule.
	Row      result.Row
	Requests []result.Request
	Health   load.Health // of the run that was measured
	// Reported is what others have found; an engine that was restarted is a reason, and so
	// is a stack that changed or was reached through a tunnel.
	Reported []result.Finding

	Open        bool // the load is an open loop
	MaxInFlight int  // the plan's bound of an open loop; 0: none
	Exact       bool // every request must yield MaxTokens tokens
	Warmup      int  // requests that the plan warms up with
	// Shared is the largest share of the prompts' tokens, the template's among
	// them, that a prefix cache can know by what the load shares between prompts,
	// 0 to 1; nil if that cannot be said.
	Shared *float64
	// MayKnow: an earlier run may have left the prompts in the server's prefix
	// cache, and nothing has emptied it.
	MayKnow bool
	// Moves: the cached tokens of the answers may have come from another server, so they
	// say nothing of a prefix cache.
	Moves bool
	// Server is what the server's machine says of its processes, and Thefts what
	// it says of its hypervisor; empty if the server runs elsewhere.
	Server []Process
	Thefts []Theft
	// Figures returns the figures of the trial and what its objectives come to, moved by a
	// shift; nil of those as they were measured. Nil: nothing is known of them.
	Figures func(*summary.Shift) (result.Row, []result.SLOResult)
	// Compiled is a line of the server's log that says that it compiled a kernel under the
	// load; "" for none.
	Compiled string
	// Drifts are the trends over the plateau.
	Drifts []Drift
	// Ceiling is what the client carries by calibration, in chunks per second; 0
	// if that is not known.
	Ceiling float64
	// Disturbed says why the calibration is of a machine that did other things
	// meanwhile; no rule rests on it then. "" if it was quiet.
	Disturbed string
	// Unrepresentative says why the content cannot answer how fast the server is;
	// "" if it can.
	Unrepresentative string
	// Expected are reasons that are none in this trial: the plan asked to end the
	// load by them.
	Expected []finding.Code
}

// A Drift is how one figure changed over the plateau.
type Drift struct {
	Name   string  // of the figure: ttft, tpot, throughput
	Change float64 // from the plateau's begin to its end, as a share of the begin
	// P is the probability that a series without a trend shows one like this.
	P float64
}

package timeline

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

// plateauShare is the share of its target that a load must have in flight to
// be on its plateau. Below 1, because the turn from one request to the next
// takes a moment in which a slot has none; at small targets it is all of them.
const plateauShare = 0.95

// AssignPhases sets the Phase of each measured request by the moment it was
// sent. The plateau is from the first to the last moment at which the target
// was in flight: what was sent before is ramp, after it tail. A load that never
// reached its target is all ramp. A target of 0 is that of an open loop, which
// has none: all of it is plateau. Requests of the warm-up stay what they are;
// those that were never sent are tail.
func AssignPhases(requests []result.Request, target int) {
	from, to := plateau(requests, target)
	for i := range requests {
		r := &requests[i]
		switch {
		case !r.Measured():
		case r.Sent == result.Never:
			r.Phase = result.Tail
		case target <= 0:
			r.Phase = result.Plateau
		case r.Sent < from:
			r.Phase = result.Ramp
		case r.Sent > to:
			r.Phase = result.Tail
		default:
			r.Phase = result.Plateau
		}
	}
}

// plateau returns the first and the last moment with the target in flight.
func plateau(requests []result.Request, target int) (from, to time.Duration) {
	type edge struct {
		at   time.Duration
		step int
	}
	edges := make([]edge, 0, 2*len(requests))
	for i := range requests {
		if r := &requests[i]; r.Measured() && r.Sent != result.Never {
			edges = append(edges, edge{r.Sent, 1}, edge{max(r.Sent, r.End), -1})
		}
	}
	// Where one ends as another begins, the load did not fall.
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step))
	})
	need := max(1, int(math.Ceil(plateauShare*float64(target))))
	from = math.MaxInt64
	inFlight := 0
	for _, e := range edges {
		before := inFlight
		inFlight += e.step
		if inFlight >= need {
			from = min(from, e.at)
		}
		if inFlight >= need || before >= need {
			to = e.at
		}
	}
	return from, to
}

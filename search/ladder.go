package search

import "math"

// maxRungs bounds a ladder: 0.5 to 1,000 requests a second in steps of 1 % has 765.
const maxRungs = 4096

// A Ladder is the loads that a search may try, from the least up.
type Ladder []float64

// NewLadder has from, to, and between them loads that are each a share within above the
// one below, at least 1 if whole. It is nil if the bounds are no ladder: from and within
// above 0, to at least from, and at most 4,096 rungs.
func NewLadder(from, to, within float64, whole bool) Ladder {
	if !(from > 0) || !(to >= from) || !(within > 0) || math.IsInf(to, 0) || math.IsInf(within, 0) {
		return nil
	}
	var l Ladder
	for level := from; level < to; {
		if l = append(l, level); len(l) >= maxRungs {
			return nil
		}
		next := level * (1 + within)
		if whole {
			next = max(level+1, math.Floor(next+1e-9))
		}
		level = next
	}
	return append(l, to)
}

// double is the first rung with at least twice the load of rung i, or the last.
func (l Ladder) double(i int) int {
	for j := i + 1; j < len(l); j++ {
		if l[j] >= 2*l[i] {
			return j
		}
	}
	return len(l) - 1
}

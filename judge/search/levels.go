package search

import "math"

// maxLevels bounds a list of levels: 0.5 to 1,000 requests a second in steps of 1 % has 765.
const maxLevels = 4096

// Levels are the loads that a search may try, from the least up.
type Levels []float64

// NewLevels has from, to, and between them loads that are each a share within above the
// one below, at least 1 if whole. It is nil if the bounds are no list: from and within
// above 0, to at least from, and at most 4,096 levels.
func NewLevels(from, to, within float64, whole bool) Levels {
	if !(from > 0) || !(to >= from) || !(within > 0) || math.IsInf(to, 0) || math.IsInf(within, 0) {
		return nil
	}
	var l Levels
	for level := from; level < to; {
		if l = append(l, level); len(l) >= maxLevels {
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

// double returns the first level with at least twice the load of level i, or the last.
func (l Levels) double(i int) int {
	for j := i + 1; j < len(l); j++ {
		if l[j] >= 2*l[i] {
			return j
		}
	}
	return len(l) - 1
}

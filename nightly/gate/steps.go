package gate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// The constants of [Steps].
const (
	stepLevel  = 0.002 // the chance that a quiet series is divided
	stepRounds = 999   // permutations that a division is held against
	stepLeast  = 3     // nights on each side of it
)

// A Step is a change of level within a series.
type Step struct {
	Night  int     // the first of the new level
	Before float64 // mean of the nights from the step before until this one
	After  float64 // mean of the nights from this one until the next step
}

// Steps returns the nights with which the level of a series changed, oldest first: binary
// segmentation (Scott and Knott, Biometrics 30, 1974) by the largest two-sample t, which
// is held against that of 999 random orders of the same nights. The orders are always
// the same, so the answer is. NaN and infinities are left out; a step smaller than
// [MinChange] of its level is none.
//
// Unlike the band of [Replay] it sees all nights at once, also those after: it says when
// something changed, and is no gate.
func Steps(values []float64) []Step {
	var known []float64
	var at []int
	for i, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			known, at = append(known, v), append(at, i)
		}
	}
	random := rand.New(rand.NewPCG(1, uint64(len(known))))
	cuts := divide(known, 0, random, nil)
	slices.Sort(cuts)
	var steps []Step
	bounds := append(append([]int{0}, cuts...), len(known))
	for i := 1; i+1 < len(bounds); i++ {
		s := Step{at[bounds[i]], stats.Mean(known[bounds[i-1]:bounds[i]]), stats.Mean(known[bounds[i]:bounds[i+1]])}
		if math.Abs(s.After-s.Before) >= MinChange*math.Abs(s.Before) {
			steps = append(steps, s)
		}
	}
	return steps
}

// divide appends the cuts of a part of a series that begins with night from.
func divide(part []float64, from int, random *rand.Rand, cuts []int) []int {
	cut, t := largest(part)
	if cut == 0 {
		return cuts
	}
	shuffled := slices.Clone(part)
	above := 1
	for range stepRounds {
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if _, other := largest(shuffled); other >= t {
			if above++; float64(above) > stepLevel*(stepRounds+1) {
				return cuts
			}
		}
	}
	cuts = divide(part[:cut], from, random, append(cuts, from+cut))
	return divide(part[cut:], from+cut, random, cuts)
}

// largest returns where a part divides best, with the square of its t; 0 if it is too short
// or of one value.
func largest(part []float64) (cut int, square float64) {
	n := float64(len(part))
	if len(part) < 2*stepLeast {
		return 0, 0
	}
	// Around the mean, so that sums of squares do not cancel.
	m, total := stats.Mean(part), 0.0
	for _, v := range part {
		total += (v - m) * (v - m)
	}
	if total == 0 {
		return 0, 0
	}
	left := 0.0
	for i, v := range part[:len(part)-stepLeast] {
		left += v - m
		k := float64(i + 1)
		if i+1 < stepLeast {
			continue
		}
		between := left * left * n / (k * (n - k))
		if t := between / max(total-between, 1e-12*total); t > square {
			cut, square = i+1, t
		}
	}
	return cut, square
}

package conclude

import (
	"math"

	"sweep.dev/sweep/result"
)

// MostFurther is how many trials are added to a cell at once, at most: one that needs more has
// trials that are too short.
const MostFurther = 20

// beyondNeed is how many times the requests that a cell is said to need it has at most: that is
// an estimate, and the trials end once the cell is decided.
const beyondNeed = 1.4

// Further returns how many more trials like its own an undecided cell needs at most; 0 for
// any other, and if that is not known.
func (p *Point) Further() int {
	if p.Verdict != Undecided || p.Valid == 0 {
		return 0
	}
	trials := 0.0
	for _, o := range p.Objectives {
		if o.Severity == SeverityWarn || o.Verdict != result.SLOUndecided {
			continue
		}
		for _, part := range o.Parts {
			if part.Verdict != result.SLOUndecided {
				continue
			}
			n := lacking(part, float64(p.Valid))
			if n == 0 {
				return 0
			}
			trials = max(trials, n)
		}
	}
	return int(math.Ceil(beyondNeed * trials))
}

// lacking returns how many trials a part of an objective lacks, of which it had so many; 0 if that
// is not known.
func lacking(p result.SLOPart, trials float64) (n float64) {
	if p.MoreRequests > 0 && p.Requests > 0 {
		n = trials * float64(p.MoreRequests) / float64(p.Requests)
	}
	if p.MoreSeconds > 0 && p.Seconds > 0 {
		n = max(n, trials*p.MoreSeconds/p.Seconds)
	}
	for _, side := range p.Any { // one of which decides it
		if side.Verdict == result.SLOUndecided {
			n = max(n, lacking(side, trials))
		}
	}
	return n
}

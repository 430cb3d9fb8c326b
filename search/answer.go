package search

import (
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// Reasons why a search ended: a closed list.
const (
	Certified   = "certified"     // the answer holds with the confidence asked for
	AboveRange  = "above_range"   // the highest level is certified
	BelowRange  = "below_range"   // the lowest level misses the objective
	Client      = "client_bound"  // the client is at its limit on the level above the answer
	Budget      = "budget"        // trials, time or money ended first
	NotMonotone = "not_monotone"  // a level above the one that fails keeps the objective
	TooNoisy    = "too_noisy"     // no level could be certified
	ServerFails = "server_failed" // the server fails at the lowest level
	NotMeasured = "invalid"       // a level that was needed has no VALID trial
)

// An Answer is what a search found for one objective.
type Answer struct {
	Objective string
	Reason    string
	// Capacity is the certified load; nil if there is none.
	Capacity *float64
	// Point is the highest load whose one trial kept the objective on the way.
	Point *float64
	// FailsAt is the least load above Capacity whose trials missed the objective, and
	// Missed the parts of the objective that they missed.
	FailsAt *float64
	Missed  []string
	// Contradicts is a load above FailsAt that certainly keeps the objective.
	Contradicts *float64
	Requests    int // of all trials of the search, for all objectives
}

// end is an answer with a certified level.
func (t *tier) end(certified int) {
	t.answer.Capacity = &t.Levels[certified]
	t.answer.Reason = Certified
	switch {
	case certified == len(t.Levels)-1:
		t.answer.Reason = AboveRange
	case certified == t.top:
		t.answer.Reason = Client
	}
	t.fails(certified + 1)
}

// lowest is the answer if not even the lowest level is certified.
func (t *tier) lowest(verdict string) {
	switch {
	case t.levels[0].broken():
		t.answer.Reason = ServerFails
	case verdict == result.SLOFail:
		t.answer.Reason = BelowRange
	default:
		t.answer.Reason = TooNoisy
	}
	t.fails(0)
}

// fails names the least level from one on that missed the objective, and one above that
// certainly keeps it.
func (t *tier) fails(from int) {
	for i := from; i <= t.top; i++ {
		r := &t.levels[i]
		trials := slices.Concat(r.find, r.confirm)
		if len(trials) == 0 && !r.broken() {
			continue
		}
		var pooled result.SLOResult
		kept := false
		if !r.broken() {
			pooled = objective.Pool(trials)
			kept, _ = objective.Kept(pooled)
		}
		switch {
		case t.answer.FailsAt == nil && !kept:
			t.answer.FailsAt = &t.Levels[i]
			for _, p := range pooled.Parts {
				if one := (result.SLOResult{Verdict: p.Verdict, Parts: []result.SLOPart{p}}); !holds(one) {
					t.answer.Missed = append(t.answer.Missed, p.Expr)
				}
			}
		case t.answer.FailsAt != nil && pooled.Verdict == result.SLOPass && t.answer.Contradicts == nil:
			t.answer.Contradicts = &t.Levels[i]
			if t.answer.Reason == Certified {
				t.answer.Reason = NotMonotone
			}
		}
	}
}

func holds(r result.SLOResult) bool {
	kept, _ := objective.Kept(r)
	return kept
}

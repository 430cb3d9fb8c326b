package models

import (
	"math"
	"math/rand/v2"

	"sweep.dev/sweep/result"
)

// Objective is the name of the objective of a [Limit].
const Objective = "fast"

// A Limit is a server of which one objective is known: at its capacity 5 % of the
// requests are over 200 ms, and the share is logistic in the logarithm of the rate.
type Limit struct {
	Capacity float64 // requests a second, from 60 to 140
	requests int     // of a trial
	deff     int     // so many requests fare alike
	rng      *rand.Rand
}

// Of the logistic function, and of how far the rates of equal trials differ.
const (
	slope   = 8
	between = 0.01
	allowed = 0.05
)

// NewLimit has a capacity by chance.
func NewLimit(seed uint64, requests, deff int) *Limit {
	r := chance(seed, 100+uint64(deff))
	return &Limit{Capacity: 60 + 80*r.Float64(), requests: requests, deff: deff, rng: r}
}

// Trial is the objective in a trial at a rate, which is not decided yet.
func (l *Limit) Trial(rate float64) result.SLOResult {
	rate *= math.Exp(between * l.rng.NormFloat64())
	share := 1 / (1 + math.Exp(-slope*math.Log(rate/l.Capacity)-math.Log(allowed/(1-allowed))))
	over := 0
	for n := 0; n < l.requests; n += l.deff {
		if l.rng.Float64() < share {
			over += min(l.deff, l.requests-n)
		}
	}
	return result.SLOResult{Name: Objective, Parts: []result.SLOPart{{
		Expr: "p95_ttft_ms < 200", Rule: result.RuleShare, Column: "p95_ttft_ms", Op: "<", Limit: 200,
		Allowed: allowed, Requests: l.requests, N: l.requests, Over: over, Deff: float64(l.deff),
	}}}
}

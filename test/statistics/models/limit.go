package models

import (
	"fmt"
	"math"
	"math/rand/v2"

	"sweep.dev/sweep/result"
)

// Names of the objectives of a [Limit] and of [Tiers].
const (
	Objective = "fast"
	Loose     = "loose"
)

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
	r := stream(seed, 100+uint64(deff))
	return &Limit{Capacity: 60 + 80*r.Float64(), requests: requests, deff: deff, rng: r}
}

// Trial returns the objective in a trial at a rate, so many times as long, which is not decided yet.
func (l *Limit) Trial(rate float64, times int) result.SLOResult {
	return l.judged(Objective, 200, times, l.over(rate, times, l.Capacity)[0])
}

// over returns how many requests of a trial are over the limit of each capacity. One that is
// over the limit of a capacity is over those of all smaller ones.
func (l *Limit) over(rate float64, times int, capacities ...float64) []int {
	rate *= math.Exp(between * l.rng.NormFloat64())
	over := make([]int, len(capacities))
	for n := 0; n < times*l.requests; n += l.deff {
		u := l.rng.Float64()
		for i, c := range capacities {
			if u < 1/(1+math.Exp(-slope*math.Log(rate/c)-math.Log(allowed/(1-allowed)))) {
				over[i] += min(l.deff, times*l.requests-n)
			}
		}
	}
	return over
}

func (l *Limit) judged(name string, limit float64, times, over int) result.SLOResult {
	return result.SLOResult{Name: name, Parts: []result.SLOPart{{
		Expr: fmt.Sprintf("p95_ttft_ms < %.0f", limit), Rule: result.RuleShare, Column: "p95_ttft_ms", Op: "<", Limit: limit,
		Allowed: allowed, Requests: times * l.requests, N: times * l.requests, Over: over, Deff: float64(l.deff),
	}}}
}

// Tiers are a server with two objectives on the same requests, of which [Objective] implies
// [Loose]: a request that is over the limit of the second is over that of the first.
type Tiers struct {
	Limit           // of the strict one
	Loosest float64 // capacity of the loose one, in requests a second
}

// NewTiers has a strict capacity by chance, and a loose one of as much to half as much again.
// The server of a seed has the same capacities for each search, which has trials of its own.
func NewTiers(seed, search uint64, requests, deff int) *Tiers {
	l := NewLimit(seed, requests, deff)
	t := &Tiers{Limit: *l, Loosest: l.Capacity * (1 + l.rng.Float64()/2)}
	t.rng = stream(seed, 1000*(search+1)+uint64(deff))
	return t
}

// Trial returns both objectives in a trial at a rate, so many times as long, which are not decided yet.
func (t *Tiers) Trial(rate float64, times int) []result.SLOResult {
	over := t.over(rate, times, t.Capacity, t.Loosest)
	return []result.SLOResult{t.judged(Objective, 200, times, over[0]), t.judged(Loose, 400, times, over[1])}
}

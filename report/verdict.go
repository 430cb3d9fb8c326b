package report

import (
	"fmt"
	"sort"
	"strings"

	"sweep.dev/sweep/result"
)

// A Verdict is what a person should think of one trial.
type Verdict string

// The verdicts, best first.
const (
	SweetSpot  Verdict = "sweet spot"
	Acceptable Verdict = "acceptable"
	Unstable   Verdict = "unstable"
	Missed     Verdict = "SLO failed"
	Invalid    Verdict = "INVALID"
	FailedRun  Verdict = "failed"
	Pending    Verdict = "pending"
)

// JitterBound is how far a p95 may stand from its p50 before a cell is called
// unstable.
const JitterBound = 2.0

// jitterFloorMS is the p95 under which jitter is nobody's concern: half of a
// frame at 60 Hz.
const jitterFloorMS = 8.0

// Rules says how verdicts are reached, in the words that every summary prints.
var Rules = []string{
	"acceptable: valid, and every objective of severity fail is met",
	fmt.Sprintf("unstable: acceptable, but the p95 of TTFT or TPOT is more than %.0f times its p50 (and above %.0f ms)", JitterBound, jitterFloorMS),
	"sweet spot: of the acceptable cells of one server that differ in concurrency or request rate alone, the one with the most output tokens/s",
}

// Verdicts judges all trials of a run, by their index in Trials.
func (r *Run) Verdicts() []Verdict {
	verdicts := make([]Verdict, len(r.Trials))
	best := map[string]int{}
	for i, t := range r.Trials {
		verdicts[i] = verdict(t)
		if verdicts[i] != Acceptable {
			continue
		}
		g := ladder(t.Cell)
		j, ok := best[g]
		if !ok || number(t.Outcome.Row, "throughput_tok_s") > number(r.Trials[j].Outcome.Row, "throughput_tok_s") {
			best[g] = i
		}
	}
	for _, i := range best {
		verdicts[i] = SweetSpot
	}
	return verdicts
}

func verdict(t Trial) Verdict {
	if t.Outcome == nil {
		return Pending
	}
	row := t.Outcome.Row
	switch row["status"] {
	case result.StatusOK:
	case result.StatusInvalid:
		return Invalid
	default:
		return FailedRun
	}
	for _, s := range t.Outcome.SLOs {
		if !s.Pass && s.Severity != "warn" {
			return Missed
		}
	}
	for _, m := range []string{"ttft", "tpot"} {
		p50, p95 := number(row, "p50_"+m+"_ms"), number(row, "p95_"+m+"_ms")
		if p50 > 0 && p95 > jitterFloorMS && p95 > JitterBound*p50 {
			return Unstable
		}
	}
	return Acceptable
}

// ladder names the cells that differ in the amount of load alone.
func ladder(c Cell) string {
	var parts []string
	for _, s := range c.Settings {
		if s.Column != "concurrency" && s.Column != "request_rate" {
			parts = append(parts, fmt.Sprintf("%s=%v", s.Column, s.Value))
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}

// number is a column's value as a float64; 0 where it is null.
func number(row result.Row, name string) float64 {
	switch v := row[name].(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return 0
}

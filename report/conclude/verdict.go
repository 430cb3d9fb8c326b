package conclude

import (
	"fmt"
	"math"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// A Verdict is what a person should think of a trial, or of a cell.
type Verdict string

// The verdicts, best first.
const (
	SweetSpot  Verdict = "sweet spot" // of a cell only
	Acceptable Verdict = "acceptable"
	Unstable   Verdict = "unstable"
	Undecided  Verdict = "undecided" // no objective was missed, and one is undecided or could not be checked
	Missed     Verdict = "SLO failed"
	Invalid    Verdict = "INVALID"
	NoStart    Verdict = "did not start"
	FailedRun  Verdict = "failed"
	Skipped    Verdict = "skipped" // not run, because of what other levels of its axis tell
	Pending    Verdict = "pending"
)

const (
	// jitterBound is the ratio of p95 to p50 above which jitter is reported. It is no
	// fault: spread lengths spread the times.
	jitterBound = 2.0
	// jitterFloorMS is the p95 under which jitter is not seen: half of a frame at
	// 60 Hz.
	jitterFloorMS = 8.0
	// spreadBound is how far a cell's tokens/s may certainly vary between its trials,
	// as a share of their mean, before the cell is called unstable.
	spreadBound = 0.10
	// spreadConfidence is how sure that must be: two or three trials scatter widely.
	spreadConfidence = 0.95
	// preemptionBound is the preemptions for each completed request from which on the
	// engine throws away what it has computed, and a cell is unstable.
	preemptionBound = 0.01
	// kneeShare is the share of the most tokens/s that the sweet spot must
	// reach: past it more load buys latency, and next to nothing else.
	kneeShare = 0.95
)

// Rules says how verdicts are reached, in the words that every summary prints.
var Rules = []string{
	"acceptable: valid, and every objective of severity fail is met",
	"undecided: valid, no objective of severity fail is missed, and one has too few requests to tell, or could not be checked",
	fmt.Sprintf("unstable: acceptable, but tokens/s differ between trials by more than %.0f %% (the lower bound of sd / mean, at a confidence of %.0f %%), the engine preempted more than %.0f %% of the requests, or could not follow",
		100*spreadBound, 100*spreadConfidence, 100*preemptionBound),
	fmt.Sprintf("jitter zone: the p95 of TTFT or TPOT is more than %.0f times its p50 (and above %.0f ms), which is reported and decides nothing", jitterBound, jitterFloorMS),
	fmt.Sprintf("sweet spot: of the acceptable cells that differ in concurrency or request rate alone, the one of the least load from which on up to the most tokens/s each gives certainly (at %.0f %%) %.0f %% of what any of them gives; its line names those not distinguishable from the best", 100*(1-level), 100*kneeShare),
	"hole: a cell with an INVALID, failed, pending or undecided trial. A sweet spot is not decided if a hole is below it, next above it or next above a cell that may have the most tokens/s; the best cell of a side is not decided if a hole is next above it",
	fmt.Sprintf("one side is worse than another if the %.0f %% interval of their ratio says so: of the differences between trials of one number, or within the trials if there is one of each; ~ is not distinguishable, and a difference of four standard errors or more says how many trials more would tell it", 100*(1-level)),
	"sides are ranked at equal load, or each at its best of the loads that all of them were given; engines and servers with the finding " + finding.ContentUnrepresentative.String() + " are not ranked",
}

// Judge returns the verdict on one trial by itself.
func Judge(t Trial) Verdict {
	v, _ := judge(t.Outcome)
	return v
}

// judge returns the verdict on an outcome, and the reason of an unstable or undecided
// one.
func judge(o *result.Outcome) (v Verdict, why string) {
	if v := standing(o); v != "" {
		return v, ""
	}
	if v, why = met(o.SLOs); v != Acceptable {
		return v, why
	}
	if why := swamped([]result.Row{o.Row}); why != "" {
		return Unstable, why
	}
	return Acceptable, ""
}

// swamped says that an engine could not follow, or threw away what it had computed for
// more requests than a few; else it is "".
func swamped(rows []result.Row) string {
	preemptions, completed := 0.0, 0.0
	for _, row := range rows {
		if row[col.EndedBy] == stopping.Saturated {
			return "requests came faster than the server ended them"
		}
		preemptions += row.Float(col.Preemptions)
		completed += row.Float(col.Completed)
	}
	if preemptions <= preemptionBound*completed {
		return ""
	}
	return fmt.Sprintf("the engine preempted %s of %s: its KV cache is full", humanize.Plural(int(preemptions), "request"), humanize.Figure(completed))
}

// leastSpread returns the least that the standard deviation behind n values is, as a share of
// theirs, at the confidence of spreadConfidence.
func leastSpread(n int) float64 {
	k := float64(n - 1)
	return math.Sqrt(k / quantile.ChiSquare(spreadConfidence, k))
}

// standing returns why the numbers of an outcome do not count; "" if they do.
func standing(o *result.Outcome) Verdict {
	if o == nil {
		return Pending
	}
	switch o.Row[col.Status] {
	case result.StatusOK:
		return ""
	case result.StatusInvalid:
		return Invalid
	case result.StatusSkipped:
		return Skipped
	}
	if o.StartFailure {
		return NoStart
	}
	return FailedRun
}

// met returns what objectives come to: Missed, Undecided with the first that is why, or
// Acceptable.
func met(objectives []result.SLOResult) (v Verdict, why string) {
	v = Acceptable
	for _, s := range objectives {
		switch {
		case s.Verdict == result.SLOPass || s.Severity == SeverityWarn:
		case s.Verdict == result.SLOFail:
			return Missed, ""
		case v == Acceptable:
			v, why = Undecided, s.Name+" is undecided"
			if s.Verdict == "" {
				why = s.Name + " could not be checked"
			}
		}
	}
	return v, why
}

// jitter returns how far a p95 of a row is from its p50, where that is too far; else "".
func jitter(row result.Row) string {
	for _, l := range []string{"ttft", "tpot"} {
		p50, p95 := row.Float(col.Latency("p50", l)), row.Float(col.Latency("p95", l))
		if p50 > 0 && p95 > jitterFloorMS && p95 > jitterBound*p50 {
			why := fmt.Sprintf("the p95 of %s, %s ms, is %.1f times its p50, %s ms", strings.ToUpper(l), humanize.Figure(p95), p95/p50, humanize.Figure(p50))
			if n := few(row); n > 0 {
				why += fmt.Sprintf(" (%s)", humanize.Plural(n, "request"))
			}
			return why
		}
	}
	return ""
}

// SeverityWarn is the severity of an objective whose miss is only reported.
const SeverityWarn = "warn"

// marks are what a verdict looks like in a grid, best first; every grid explains them.
var marks = []struct {
	v    Verdict
	mark string
}{
	{SweetSpot, "*"}, {Acceptable, "+"}, {Unstable, "~"}, {Undecided, "?"}, {Missed, "-"}, {Invalid, "!"}, {NoStart, "o"}, {FailedRun, "x"}, {Skipped, "/"}, {Pending, "."},
}

// Verdicts returns all verdicts, best first.
func Verdicts() []Verdict {
	all := make([]Verdict, len(marks))
	for i, m := range marks {
		all[i] = m.v
	}
	return all
}

// Mark returns the one character that stands for a verdict.
func (v Verdict) Mark() string {
	for _, m := range marks {
		if m.v == v {
			return m.mark
		}
	}
	return " "
}

package objective

import (
	"slices"

	"sweep.dev/sweep/result"
)

// PoolAt is [Pool] with other bounds: that all parts hold is wrong no oftener than
// 1 - confidence, which the parts share.
func PoolAt(trials []result.SLOResult, confidence float64) result.SLOResult {
	again := make([]result.SLOResult, len(trials))
	together := len(trials) > 1 && summed(trials)
	for i, t := range trials {
		t.Parts = slices.Clone(t.Parts)
		each := 1 - (1-confidence)/float64(max(1, len(t.Parts)))
		for j := range t.Parts {
			bound(&t.Parts[j], each, !together)
		}
		if !together && len(t.Parts) > 0 && t.Error == "" {
			t.Verdict = Verdict(t.Parts)
		}
		again[i] = t
	}
	return Pool(again)
}

// summed reports whether the counts of all trials are added before anything is decided, so that
// no trial needs a verdict of its own, which takes most of the time.
func summed(trials []result.SLOResult) bool {
	first := trials[0]
	return !slices.ContainsFunc(trials, func(t result.SLOResult) bool {
		return t.Error != "" || t.Expr != first.Expr || !alike(t.Parts, first.Parts)
	}) && len(first.Parts) > 0
}

// alike reports whether two lists of parts are decided by the same rules, and none is an error.
func alike(a, b []result.SLOPart) bool {
	return slices.EqualFunc(a, b, func(a, b result.SLOPart) bool {
		return a.Rule == b.Rule && a.Error == "" && b.Error == "" && alike(a.Any, b.Any)
	})
}

// bound gives a part the bounds of a confidence, and decides it again by them if it is to. A side
// of an or shares the risk with the others.
func bound(p *result.SLOPart, confidence float64, decide bool) {
	if p.Rule == result.RulePoint || p.Error != "" {
		return
	}
	p.Confidence = confidence
	p.Any = slices.Clone(p.Any)
	for i := range p.Any {
		bound(&p.Any[i], 1-(1-confidence)/float64(len(p.Any)), decide)
	}
	p.Ends = slices.Clone(p.Ends)
	for i := range p.Ends {
		bound(&p.Ends[i], confidence, decide)
	}
	if decide {
		settle(p)
		AtEnds(p)
	}
}

// Kept reports whether a trial kept an objective by its measured figures alone, whatever
// they rest on. ok is false if it could not be checked.
func Kept(r result.SLOResult) (kept, ok bool) {
	if r.Error != "" || r.Verdict == "" {
		return false, false
	}
	if len(r.Parts) == 0 {
		return r.Verdict == result.SLOPass, true
	}
	for _, p := range r.Parts {
		if !keptPart(p) {
			return false, true
		}
	}
	return true, true
}

func keptPart(p result.SLOPart) bool {
	switch p.Rule {
	case result.RuleShare:
		return float64(p.Over) <= p.Allowed*float64(p.N)*(1+1e-9)
	case result.RuleMean, result.RuleRate:
		if p.Op == ">" || p.Op == ">=" {
			return p.Mean >= p.Limit
		}
		return p.Mean <= p.Limit
	case result.RuleAny:
		return slices.ContainsFunc(p.Any, keptPart)
	}
	return p.Verdict == result.SLOPass
}

package objective

import (
	"slices"

	"sweep.dev/sweep/result"
)

// PoolAt is [Pool] with other bounds: that all parts hold is wrong no oftener than
// 1 - confidence, which the parts share.
func PoolAt(trials []result.SLOResult, confidence float64) result.SLOResult {
	again := make([]result.SLOResult, len(trials))
	for i, t := range trials {
		t.Parts = slices.Clone(t.Parts)
		each := 1 - (1-confidence)/float64(max(1, len(t.Parts)))
		for j := range t.Parts {
			bound(&t.Parts[j], each)
		}
		if len(t.Parts) > 0 && t.Error == "" {
			t.Verdict = Verdict(t.Parts)
		}
		again[i] = t
	}
	return Pool(again)
}

// bound decides a part again, by bounds of a confidence. A side of an or shares the
// risk with the others.
func bound(p *result.SLOPart, confidence float64) {
	if p.Rule == result.RulePoint || p.Error != "" {
		return
	}
	p.Confidence = confidence
	p.Any = slices.Clone(p.Any)
	for i := range p.Any {
		bound(&p.Any[i], 1-(1-confidence)/float64(len(p.Any)))
	}
	settle(p)
}

// Kept says whether a trial kept an objective by its measured figures alone, whatever
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

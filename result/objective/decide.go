package objective

import (
	"math"
	"slices"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Confidence is how sure the verdict on an objective is where its plan says nothing
// else.
const Confidence = 0.95

// Verdict returns what the parts of an objective come to together: it fails if one fails,
// passes if all pass, is "" if none fails and one could not be checked, and is undecided
// otherwise.
func Verdict(parts []result.SLOPart) string {
	verdict := result.SLOPass
	for _, p := range parts {
		switch {
		case p.Verdict == result.SLOFail:
			return result.SLOFail
		case p.Verdict == "":
			verdict = ""
		case p.Verdict == result.SLOUndecided && verdict != "":
			verdict = result.SLOUndecided
		}
	}
	return verdict
}

// settle decides a part by its evidence.
func settle(p *result.SLOPart) {
	switch p.Rule {
	case result.RuleShare:
		settleShare(p)
	case result.RuleMean, result.RuleRate:
		settleMean(p)
	case result.RuleAny:
		settleAny(p)
	}
}

// settleAny decides a part by its sides. What decides all of them decides it.
func settleAny(p *result.SLOPart) {
	p.Verdict, p.MoreRequests, p.MoreSeconds = oneOf(p.Any), 0, 0
	if p.Verdict != result.SLOUndecided {
		return
	}
	for _, side := range p.Any {
		p.MoreRequests, p.MoreSeconds = max(p.MoreRequests, side.MoreRequests), max(p.MoreSeconds, side.MoreSeconds)
	}
}

// oneOf returns what the sides of an or come to.
func oneOf(sides []result.SLOPart) string {
	verdict := result.SLOFail
	for _, s := range sides {
		switch s.Verdict {
		case result.SLOPass:
			return result.SLOPass
		case result.SLOUndecided:
			verdict = result.SLOUndecided
		}
	}
	return verdict
}

// settleShare decides whether no more than the allowed share is over the limit.
func settleShare(p *result.SLOPart) {
	share := float64(p.Over) / float64(p.N)
	least := p.Allowed * (1 + 1e-9) // one of one independent request is at the bound itself
	p.Low, p.High = shareBounds(float64(p.N)/p.Deff*share, float64(p.N)/p.Deff, p.Confidence)
	p.MoreRequests, p.Far = 0, false
	switch {
	case p.High <= p.Allowed:
		p.Verdict = result.SLOPass
		return
	case p.Low > least:
		p.Verdict = result.SLOFail
		return
	}
	verdict, low, high := far(p, float64(p.N))
	if p.Verdict = verdict; verdict != result.SLOUndecided {
		p.Low, p.High, p.Far = low, high, true
		return
	}
	if math.Abs(share-p.Allowed) < 1e-12 {
		return
	}
	n := reach(float64(p.N), func(n float64) bool {
		if verdict, _, _ := far(p, n); verdict != result.SLOUndecided {
			return true
		}
		n /= p.Deff
		if share > p.Allowed { // so that only the lower bound can decide
			return lowest(n*share, n, p.Confidence) > least
		}
		return highest(n*share, n, p.Confidence) <= p.Allowed
	})
	if n > 0 {
		p.MoreRequests = rough((n - float64(p.N)) * float64(p.Requests) / float64(p.N))
	}
}

// settleMean decides on which side of the limit a mean or a rate is.
func settleMean(p *result.SLOPart) {
	half := quantile.Student(p.Confidence, p.DF) * p.StdErr
	p.Low, p.High, p.MoreSeconds = p.Mean-half, p.Mean+half, 0
	kept, missed := p.High < p.Limit, p.Low > p.Limit
	if p.Op == ">" || p.Op == ">=" {
		kept, missed = missed, kept
	}
	switch {
	case kept:
		p.Verdict = result.SLOPass
	case missed:
		p.Verdict = result.SLOFail
	default:
		p.Verdict = result.SLOUndecided
		// The half width falls with the square root of the time.
		if away := math.Abs(p.Mean - p.Limit); away > 0 {
			if more := p.Seconds * (half*half/(away*away) - 1); more <= max(mostMore*p.Seconds, longSeconds) {
				p.MoreSeconds = float64(rough(more))
			}
		}
	}
}

// The bounds of the advice to measure more: so many times the requests that were measured,
// and in any case this many requests and seconds. If a part needs more than that, it is so
// near its limit that no number is said.
const (
	mostMore     = 100
	manyRequests = 10_000
	longSeconds  = 3600
)

// reach returns the least n from a start on at which something holds, and from which on it
// does; 0 if that is more than the advice may ask for.
func reach(start float64, holds func(n float64) bool) float64 {
	most := max(mostMore*start, manyRequests)
	low, high := start, min(2*start, most)
	for !holds(high) {
		if high == most {
			return 0
		}
		low, high = high, min(2*high, most)
	}
	for high-low > max(1, low/1000) {
		if mid := (low + high) / 2; holds(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// rough rounds up to two digits: more of them would promise too much.
func rough(x float64) int {
	unit := math.Pow(10, max(0, math.Floor(math.Log10(max(1, x)))-1))
	return int(math.Ceil(x/unit-1e-9) * unit)
}

// pool returns a part over several trials: their counts are summed, also those of
// independent requests that they are worth; means are weighed by their times. What is
// a point in any of them is a point of all, and the worst of them.
func pool(trials []result.SLOPart) result.SLOPart {
	p := trials[0]
	for _, t := range trials {
		if t.Rule == result.RulePoint || t.Error != "" || t.Rule != p.Rule || len(t.Any) != len(p.Any) {
			return worst(trials)
		}
	}
	if len(trials) == 1 {
		return p
	}
	p.Figure = nil // of one trial
	p.Ends = endsOf(trials)
	switch p.Rule {
	case result.RuleShare:
		effective, near, squares, known := 0.0, 0.0, 0.0, true
		p.Requests, p.N, p.Over, p.Away, p.DF = 0, 0, 0, 0, 0
		for _, t := range trials {
			p.Requests += t.Requests
			p.N += t.N
			p.Over += t.Over
			effective += float64(t.N) / t.Deff
			near += float64(t.N) / max(1, t.LimitDeff)
			p.Away += float64(t.N) * t.Away
			squares += math.Pow(float64(t.N)*t.AwayErr, 2)
			p.DF += t.DF
			known = known && t.DF > 0
		}
		worth := between(trials)
		p.Deff, p.LimitDeff = float64(p.N)/min(effective, worth), float64(p.N)/min(near, worth)
		p.Away, p.AwayErr = p.Away/float64(p.N), math.Sqrt(squares)/float64(p.N)
		if !known {
			p.Away, p.AwayErr, p.DF = 0, 0, 0
		}
	case result.RuleMean, result.RuleRate:
		p.Seconds, p.DF = 0, 0
		for _, t := range trials {
			p.Seconds += t.Seconds
			p.DF += t.DF
		}
		mean, variance := 0.0, 0.0
		for _, t := range trials {
			weight := t.Seconds / p.Seconds
			mean += weight * t.Mean
			variance += weight * weight * t.StdErr * t.StdErr
		}
		p.Mean, p.StdErr = mean, math.Sqrt(variance)
	case result.RuleAny:
		p.Any = slices.Clone(p.Any)
		for i := range p.Any {
			sides := make([]result.SLOPart, len(trials))
			for j, t := range trials {
				sides[j] = t.Any[i]
			}
			p.Any[i] = pool(sides)
		}
	}
	settle(&p)
	AtEnds(&p)
	return p
}

// endsOf pools the ends of where the truth of each trial may lie; nil if there is one end.
func endsOf(trials []result.SLOPart) (ends []result.SLOPart) {
	if !slices.ContainsFunc(trials, func(t result.SLOPart) bool { return len(t.Ends) > 0 }) {
		return nil
	}
	for side := range 2 {
		all := slices.Clone(trials)
		for i, t := range trials {
			if len(t.Ends) > 0 {
				all[i] = t.Ends[side]
			}
			all[i].Ends = nil
		}
		ends = append(ends, pool(all))
	}
	return ends
}

// AtEnds leaves a part undecided that comes to something else at an end of where the truth may lie.
func AtEnds(p *result.SLOPart) {
	for _, end := range p.Ends {
		if p.Verdict != "" && p.Verdict != result.SLOUndecided && end.Verdict != p.Verdict {
			p.Verdict, p.MoreRequests, p.MoreSeconds = result.SLOUndecided, 0, 0
		}
	}
}

// differ is by how many standard errors the shares of trials scatter more than their values
// explain before they are taken to differ: launches do by far more.
const differ = 1.5

// between returns how many independent values the shares of trials are worth that differ by
// more than the values within each explain, as those of launches do: infinitely many if they
// do not.
func between(trials []result.SLOPart) float64 {
	n, sum, effective := 0.0, 0.0, 0.0
	for _, t := range trials {
		n, sum, effective = n+float64(t.N), sum+float64(t.Over), effective+float64(t.N)/t.Deff
	}
	k, mean, variance := float64(len(trials)), sum/n, 0.0
	for _, t := range trials {
		away := float64(t.Over)/float64(t.N) - mean
		variance += away * away / (k - 1)
	}
	if single := mean * (1 - mean); variance > single*k/effective*(1+differ*math.Sqrt(2/(k-1))) {
		wider := quantile.Student(marginConfidence, k-1) / quantile.Normal(marginConfidence)
		return single * k / (variance * wider * wider)
	}
	return math.Inf(1)
}

// worst returns the part of the trial that did worst. What a point rests on is that of all.
func worst(trials []result.SLOPart) result.SLOPart {
	rank := map[string]int{result.SLOPass: 0, result.SLOUndecided: 1, "": 2, result.SLOFail: 3}
	p := trials[0]
	counted := p.N > 0
	n, requests, over := p.N, p.Requests, p.Over
	for _, t := range trials[1:] {
		if rank[t.Verdict] > rank[p.Verdict] {
			p = t
		}
		counted = counted && t.N > 0
		n, requests, over = n+t.N, requests+t.Requests, over+t.Over
	}
	if p.Rule == result.RulePoint && counted { // of an error rate
		p.N, p.Requests, p.Over = n, requests, over
		p.Low, p.High = shareBounds(float64(over), float64(n), p.Confidence)
	}
	return p
}

// Pool returns an objective over all trials of a cell, whose results come in the order of
// the trials. Those of an objective that has changed between them are not pooled: the
// worst of them stands for all, as does that of results without parts.
func Pool(trials []result.SLOResult) result.SLOResult {
	first := trials[0]
	if len(trials) == 1 {
		return first
	}
	whole := make([]result.SLOPart, len(trials))
	alike := true
	for i, t := range trials {
		whole[i] = result.SLOPart{Rule: result.RulePoint, Verdict: t.Verdict, Requests: i}
		alike = alike && t.Expr == first.Expr && len(t.Parts) == len(first.Parts) && len(t.Parts) > 0
	}
	if !alike {
		return trials[worst(whole).Requests]
	}
	pooled := result.SLOResult{Name: first.Name, Expr: first.Expr, Severity: first.Severity}
	for _, t := range trials {
		for _, column := range t.LowConfidence {
			if !slices.Contains(pooled.LowConfidence, column) {
				pooled.LowConfidence = append(pooled.LowConfidence, column)
			}
		}
	}
	for i := range first.Parts {
		parts := make([]result.SLOPart, len(trials))
		for j, t := range trials {
			parts[j] = t.Parts[i]
		}
		pooled.Parts = append(pooled.Parts, pool(parts))
	}
	pooled.Verdict = Verdict(pooled.Parts)
	if pooled.Verdict == "" {
		for _, t := range trials {
			if t.Error != "" {
				pooled.Error = t.Error
				break
			}
		}
	}
	return pooled
}

// OfCells returns the objectives of each cell over its VALID trials, by the cell's id, in
// the order of the first of them that has one.
func OfCells(outcomes []*result.Outcome) map[string][]result.SLOResult {
	names := map[string][]string{}
	trials := map[[2]string][]result.SLOResult{}
	for _, o := range outcomes {
		if o.Row[col.Status] != result.StatusOK {
			continue
		}
		for _, r := range o.SLOs {
			key := [2]string{o.CellID, r.Name}
			if trials[key] == nil {
				names[o.CellID] = append(names[o.CellID], r.Name)
			}
			trials[key] = append(trials[key], r)
		}
	}
	cells := make(map[string][]result.SLOResult, len(names))
	for cell, names := range names {
		for _, name := range names {
			cells[cell] = append(cells[cell], Pool(trials[[2]string{cell, name}]))
		}
	}
	return cells
}

package objective

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Why returns an objective in words: those of its parts that have its verdict.
func Why(o result.SLOResult) string {
	if o.Verdict == "" {
		return o.Error
	}
	if len(o.Parts) == 0 { // of before
		return values(o.Values) + " (point)"
	}
	var all []string
	for _, p := range o.Parts {
		if p.Verdict == o.Verdict {
			text := Say(p)
			if len(o.Parts) > 1 {
				text = p.Expr + ": " + text
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, ". ")
}

// Say returns a part in words: what was seen of it, the bound that decides, and what would
// decide it: "p95_ttft_ms 182: 3 of 96 over 200 ms, that is at most 7.9 % (95 % sure),
// 5 % allowed; about 130 requests more would decide".
func Say(p result.SLOPart) string {
	var b strings.Builder
	if p.Error != "" {
		return p.Error
	}
	switch p.Rule {
	case result.RuleShare:
		if p.Figure != nil {
			fmt.Fprintf(&b, "%s %.6g: ", p.Column, *p.Figure)
		}
		fmt.Fprintf(&b, "%d of %d %s", p.Over, p.N, over(p))
		if p.Deff > 1.5 && !p.Far {
			fmt.Fprintf(&b, ", worth %s", humanize.Plural(int(float64(p.N)/p.Deff), "independent one"))
		}
		bound, share := "at most", p.High
		if p.Verdict == result.SLOFail {
			bound, share = "at least", p.Low
		}
		fmt.Fprintf(&b, ", that is %s %.2g %% (%.4g %% sure), %.4g %% allowed", bound, 100*share, 100*p.Confidence, 100*p.Allowed)
		if p.Far {
			fmt.Fprintf(&b, "; the percentile is %.2g times %s its limit", math.Exp(math.Abs(p.Away)), under(p.Away > 0))
		}
	case result.RuleMean, result.RuleRate:
		fmt.Fprintf(&b, "%s %.6g, from %.4g to %.4g (%.4g %% sure of each), limit %.6g", p.Column, p.Mean, p.Low, p.High, 100*p.Confidence, p.Limit)
	case result.RuleAny:
		var sides []string
		for _, side := range p.Any {
			if p.Verdict != result.SLOPass || side.Verdict == result.SLOPass {
				sides = append(sides, fmt.Sprintf("%s: %s", cmp.Or(side.Verdict, "unknown"), Say(side)))
			}
		}
		return strings.Join(sides, "; or ")
	default:
		text := values(p.Values)
		if p.N > 0 {
			text += fmt.Sprintf(": %d of %d failed, that is at most %.2g %% (%.4g %% sure)", p.Over, p.N, 100*p.High, 100*p.Confidence)
		}
		return text + " (point)"
	}
	if p.Verdict != result.SLOUndecided {
		return b.String()
	}
	switch {
	case p.MoreRequests > 0:
		fmt.Fprintf(&b, "; about %s more would decide", humanize.Plural(p.MoreRequests, "request"))
	case p.MoreSeconds > 0:
		fmt.Fprintf(&b, "; about %.0f s more would decide", p.MoreSeconds)
	case len(p.Ends) > 0:
		b.WriteString("; it depends on how late the client was: measure with a client that has more of its machine")
	default:
		b.WriteString("; " + AtLimit)
	}
	return b.String()
}

// AtLimit says why an undecided part has no number of requests that would decide it, and
// what to do.
const AtLimit = "no practical number of requests decides it, since the measured value is nearly at its limit: change the limit, or take it as undecided"

// values returns the columns that a point read. A value that was rounded for people could
// look as if it had met the bound, so it has its digits.
func values(row result.Row) string {
	names := slices.Sorted(maps.Keys(row))
	for i, name := range names {
		text := humanize.Figure(row[name])
		if f, ok := row[name].(float64); ok {
			text = fmt.Sprintf("%.6g", f)
		}
		names[i] = name + " = " + text
	}
	return strings.Join(names, ", ")
}

func under(yes bool) string {
	if yes {
		return "below"
	}
	return "above"
}

// over returns what is wrong with the values that count.
func over(p result.SLOPart) string {
	switch {
	case p.Column == col.ErrorRate:
		return "failed"
	case p.Column == col.GoodShare:
		return "outside the bounds of goodput"
	case p.Column == col.P50UserTokS:
		return fmt.Sprintf("under %.6g tokens/s", p.Limit)
	}
	return fmt.Sprintf("over %.6g ms", p.Limit)
}

// thinShare bounds the share of all requests that may fail beside a point of the error rate.
const thinShare = 0.01

// Thin reports whether an objective passes by a point of the error rate that so few requests
// stand behind that more than 1 % of all may fail.
func Thin(o result.SLOResult) bool {
	return o.Verdict == result.SLOPass && slices.ContainsFunc(o.Parts, func(p result.SLOPart) bool {
		return p.Rule == result.RulePoint && p.N > 0 && p.High > thinShare
	})
}

package objective

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Say is a part in words: what was seen of it, the bound that decides, and what would
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
		if p.Deff > 1.5 {
			fmt.Fprintf(&b, ", worth %.0f independent ones", float64(p.N)/p.Deff)
		}
		bound, share := "at most", p.High
		if p.Verdict == result.SLOFail {
			bound, share = "at least", p.Low
		}
		fmt.Fprintf(&b, ", that is %s %.2g %% (%.4g %% sure), %.4g %% allowed", bound, 100*share, 100*p.Confidence, 100*p.Allowed)
	case result.RuleMean, result.RuleRate:
		fmt.Fprintf(&b, "%s %.6g, from %.4g to %.4g (%.4g %% sure of each), limit %.6g", p.Column, p.Mean, p.Low, p.High, 100*p.Confidence, p.Limit)
	default:
		return "point"
	}
	if p.Verdict != result.SLOUndecided {
		return b.String()
	}
	switch {
	case p.MoreRequests > 0:
		fmt.Fprintf(&b, "; about %s more would decide", humanize.Plural(p.MoreRequests, "request"))
	case p.MoreSeconds > 0:
		fmt.Fprintf(&b, "; about %.0f s more would decide", p.MoreSeconds)
	default:
		b.WriteString("; no number of requests would decide: it is at the limit")
	}
	return b.String()
}

// over is what is wrong with the values that count.
func over(p result.SLOPart) string {
	switch {
	case p.Column == col.ErrorRate:
		return "failed"
	case p.Column == col.P50UserTokS:
		return fmt.Sprintf("under %.6g tokens/s", p.Limit)
	}
	return fmt.Sprintf("over %.6g ms", p.Limit)
}

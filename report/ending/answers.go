package ending

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// about is what the claims about the series of a cell call it: its settings without the
// amount of load.
func about(c compare.Cell) string {
	return c.Text(func(s compare.Setting) bool { return !s.Amount })
}

// side is what a claim is about, in the words in which it differs from others.
func (e *ending) side(c compare.Claim) string {
	rest := slices.DeleteFunc(slices.Clone(e.axes), func(a compare.Axis) bool { return a.Amount })
	for _, p := range e.points {
		if about(p.Cell) == c.About {
			return rest.Text(p.Cell)
		}
	}
	return c.About
}

// answers are the sweet spots of all series, and which are not decided and why. Series
// of which the same is to be said stand together.
func (e *ending) answers() []string {
	type answer struct {
		names []string
		text  string
	}
	var all []answer
	for _, c := range e.claims(compare.AskSweetSpot, compare.AskBest) {
		a := answer{names: []string{e.side(c)}}
		switch {
		case c.Question == compare.AskBest: // of the series before
			all[len(all)-1].text += "; most " + c.Measure.Name + e.describe(c)
			continue
		case c.Answer == compare.Decided:
			a.text = e.describe(c) + c.Best("; ")
		case c.Answer == compare.Tied:
			a.text = ": not decided" + c.Best(", ") + c.WouldTell()
		case c.Answer == compare.None:
			a.text = ": no cell is acceptable"
		default:
			a.text = ": not decided, " + c.Left[0].Why + needs(c.Left[0].Points)
		}
		all = append(all, a)
	}
	var some []answer
	for _, a := range all {
		if i := slices.IndexFunc(some, func(b answer) bool { return b.text == a.text }); i >= 0 {
			some[i].names = append(some[i].names, a.names...)
		} else {
			some = append(some, a)
		}
	}
	lines := make([]string, len(some))
	for i, a := range some {
		lines[i] = strings.TrimLeft(strings.Join(a.names, ", ")+a.text, ": ")
	}
	return append(cut(lines, maxAnswers/e.share, "answer", e.more), e.edge()...)
}

// describe is the cell of a claim with its figures: " at concurrency=16: 1390 tok/s, p95
// TTFT 214 ms, $0.71 per 1M output tokens".
func (e *ending) describe(c compare.Claim) string {
	p := c.Places[0].Point
	parts := []string{c.Measure.Show(c.Places[0].Value) + " " + compare.Rates[c.Measure.ID()]}
	if len(e.latencies) > 0 {
		if text, ok := shownOf(p, e.latencies[0]); ok {
			parts = append(parts, measureName(e.latencies[0].Column)+" "+text+" ms")
		}
	}
	if usd, ok := p.Figure(compare.TokenCost); ok {
		parts = append(parts, compare.TokenCost.Show(usd)+" per 1M output tokens")
	}
	return " at " + compare.LoadText(p.Cell) + ": " + strings.Join(parts, ", ")
}

// needs is what would decide cells that are undecided; "" if none is.
func needs(points []*compare.Point) string {
	var parts []string
	for _, p := range points {
		if text := need(p, len(points) > 1); text != "" && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	if len(parts) > maxLabels {
		parts = append(parts[:maxLabels], "...")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// need is what would decide a cell, by the objective that needs most of it; its load is
// named beside other cells.
func need(p *compare.Point, named bool) string {
	if p.Verdict != compare.Undecided {
		return ""
	}
	requests, seconds := 0, 0.0
	for _, o := range p.Objectives {
		if o.Verdict == "" || o.Severity == compare.SeverityWarn {
			continue
		}
		for _, part := range o.Parts {
			switch {
			case o.Verdict != result.SLOUndecided || part.Verdict != result.SLOUndecided:
			case part.MoreRequests == 0 && part.MoreSeconds == 0:
				return o.Name + ": " + objective.AtLimit
			default:
				requests, seconds = max(requests, part.MoreRequests), max(seconds, part.MoreSeconds)
			}
		}
	}
	at := ""
	if text := compare.LoadText(p.Cell); named && text != "" {
		at = text + ": "
	}
	switch {
	case requests > 0:
		return fmt.Sprintf("%sabout %s more would decide it", at, humanize.Plural(requests, "request"))
	case seconds > 0:
		return fmt.Sprintf("%sabout %.0f s more would decide it", at, seconds)
	}
	return p.Why
}

// edge says that sweet spots are at the most load that was tried.
func (e *ending) edge() []string {
	n, spots := len(e.claims(compare.AskMoreLoad)), 0
	for _, c := range e.claims(compare.AskSweetSpot) {
		if c.Answer == compare.Decided {
			spots++
		}
	}
	switch {
	case n == 0:
		return nil
	case n == spots:
		return []string{"no more load was tried: the server may carry more"}
	}
	return []string{fmt.Sprintf("no more load was tried than at %d of %s: there the server may carry more", n, humanize.Plural(spots, "sweet spot"))}
}

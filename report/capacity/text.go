package capacity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Title returns that of the section.
func Title(answers []Answer) string {
	if len(answers) == 0 {
		return "Capacity"
	}
	return fmt.Sprintf("Capacity: the greatest %s that keeps an objective, with %s confidence", answers[0].Of.Axis, percent(answers[0].Of.Confidence))
}

// Items returns the answers in words.
func Items(answers []Answer) []draw.Item {
	items := make([]draw.Item, len(answers))
	for i := range answers {
		a := &answers[i]
		items[i] = draw.Item{Text: a.Text(), Below: a.below()}
	}
	return items
}

// Text returns the answer in one sentence.
func (a *Answer) Text() string { return a.About() + ": " + a.said() }

// About returns the combination and the objective that the answer is of.
func (a *Answer) About() string {
	about := a.Objective
	if a.Expr != "" {
		about += " (" + a.Expr + ")"
	}
	if a.Of.Label != "" {
		about = a.Of.Label + ", " + about
	}
	return about
}

// said returns how the search ended, in words.
func (a *Answer) said() string {
	capacity := ""
	if a.Capacity != nil {
		capacity = a.Load(*a.Capacity)
	}
	low, high := a.Load(a.Of.Levels[0]), a.Load(a.Of.Levels[len(a.Of.Levels)-1])
	switch a.Reason {
	case search.Certified:
		return capacity + " certified"
	case search.AboveRange:
		return capacity + " certified, the greatest load that the plan tries: raise find.to"
	case search.BelowRange:
		return "none: it misses at " + low + ", the least load that the plan tries: lower find.from"
	case search.Client:
		if capacity == "" {
			return "not decided: the client cannot send " + low
		}
		return capacity + " certified; the client cannot send more (client_bound), so the server may carry more"
	case search.NotMonotone:
		return fmt.Sprintf("%s certified, but %s keeps it too, above %s, which fails", capacity, a.Load(*a.Contradicts), a.Load(*a.FailsAt))
	case search.TooNoisy:
		return "none certified: the trials leave it open at every load; more requests in a trial would tell (load.requests)"
	case search.ServerFails:
		return "none: the server fails at " + low
	case search.NotMeasured:
		if capacity != "" {
			return capacity + " certified; then three trials in a row were INVALID, at a load that the search needs"
		}
		return "not decided: three trials in a row were INVALID, at a load that the search needs"
	case search.Budget:
		if capacity != "" && max(1, a.Of.Devices) == 1 {
			return capacity + " certified before the budget ended the search, so the server may carry more"
		}
		if capacity != "" {
			return fmt.Sprintf("%s certified on %d of %d devices before the budget ended the search", capacity, len(a.Devices), a.Of.Devices)
		}
		return fmt.Sprintf("not decided: the budget has ended the search, between %s and %s", low, high)
	case search.Changed:
		return "none certified: the load that was certified was missed in two trials at the end of the search, so the server had changed; warm it up longer, and look at what else uses its GPU"
	case search.ServerGone:
		if capacity != "" {
			return capacity + " certified; then the server was gone, not even its least load was answered"
		}
		return "not decided: the server was gone, not even its least load was answered"
	}
	if capacity != "" {
		return capacity + " certified so far; not finished"
	}
	return "not finished"
}

// between returns what is known of the loads above the certified one, with what would decide the
// least of them that is open; "" if all are decided.
func (a *Answer) between() string {
	if a.OpenFrom == nil || len(a.Of.Outcomes) == 0 || slices.Contains([]string{search.BelowRange, search.ServerFails, search.Changed}, a.Reason) {
		return ""
	}
	var known []string
	if a.Capacity != nil {
		known = append(known, "at least "+a.Load(*a.Capacity)+" (certified)")
	}
	if a.FailsAt != nil {
		known = append(known, "below "+a.Load(*a.FailsAt)+" (failed)")
	}
	open := Number(*a.OpenFrom)
	if *a.OpenTo > *a.OpenFrom {
		open += " to " + Number(*a.OpenTo)
	}
	text := strings.Join(append(known, open+" not decided"), ", ")
	if a.MoreRequests > 0 {
		text += fmt.Sprintf(": about %d requests more at %s", a.MoreRequests, a.Load(*a.OpenFrom))
		if a.MoreSeconds > 0 {
			text += ", " + humanize.Duration(time.Duration(a.MoreSeconds*float64(time.Second)))
		}
	}
	return text
}

// below returns what the answer rests on.
func (a *Answer) below() []string {
	var lines []string
	if a.Figures != nil {
		if text := a.carried(); text != "" {
			lines = append(lines, text)
		}
	}
	if text := a.people(); text != "" {
		lines = append(lines, text)
	}
	if text := a.lighter(); text != "" {
		lines = append(lines, text)
	}
	if text := a.between(); text != "" {
		lines = append(lines, text)
	}
	if a.By != "" {
		lines = append(lines, "certified for "+a.By+", which keeps it too")
	}
	if text := a.on(); text != "" {
		lines = append(lines, text)
	}
	if a.FailsAt != nil {
		lines = append(lines, a.failed())
	}
	if text := a.foretold(); text != "" {
		lines = append(lines, text)
	}
	if text := a.path(); text != "" {
		lines = append(lines, text)
	}
	spent := []string{humanize.Plural(len(a.Of.Outcomes), "probe"), humanize.Plural(a.Requests, "request")}
	if took := took(a.Of.Trials); took > 0 {
		spent = append(spent, humanize.Duration(took))
	}
	if a.CostUSD != nil {
		spent = append(spent, humanize.Dollars(*a.CostUSD))
	}
	text := strings.Join(spent, ", ")
	if len(a.Of.Objectives) > 1 {
		text += " for all objectives"
	}
	return append(lines, text)
}

// Ended says how the search ended, with the reason by its name, and why it stops there.
func (a *Answer) Ended() []string {
	lines := []string{a.said()}
	if a.Reason != "" && !strings.Contains(lines[0], a.Reason) {
		lines[0] += " (" + a.Reason + ")"
	}
	if text := a.between(); text != "" {
		lines = append(lines, text)
	}
	if a.FailsAt != nil {
		lines = append(lines, a.failed())
	}
	return lines
}

// on says which devices the answer is of, and how far apart they are.
func (a *Answer) on() string {
	wanted := max(1, a.Of.Devices)
	switch n := len(a.Devices); {
	case n == 0 && a.Capacity != nil && wanted > 1:
		return fmt.Sprintf("on 1 of %d devices: nobody knows which GPU it is, so no other can be told from it", wanted)
	case n == 0:
		return ""
	case n == 1 && wanted == 1:
		return "on this device alone: " + a.Devices[0].ID
	case wanted == 1:
		return fmt.Sprintf("over trials on %d devices: %s", n, strings.Join(a.deviceIDs(), ", "))
	}
	each := make([]string, len(a.Devices))
	for i, d := range a.Devices {
		each[i] = "none on " + d.ID
		if d.Capacity != nil {
			each[i] = Number(*d.Capacity) + " on " + d.ID
		}
	}
	text := humanize.Plural(len(a.Devices), "device")
	if len(a.Devices) < wanted {
		text = fmt.Sprintf("%d of %d devices", len(a.Devices), wanted)
	}
	return "on " + text + ": " + strings.Join(each, ", ")
}

// carried returns the figures at the certified load.
func (a *Answer) carried() string {
	var parts []string
	for _, f := range []struct{ column, text string }{
		{col.ThroughputTokS, "%s tok/s"},
		{col.RequestThroughput, "%s req/s"},
		{col.USDPer1MOutputTokens, "$%s per 1M output tokens"},
		{col.JoulesPerOutputToken, "%s J per output token"},
	} {
		v, ok := a.Figures.Number(f.column)
		if !ok {
			continue
		}
		figure := humanize.Figure(v)
		if f.column == col.USDPer1MOutputTokens {
			figure = humanize.Price(v)
		}
		parts = append(parts, fmt.Sprintf(f.text, figure))
	}
	return strings.Join(parts, ", ")
}

// messageEvery is the time between two messages of a person, of whom [Answer.people] counts.
const messageEvery = 30 * time.Second

// people returns how many people the certified rate is, if each sends a message every 30 s: rate
// times that time, rounded down to two digits. "" for fewer than two, and for a search over
// concurrency, whose requests wait for answers as no crowd does.
func (a *Answer) people() string {
	if a.Capacity == nil || a.Of.Axis != col.RequestRate {
		return ""
	}
	n := humanize.Floor(*a.Capacity * messageEvery.Seconds())
	if n < 2 {
		return ""
	}
	return fmt.Sprintf("%s is about %d people who each send a message every %s", a.Load(*a.Capacity), n, humanize.Duration(messageEvery))
}

// lighter returns the latencies at the loads that were tried next to 80 and 90 % of the certified one,
// no further than a tenth of it below; "" if none was tried there.
func (a *Answer) lighter() string {
	if a.Capacity == nil {
		return ""
	}
	var parts []string
	last := 0.0
	for _, share := range []float64{0.8, 0.9} {
		load := 0.0
		for _, l := range a.Levels() {
			if of := l.Load / *a.Capacity; of <= share+1e-9 && of >= share-0.1 {
				load = l.Load
			}
		}
		row := mean(rows(valid(at(a.Of, load))), []string{col.P95TTFTMs, col.P95TPOTMs, col.P95E2EMs})
		var figures []string
		for _, f := range []struct{ column, name string }{{col.P95TTFTMs, "TTFT"}, {col.P95TPOTMs, "TPOT"}, {col.P95E2EMs, "E2E"}} {
			if v, ok := row.Number(f.column); ok {
				figures = append(figures, "p95 "+f.name+" "+humanize.Figure(v)+" ms")
			}
		}
		if load > last && len(figures) > 0 {
			parts = append(parts, fmt.Sprintf("at %s (%.0f %% of it) %s", a.Load(load), 100*load / *a.Capacity, strings.Join(figures, ", ")))
			last = load
		}
	}
	return strings.Join(parts, "; ")
}

// failed says what fails at the load above.
func (a *Answer) failed() string {
	var parts []string
	for _, p := range a.missed() {
		said := p.Expr
		if f := figure(p); f != "" {
			said += " (" + f + ")"
		}
		parts = append(parts, said)
	}
	text := strings.TrimSpace(a.Load(*a.FailsAt) + " fails " + strings.Join(parts, "; "))
	if a.Point != nil {
		text += "; point estimate " + a.Load(*a.Point)
		if a.Capacity == nil || *a.Point > *a.Capacity {
			text += ", of single trials and often too high"
		}
	}
	if l := a.Limit; l != nil && l.By != UnknownLimit {
		text += "; limited by " + l.By + " (" + strings.Join(l.Says, ", ") + ")"
	} else if l != nil {
		text += "; its counters do not say what limits it"
	}
	return text
}

// figure returns what was measured of a part that was missed.
func figure(p result.SLOPart) string {
	switch p.Rule {
	case result.RuleShare:
		return fmt.Sprintf("%.1f %% of %d over it, %s allowed", 100*float64(p.Over)/float64(p.N), p.N, percent(p.Allowed))
	case result.RuleMean:
		return "mean " + humanize.Figure(p.Mean)
	}
	return ""
}

// took returns the time from the first trial of a search to the end of its last, without that
// between runs.
func took(trials []report.Trial) (d time.Duration) {
	for _, t := range trials {
		d += t.Outcome.FinishedAt.Sub(t.Outcome.StartedAt)
	}
	return d
}

// Load returns a load in words.
func (a *Answer) Load(x float64) string {
	if a.Of.Axis == "concurrency" {
		return Number(x) + " at once"
	}
	return Number(x) + " req/s"
}

// Number returns a load without its unit.
func Number(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

func percent(x float64) string { return strconv.FormatFloat(100*x, 'g', 4, 64) + " %" }

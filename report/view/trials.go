package view

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/objective"
)

// A Tally is how many trials a run has, and how they ended.
type Tally struct {
	All, Done, Simulated int
	Each                 map[conclude.Verdict]int // Acceptable stands for all that are valid
}

// Tally counts the trials.
func (v *View) Tally() Tally {
	n := Tally{All: len(v.Trials), Each: map[conclude.Verdict]int{}}
	for _, t := range v.Trials {
		if t.Outcome == nil {
			continue
		}
		n.Done++
		if t.Outcome.Row[col.Simulated] == true {
			n.Simulated++
		}
		switch verdict := conclude.Judge(t); verdict {
		case conclude.Invalid, conclude.NoStart, conclude.FailedRun, conclude.Skipped:
			n.Each[verdict]++
		default:
			n.Each[conclude.Acceptable]++
		}
	}
	return n
}

// Simulated names the numbers that are simulated, in a sentence; "" if none are.
func (v *View) Simulated() string {
	switch n := v.Tally(); n.Simulated {
	case 0:
		return ""
	case n.Done:
		return "All numbers are simulated: they rehearse a plan, they do not measure a GPU."
	default:
		return fmt.Sprintf("The numbers of %d of %s are simulated: they rehearse a plan, they do not measure a GPU.", n.Simulated, humanize.Plural(n.Done, "trial"))
	}
}

// A Reason is why trials have no numbers to use.
type Reason struct {
	Code   string // of a finding, or the class of an error
	Text   string // in a clause
	OfAll  bool   // Text is true for each trial, and not of the first alone
	Advice string // what to try; "" for nothing that is known
	Log    []string
	Trials []TrialText
}

// A TrialText is a trial with its own words for a reason.
type TrialText struct {
	conclude.Trial
	Text string // "" if it has none of its own
}

// logLines is how many of a server's last lines stand with its failure; all
// that are kept are in result.json.
const logLines = 3

// digits are what differs between two failures of one kind: times, process ids.
var digits = regexp.MustCompile(`[0-9]+`)

// Reasons returns those of the trials of a verdict, which is Invalid, NoStart or FailedRun, the
// one of most trials first. Trials with the same reason stand together: a server that does
// not start fails all of its cells with one. Of failures that differ in their numbers alone
// the first stands for all.
func (v *View) Reasons(verdict conclude.Verdict) []Reason {
	var all []*Reason
	byKey := map[string]*Reason{}
	add := func(key string, r Reason, t TrialText) {
		if byKey[key] == nil {
			byKey[key], all = &r, append(all, &r)
		}
		byKey[key].Trials = append(byKey[key].Trials, t)
	}
	for _, t := range v.Trials {
		if t.Outcome == nil || conclude.Judge(t) != verdict {
			continue
		}
		o := t.Outcome
		switch {
		case verdict == conclude.Invalid && len(o.Invalid) == 0: // of an earlier version
			code := fmt.Sprint(o.Row[col.InvalidReasons])
			add(code, Reason{Code: code, Text: "see its row"}, TrialText{Trial: t})
		case verdict == conclude.Invalid:
			for _, f := range o.Invalid {
				r := Reason{Code: f.Code.String(), Text: finding.Brief(f.Code), OfAll: true, Advice: finding.Advice(f.Code)}
				if r.Text == "" { // of another version
					r.Text, r.OfAll = f.Text, false
				}
				add(r.Code, r, TrialText{t, f.Text})
			}
		default:
			r := Reason{Code: humanize.Figure(o.Row[col.ErrorClass]), Text: humanize.Figure(o.Row[col.Error]), Log: o.LogTail[max(0, len(o.LogTail)-logLines):]}
			if o.StartFailure && r.Code == "spec" {
				r.Advice = report.SpecAdvice
			}
			add(r.Code+": "+digits.ReplaceAllString(r.Text, "0"), r, TrialText{Trial: t})
		}
	}
	slices.SortStableFunc(all, func(a, b *Reason) int { return len(b.Trials) - len(a.Trials) })
	reasons := make([]Reason, len(all))
	for i, r := range all {
		if names := stand(r.Trials); verdict == conclude.Invalid && names != "" {
			r.Text = strings.Replace(r.Text, " -> ", "; "+names+" can be used -> ", 1)
		}
		reasons[i] = *r
	}
	return reasons
}

// stand names the figures that may be used in each of some INVALID trials; "" if the rows are
// INVALID as a whole.
func stand(trials []TrialText) string {
	var names []string
	for _, f := range []struct {
		name    string
		columns []string
	}{
		{"TTFT", []string{col.P50TTFTMs, col.P95TTFTMs}},
		{"TPOT", []string{col.P50TPOTMs, col.P95TPOTMs}},
		{"E2E", []string{col.P50E2EMs, col.P95E2EMs}},
		{"tokens/s", []string{col.ThroughputTokS}},
		{"requests/s", []string{col.RequestThroughput}},
	} {
		bad := slices.ContainsFunc(trials, func(t TrialText) bool {
			row := t.Outcome.Row
			own := row.Trusted()
			return row[col.InvalidFigures] == nil || slices.ContainsFunc(f.columns, func(c string) bool { return own[c] == nil })
		})
		if !bad {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// Invalid returns the reasons for INVALID with what to try, each with the words of its trials.
func (v *View) Invalid() []draw.Item {
	var items []draw.Item
	for _, r := range v.Reasons(conclude.Invalid) {
		it := draw.Item{Text: fmt.Sprintf("%s (%s)", r.Code, humanize.Plural(len(r.Trials), "trial"))}
		if r.Advice != "" {
			it.Text += ": " + r.Advice
		}
		for _, t := range r.Trials {
			text := v.Label(t.Trial)
			if t.Text != "" {
				text += ": " + t.Text
			}
			it.Below = append(it.Below, text)
		}
		items = append(items, it)
	}
	return items
}

// Failed returns the trials that failed, by their reasons.
func (v *View) Failed() []draw.Item { return v.failed(conclude.FailedRun) }

// NoStart returns the trials whose servers did not start, by their reasons.
func (v *View) NoStart() []draw.Item { return v.failed(conclude.NoStart) }

func (v *View) failed(verdict conclude.Verdict) []draw.Item {
	var items []draw.Item
	for _, r := range v.Reasons(verdict) {
		it := draw.Item{Text: r.Code + ": " + r.Text, Quoted: r.Log}
		if r.Advice != "" {
			it.Text += " -> " + r.Advice
		}
		for _, t := range r.Trials {
			it.Below = append(it.Below, v.Label(t.Trial))
		}
		items = append(items, it)
	}
	return items
}

// NoStartTitle returns that of the section of NoStart.
func (v *View) NoStartTitle() string {
	if v.Resolved.RecordStarts {
		return "Servers that did not start (results of this plan, not faults)"
	}
	return "Servers that did not start"
}

// Unfinished counts the trials without an outcome, in words, with the reason that the run
// ended without them; "" if all have one.
func (v *View) Unfinished() string {
	n := v.Tally()
	if n.Done == n.All {
		return ""
	}
	text := fmt.Sprintf("%d of %s without an outcome", n.All-n.Done, humanize.Plural(n.All, "trial"))
	switch why := v.Ended(); {
	case why != "":
		text += "; the run ended early: " + why
	case v.Running:
		text += "; the run goes on"
	}
	return text
}

// A Found is a finding of a run: a missing nvidia-smi is one fact, not one for every cell.
type Found struct {
	Code, Text string
	First      conclude.Trial
	Trials     int
	Several    bool // texts
}

// Found returns the findings of the run, each code once, in the order of their first trials.
func (v *View) Found() []Found {
	var all []Found
	at := map[finding.Code]int{}
	for _, t := range v.Trials {
		if t.Outcome == nil {
			continue
		}
		seen := map[finding.Code]bool{}
		for _, f := range t.Outcome.Findings {
			i, ok := at[f.Code]
			if !ok {
				i = len(all)
				at[f.Code], all = i, append(all, Found{Code: f.Code.String(), Text: f.Text, First: t})
			}
			all[i].Several = all[i].Several || all[i].Text != f.Text
			if !seen[f.Code] {
				seen[f.Code] = true
				all[i].Trials++
			}
		}
	}
	return all
}

// Findings returns the findings in words, and the devices that were slow.
func (v *View) Findings() []draw.Item {
	var items []draw.Item
	for _, f := range v.Found() {
		text := f.Code + ": " + f.Text
		switch {
		case f.Several:
			text += fmt.Sprintf(" (%s; %s have it, each with its own numbers)", v.Label(f.First), humanize.Plural(f.Trials, "trial"))
		case f.Trials > 1:
			text += fmt.Sprintf(" (%s)", humanize.Plural(f.Trials, "trial"))
		}
		items = append(items, draw.Item{Text: text})
	}
	return append(items, draw.Items(v.SlowDevices())...)
}

// Unstable returns the cells that are, and why.
func (v *View) Unstable() []draw.Item {
	return v.each(func(p *conclude.Point) string {
		if p.Verdict != conclude.Unstable {
			return ""
		}
		return p.Why
	})
}

// Jitter returns the cells whose p95 is far from the p50.
func (v *View) Jitter() []draw.Item {
	return v.each(func(p *conclude.Point) string { return p.Jitter })
}

// each returns the cells of which something is to be said.
func (v *View) each(say func(*conclude.Point) string) []draw.Item {
	var items []draw.Item
	for _, p := range v.Set.Points {
		if text := say(p); text != "" {
			items = append(items, draw.Item{Text: p.Cell.Label + ": " + text})
		}
	}
	return items
}

// An Objective is one of the plan's over all cells that have it.
type Objective struct {
	Name, Expr string // Expr is "" if it differs from cell to cell
	Warn       bool
	Cells      int
	By         map[string][]*conclude.Point // by verdict: result.SLOPass and so on, "" for not checked
	Missing    string                       // why it could not be checked
}

// Objectives returns those of the plan, in its order.
func (v *View) Objectives() []*Objective {
	var all []*Objective
	for _, p := range v.Set.Points {
		for _, r := range p.Objectives {
			i := slices.IndexFunc(all, func(o *Objective) bool { return o.Name == r.Name })
			if i < 0 {
				i = len(all)
				all = append(all, &Objective{Name: r.Name, Expr: r.Expr, Warn: r.Severity == conclude.SeverityWarn, By: map[string][]*conclude.Point{}})
			}
			o := all[i]
			if o.Expr != r.Expr {
				o.Expr = ""
			}
			if r.Verdict == "" {
				o.Missing = r.Error
			}
			o.Cells++
			o.By[r.Verdict] = append(o.By[r.Verdict], p)
		}
	}
	return all
}

// Missed returns the objectives that cells missed.
func (v *View) Missed() []draw.Item { return v.decided(result.SLOFail) }

// Undecided returns those that there are too few requests for.
func (v *View) Undecided() []draw.Item { return v.decided(result.SLOUndecided) }

// Unchecked returns the objectives that could not be held against cells.
func (v *View) Unchecked() []draw.Item { return v.objectives("") }

// decided returns the objectives of a verdict, but of a search, which decides by itself.
func (v *View) decided(verdict string) []draw.Item {
	if v.Searching() {
		return nil
	}
	return v.objectives(verdict)
}

// objectives returns those of a verdict, of all cells.
func (v *View) objectives(verdict string) []draw.Item {
	var items []draw.Item
	for _, p := range v.Set.Points {
		for _, o := range p.Objectives {
			if o.Verdict != verdict {
				continue
			}
			text := fmt.Sprintf("%s: %s (%s): %s", p.Cell.Label, o.Name, o.Expr, objective.Why(o))
			if o.Severity == conclude.SeverityWarn {
				text += " [warning only]"
			}
			if len(o.LowConfidence) > 0 && verdict != "" {
				text += fmt.Sprintf(" [on %s, too few for it]", humanize.Plural(p.Fewest(), "request"))
			}
			items = append(items, draw.Item{Text: text})
		}
	}
	return items
}

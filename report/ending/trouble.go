package ending

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

// objectiveCells is one objective of the plan's over all cells that have it.
type objectiveCells struct {
	name, expr string
	warn       bool
	cells      int
	by         map[string][]*compare.Point // by verdict
	missing    string                      // why it could not be checked
}

// objectives say which are missed, undecided or not checked, and where; those that are
// met everywhere stand together.
func (e *ending) objectives() []string {
	var all []*objectiveCells
	for _, p := range e.points {
		for _, r := range p.Objectives {
			i := slices.IndexFunc(all, func(o *objectiveCells) bool { return o.name == r.Name })
			if i < 0 {
				i = len(all)
				all = append(all, &objectiveCells{name: r.Name, expr: r.Expr, warn: r.Severity == compare.SeverityWarn, by: map[string][]*compare.Point{}})
			}
			o := all[i]
			if o.expr != r.Expr {
				o.expr = "" // it differs from cell to cell
			}
			if r.Verdict == "" {
				o.missing = r.Error
			}
			o.cells++
			o.by[r.Verdict] = append(o.by[r.Verdict], p)
		}
	}
	var lines, met []string
	for _, o := range all {
		if len(o.by[result.SLOPass]) == o.cells {
			met = append(met, o.name+e.only(o.by[result.SLOPass]))
			continue
		}
		lines = append(lines, e.objective(o))
	}
	lines = cut(lines, maxObjective, "objective", e.more)
	if len(met) > 0 {
		lines = append(lines, "met in every valid cell: "+strings.Join(met, ", "))
	}
	return lines
}

func (e *ending) objective(o *objectiveCells) string {
	text := o.name
	if o.expr != "" {
		text += " (" + o.expr + ")"
	}
	var parts []string
	for _, v := range []struct{ verdict, word string }{
		{result.SLOFail, "missed"}, {result.SLOUndecided, "undecided"}, {"", "not checked"},
	} {
		if points := o.by[v.verdict]; len(points) > 0 {
			part := fmt.Sprintf("%s in %d of %s%s", v.word, len(points), humanize.Plural(o.cells, "cell"), e.where(points, o))
			if v.verdict == "" && o.missing != "" {
				part += ": " + o.missing
			}
			parts = append(parts, part)
		}
	}
	text += ": " + strings.Join(parts, ", ")
	if o.warn {
		text += " [warning only]"
	}
	return text
}

// where are some points in words: the loads, if they are all that have the objective
// there, else the cells if they are few, or the least load.
func (e *ending) where(points []*compare.Point, o *objectiveCells) string {
	if len(points) == o.cells {
		return ""
	}
	down, _ := e.down()
	if down == nil || !down.Amount || len(e.loads) > 1 { // each load has an amount of its own
		return e.few(points)
	}
	at, all := map[any]int{}, map[any]int{}
	for _, p := range points {
		at[p.Cell.Value(down.Column)]++
	}
	for _, some := range o.by {
		for _, p := range some {
			all[p.Cell.Value(down.Column)]++
		}
	}
	var values []string
	whole := true
	for _, v := range down.Values {
		if at[v] > 0 {
			values = append(values, fmt.Sprint(v))
			whole = whole && at[v] == all[v]
		}
	}
	switch {
	case whole:
		return ", at " + down.Column + " " + list(values)
	case len(points) <= maxLabels:
		return e.few(points)
	}
	return ", the least load at " + down.Column + " " + values[0]
}

// few are the names of points that are few; "" for more.
func (e *ending) few(points []*compare.Point) string {
	if len(points) > maxLabels {
		return ""
	}
	names := make([]string, len(points))
	for i, p := range points {
		names[i] = e.axes.Short(p.Cell)
	}
	return ", at " + strings.Join(names, " and ")
}

// A group is trials of one reason.
type group struct {
	reason string
	text   string
	ofAll  bool // the text is true for each trial, and not of the first alone
	trials []compare.Trial
}

// String is the group in words: how many trials, and the text that is of all of them, or
// of the first.
func (g *group) String(e *ending) string {
	at := ""
	switch {
	case len(g.trials) == 1:
		at = ", at " + e.axes.Short(g.trials[0].Cell)
	case !g.ofAll:
		at = ", such as " + e.axes.Short(g.trials[0].Cell)
	}
	return fmt.Sprintf("%s %dx%s: %s", g.reason, len(g.trials), at, g.text)
}

// gather sorts trials into groups by their keys, the largest first.
func gather(trials []compare.Trial, of func(t compare.Trial, add func(key string, g group))) []*group {
	var groups []*group
	byKey := map[string]*group{}
	for _, t := range trials {
		of(t, func(key string, first group) {
			g := byKey[key]
			if g == nil {
				g = &first
				byKey[key], groups = g, append(groups, g)
			}
			g.trials = append(g.trials, t)
		})
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return len(b.trials) - len(a.trials) })
	return groups
}

// judged are the trials of a verdict.
func (e *ending) judged(v compare.Verdict) []compare.Trial {
	var some []compare.Trial
	for _, t := range e.Trials {
		if t.Outcome != nil && compare.Judge(t) == v {
			some = append(some, t)
		}
	}
	return some
}

// lines are groups in words.
func (e *ending) lines(groups []*group) []string {
	lines := make([]string, len(groups))
	for i, g := range groups {
		lines[i] = g.String(e)
	}
	return cut(lines, maxReasons, "reason", e.more)
}

// invalid are the reasons for INVALID in a clause each, with what to do; the texts of
// trials, with their numbers, are in the details.
func (e *ending) invalid() []string {
	return e.lines(gather(e.judged(compare.Invalid), func(t compare.Trial, add func(key string, g group)) {
		if len(t.Outcome.Invalid) == 0 {
			text := fmt.Sprint(t.Outcome.Row[col.InvalidReasons])
			add(text, group{reason: text, text: "see its row"})
		}
		for _, f := range t.Outcome.Invalid {
			g := group{reason: f.Code.String(), text: finding.Brief(f.Code), ofAll: true}
			if g.text == "" { // of another version
				g.text, g.ofAll = f.Text, false
			}
			add(g.reason, g)
		}
	}))
}

// digits are what differs between two failures of one kind: times, process ids.
var digits = regexp.MustCompile(`[0-9]+`)

// failed are the trials without numbers, by their reason. Of reasons that differ in
// their numbers alone the first stands for all.
func (e *ending) failed(v compare.Verdict) []string {
	return e.lines(gather(e.judged(v), func(t compare.Trial, add func(key string, g group)) {
		class, text := humanize.Figure(t.Outcome.Row[col.ErrorClass]), humanize.Figure(t.Outcome.Row[col.Error])
		key := class + ": " + digits.ReplaceAllString(text, "0")
		if t.Outcome.StartFailure && class == "spec" {
			text += " -> " + report.SpecAdvice
		}
		add(key, group{reason: class, text: text})
	}))
}

// unstable are the cells that are, and why.
func (e *ending) unstable() []string {
	var lines []string
	for _, p := range e.points {
		if p.Verdict == compare.Unstable {
			lines = append(lines, e.axes.Short(p.Cell)+": "+p.Why)
		}
	}
	return cut(lines, maxLabels, "cell", e.more)
}

// skipped are the cells whose servers were predicted not to fit.
func (e *ending) skipped() []string {
	if n := len(e.Resolved.Skipped); n > 0 {
		return []string{humanize.Plural(n, "cell") + " of servers that were predicted not to fit: " + e.more}
	}
	return nil
}

// open is what has no outcome, and why the run ended without it.
func (e *ending) open() []string {
	n := 0
	for _, t := range e.Trials {
		if t.Outcome == nil {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %s without an outcome", n, humanize.Plural(len(e.Trials), "trial"))
	switch why := e.Ended(); {
	case why != "":
		text += ": " + why
	case e.Running:
		text += ": the run goes on"
	}
	return []string{text}
}

// notes are the findings by their codes, in one line, and what else the figures rest on.
func (e *ending) notes() []string {
	var lines []string
	var codes []string
	count := map[string]int{}
	reused := 0
	for _, t := range e.Trials {
		if t.Outcome == nil {
			continue
		}
		if t.Outcome.Row[col.ReusedFrom] != nil {
			reused++
		}
		seen := map[string]bool{}
		for _, f := range t.Outcome.Findings {
			if code := f.Code.String(); !seen[code] {
				if seen[code] = true; count[code] == 0 {
					codes = append(codes, code)
				}
				count[code]++
			}
		}
	}
	if len(codes) > 0 {
		slices.SortStableFunc(codes, func(a, b string) int { return count[b] - count[a] })
		parts := make([]string, len(codes))
		for i, code := range codes {
			parts[i] = fmt.Sprintf("%s %dx", code, count[code])
		}
		if n := len(parts) - maxFindings; n > 0 {
			parts = append(parts[:maxFindings], fmt.Sprintf("%d more kinds", n))
		}
		lines = append(lines, strings.Join(parts, ", ")+": "+e.more)
	}
	slow := e.SlowDevices()
	if n := len(slow) - maxFindings; n > 0 {
		slow = append(slow[:maxFindings], fmt.Sprintf("%d more slow devices: %s", n, e.more))
	}
	lines = append(lines, slow...)
	if e.State.Manifest.Decide == rundir.DecidePoint {
		lines = append(lines, "objectives are decided by their values alone (--decide point)")
	}
	if method := result.MethodOf(e.State.Manifest.Method); method != result.Method && slices.ContainsFunc(e.Rows(), func(r result.Row) bool { return r.Method() == method }) {
		lines = append(lines, fmt.Sprintf("figures of method %d, which those of method %d must not be compared with", method, result.Method))
	}
	if reused > 0 {
		lines = append(lines, humanize.Plural(reused, "trial")+" taken over from an earlier run")
	}
	return lines
}

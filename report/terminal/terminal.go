// Package terminal writes how a run ended, for a person at a terminal: the answer first,
// a bounded number of lines, and each fact once. Package summary has the rest.
package terminal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/view"
	"sweep.dev/sweep/result"
)

// The bounds of what is printed, whatever the size of a run. A list that is cut says
// how much is left out, and the command that shows it.
const (
	maxGridLines = 30 // of figures; a larger grid is drawn as one line for each series
	maxSeries    = 24
	maxLoads     = 4 // named ones, each with a grid of its own
	maxAnswers   = 8
	maxReasons   = 4
	maxObjective = 5
	maxFindings  = 6
	maxOwed      = 4
	maxUnstable  = 2
)

// An ending is what there is to say about a run, in short.
type ending struct {
	*view.View
	all  view.Grid // of all cells
	more string    // the command that shows what is left out
}

// Write writes how the run ended: its grid, its best cells, what is not decided,
// objectives that were missed, trials without numbers to use, and its files.
func Write(w io.Writer, run *report.Run, style draw.Style) error {
	e := of(run, draw.Command("sweep cells -v "+plaintext.Word(run.Dir)))
	d := draw.New(w, style)
	d.Parts(e.title()...)
	e.pods(d)
	d.Blank()
	if e.Searching() {
		answers := e.Capacity()
		d.Section(capacity.Title(answers), capacity.Drawn(answers, style.Width))
	} else {
		e.grids(d, style)
	}
	d.Labelled("Quality", e.quality()...)
	d.Labelled("INVALID", e.reasons(conclude.Invalid)...)
	d.Labelled("NO START", e.reasons(conclude.NoStart)...)
	d.Labelled("FAILED", e.reasons(conclude.FailedRun)...)
	d.Labelled("Unstable", e.unstable()...)
	d.Labelled("Skipped", e.skipped()...)
	if text := e.Unfinished(); text != "" {
		d.Labelled("Open", text)
	}
	d.Labelled("Notes", e.notes()...)
	d.Blank()
	d.Parts(e.files()...)
	return d.Err()
}

// of returns what there is to say of a run. more is the command that shows what is left out.
func of(run *report.Run, more string) *ending {
	v := view.Of(run)
	return &ending{View: v, all: view.GridOf(v.Set.Points), more: more}
}

// Grids writes what cells of a run without a directory come to: those of a rehearsal.
func Grids(d *draw.Document, run *report.Run, style draw.Style) {
	e := of(run, draw.Command("sweep run"))
	d.Parts(e.title()...)
	d.Blank()
	e.grids(d, style)
	d.Labelled("INVALID", e.reasons(conclude.Invalid)...)
	d.Labelled("FAILED", e.reasons(conclude.FailedRun)...)
}

// title returns the run in one line: how much of it is done, how long that took, and how
// many trials have numbers to use.
func (e *ending) title() []string {
	n := e.Tally()
	parts := []string{e.State.Manifest.Plan, fmt.Sprintf("%d of %s", n.Done, humanize.Plural(n.All, "trial"))}
	if took := e.took(); took > 0 {
		parts = append(parts, took.Round(time.Second).String())
	}
	switch n.Simulated {
	case 0:
	case n.Done:
		parts = append(parts, "SIMULATED")
	default:
		parts = append(parts, fmt.Sprintf("%d of %d SIMULATED", n.Simulated, n.Done))
	}
	var each []string
	for _, verdict := range conclude.Verdicts() {
		word := string(verdict)
		if verdict == conclude.Acceptable {
			word = "valid"
		}
		if n := n.Each[verdict]; n > 0 {
			each = append(each, fmt.Sprintf("%d %s", n, word))
		}
	}
	return append(parts, strings.Join(each, ", "))
}

// took returns how long processes have worked on the run, without the time between them;
// 0 where the journal does not say it.
func (e *ending) took() (sum time.Duration) {
	var from, last time.Time
	for _, ev := range e.State.Events {
		if ev.Type == "run_started" {
			sum += last.Sub(from)
			from = ev.Time
		}
		if !from.IsZero() {
			last = ev.Time
		}
		if ev.Type == "run_finished" { // what follows is told by the next process
			sum += last.Sub(from)
			from, last = time.Time{}, time.Time{}
		}
	}
	return sum + last.Sub(from)
}

// pods writes which pods the run has not given back. The label says whether anybody has to
// look after them.
func (e *ending) pods(d *draw.Document) {
	label, state := "OWED", ": may still run, its end is not confirmed"
	if e.Running {
		label, state = "Pods", ": in use by the run"
	}
	owed, kept := e.Pods()
	var lines []string
	for _, o := range owed {
		lines = append(lines, o.Text+state)
	}
	d.Labelled(label, cut(lines, maxOwed, "pod", draw.Command("sweep pods"))...)
	lines = nil
	for _, k := range kept {
		lines = append(lines, k.Text)
	}
	d.Labelled("Kept", cut(lines, maxOwed, "pod", draw.Command("sweep pods"))...)
}

// cut keeps the first lines of a list and says how many more there are, and where. One
// line more than the bound stays: what is said instead takes one too.
func cut(lines []string, n int, what, where string) []string {
	if len(lines) <= n+1 {
		return lines
	}
	return append(lines[:n:n], fmt.Sprintf("%d more %ss: %s", len(lines)-n, what, where))
}

// quality returns how the deployments answered the prompts of the plan.
func (e *ending) quality() []string {
	p, unread := e.Quality()
	switch {
	case unread != "":
		return []string{unread}
	case p == nil:
		return nil
	}
	return cut(p.Short(), maxReasons, "deployment", e.more)
}

// reasons returns those of trials without numbers to use, in a clause each, with what to do;
// the words of trials, with their numbers, are in the summary.
func (e *ending) reasons(verdict conclude.Verdict) []string {
	var lines []string
	for _, r := range e.Reasons(verdict) {
		at := ""
		switch first := e.all.Axes.Short(r.Trials[0].Cell); {
		case len(r.Trials) == 1:
			at = ", at " + first
		case !r.OfAll:
			at = ", such as " + first
		}
		text := fmt.Sprintf("%s %dx%s: %s", r.Code, len(r.Trials), at, r.Text)
		if r.Advice != "" && !r.OfAll { // a clause that is of all has its own
			text += " -> " + r.Advice
		}
		lines = append(lines, text)
	}
	return cut(lines, maxReasons, "reason", e.more)
}

// objectives say which are missed, undecided or not checked, and where; those that are
// met everywhere stand together.
func (e *ending) objectives() []string {
	var lines, met []string
	for _, o := range e.Objectives() {
		if points := o.By[result.SLOPass]; len(points) == o.Cells {
			met = append(met, o.Name+e.only(points))
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

func (e *ending) objective(o *view.Objective) string {
	text := o.Name
	if o.Expr != "" {
		text += " (" + o.Expr + ")"
	}
	var parts []string
	for _, v := range []struct{ verdict, word string }{
		{result.SLOFail, "missed"}, {result.SLOUndecided, "undecided"}, {"", "not checked"},
	} {
		if points := o.By[v.verdict]; len(points) > 0 {
			part := fmt.Sprintf("%s in %d of %s%s", v.word, len(points), humanize.Plural(o.Cells, "cell"), e.all.Where(points, o))
			if v.verdict == "" && o.Missing != "" {
				part += ": " + o.Missing
			}
			parts = append(parts, part)
		}
	}
	text += ": " + strings.Join(parts, ", ")
	if o.Warn {
		text += " [warning only]"
	}
	return text
}

// only returns the loads that points are of, in brackets, if they are not all that have
// valid cells; else "".
func (e *ending) only(points []*conclude.Point) string {
	names := func(points []*conclude.Point) (all []string) {
		for _, l := range conclude.ByLoadName(points) {
			all = append(all, l.Name)
		}
		return all
	}
	valid := slices.DeleteFunc(slices.Clone(e.Set.Points), func(p *conclude.Point) bool { return p.Valid == 0 })
	some := names(points)
	if len(some) == len(names(valid)) {
		return ""
	}
	return " (" + strings.Join(some, ", ") + ")"
}

// unstable returns the cells that are, and why.
func (e *ending) unstable() []string {
	var lines []string
	for _, p := range e.Set.Points {
		if p.Verdict == conclude.Unstable {
			lines = append(lines, e.all.Axes.Short(p.Cell)+": "+p.Why)
		}
	}
	return cut(lines, maxUnstable, "cell", e.more)
}

// skipped returns the cells whose servers were predicted not to fit.
func (e *ending) skipped() []string {
	if n := len(e.Resolved.Skipped); n > 0 {
		return []string{humanize.Plural(n, "cell") + " of servers that were predicted not to fit: " + e.more}
	}
	return nil
}

// notes returns the findings by their codes, in one line, the most usual first, and what else
// the figures rest on.
func (e *ending) notes() []string {
	var lines []string
	found := e.Found()
	slices.SortStableFunc(found, func(a, b view.Found) int { return b.Trials - a.Trials })
	parts := make([]string, len(found))
	for i, f := range found {
		parts[i] = fmt.Sprintf("%s %dx", f.Code, f.Trials)
	}
	if n := len(parts) - maxFindings; n > 0 {
		parts = append(parts[:maxFindings], fmt.Sprintf("%d more kinds", n))
	}
	if len(parts) > 0 {
		lines = append(lines, strings.Join(parts, ", ")+": "+e.more)
	}
	lines = append(lines, cut(e.SlowDevices(), maxFindings, "slow device", e.more)...)
	return append(lines, e.Basis()...)
}

// files returns what the run has written: the summary in full, the others by name.
func (e *ending) files() []string {
	var names []string
	for _, name := range layout.Derived() {
		if _, err := os.Stat(filepath.Join(e.Dir, name)); err == nil {
			names = append(names, name)
		}
	}
	// The files that a person opens come first.
	first := map[string]int{layout.Summary: -2, layout.CellsCSV: -1}
	slices.SortStableFunc(names, func(a, b string) int { return first[a] - first[b] })
	if len(names) > 2 {
		names = append(names[:2], fmt.Sprintf("%d more", len(names)-2))
	}
	if len(names) == 0 {
		return []string{e.Dir}
	}
	names[0] = filepath.Join(e.Dir, names[0])
	return []string{strings.Join(names, ", ")}
}

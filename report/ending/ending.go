// Package ending writes how a run ended, for a person at a terminal: the answer first,
// a bounded number of lines, and each fact once. Package details has the rest.
package ending

import (
	"cmp"
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
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// The bounds of what is printed, whatever the size of a run. A list that is cut says
// how much is left out, and the command that shows it.
const (
	maxGridLines = 30 // of figures; a larger grid is drawn as one line for each series
	maxSeries    = 24
	maxAnswers   = 8
	maxReasons   = 4
	maxObjective = 5
	maxFindings  = 6
	maxOwed      = 4
	maxLabels    = 2
)

// An ending is what there is to say about a run, in short.
type ending struct {
	*report.Run
	set    *compare.Set
	points []*compare.Point
	rate   compare.Measure
	// latencies are one or two, the one that answers are given with first; none if none
	// was measured.
	latencies []compare.Measure
	form      form         // of the grid
	axes      compare.Axes // those that the run varies
	loads     []*ending    // of a run of several loads each by itself, else the run
	share     int          // how many share the bounds of a grid
	more      string       // the command that shows what is left out
}

// Write writes how the run ended: its grid, its best cells, what is not decided,
// objectives that were missed, trials without numbers to use, and its files.
func Write(w io.Writer, run *report.Run, style draw.Style) error {
	e := of(run, draw.Command("sweep cells -v "+plaintext.Word(run.Dir)))
	d := draw.New(w, style)
	d.Parts(e.title()...)
	label, owed := e.owed()
	d.Labelled(label, owed...)
	d.Blank()
	if len(run.Resolved.Searches) > 0 {
		answers := capacity.Of(run)
		d.Section(capacity.Title(answers), capacity.Drawn(answers, style.Width))
	} else {
		e.grids(d, style)
	}
	d.Labelled("Quality", e.quality()...)
	d.Labelled("INVALID", e.invalid()...)
	d.Labelled("NO START", e.failed(compare.NoStart)...)
	d.Labelled("FAILED", e.failed(compare.FailedRun)...)
	d.Labelled("Unstable", e.unstable()...)
	d.Labelled("Skipped", e.skipped()...)
	d.Labelled("Open", e.open()...)
	d.Labelled("Notes", e.notes()...)
	d.Blank()
	d.Parts(e.files()...)
	return d.Err()
}

// quality is how the deployments answered the prompts of the plan.
func (e *ending) quality() []string {
	p, err := paired.Read(e.Dir)
	switch {
	case err != nil:
		return []string{"the answers cannot be read: " + err.Error()}
	case p == nil:
		return nil
	}
	return cut(p.Short(), maxReasons, "deployment", e.more)
}

// of is what there is to say of a run. more is the command that shows what is left out.
func of(run *report.Run, more string) *ending {
	e := &ending{Run: run, set: run.Conclude(), share: 1, more: more}
	e.points = e.set.Points
	e.rate, e.latencies = e.shown()
	e.form = form{latencies: e.latencies}
	e.axes = compare.Varied(e.points)
	e.loads = e.split()
	return e
}

// grids draws the figures of the cells, the best of them, and the objectives.
func (e *ending) grids(d *draw.Document, style draw.Style) {
	for _, one := range e.loads {
		one.grid(d, style)
		d.Blank()
	}
	d.Parts(e.unsaid()...)
	d.Labelled("SLO", e.objectives()...)
}

// Grids writes what cells of a run without a directory come to: those of a rehearsal.
func Grids(d *draw.Document, run *report.Run, style draw.Style) {
	e := of(run, draw.Command("sweep run"))
	d.Parts(e.title()...)
	d.Blank()
	e.grids(d, style)
	d.Labelled("INVALID", e.invalid()...)
	d.Labelled("FAILED", e.failed(compare.FailedRun)...)
}

// title is the run in one line: how much of it is done, how long that took, and how
// many trials have numbers to use.
func (e *ending) title() []string {
	done, simulated := 0, 0
	counts := map[compare.Verdict]int{}
	for _, t := range e.Trials {
		if t.Outcome == nil {
			continue
		}
		done++
		if t.Outcome.Row[col.Simulated] == true {
			simulated++
		}
		switch v := compare.Judge(t); v {
		case compare.Invalid, compare.NoStart, compare.FailedRun, compare.Skipped:
			counts[v]++
		default:
			counts[compare.Acceptable]++
		}
	}
	parts := []string{e.State.Manifest.Plan, fmt.Sprintf("%d of %s", done, humanize.Plural(len(e.Trials), "trial"))}
	if took := e.took(); took > 0 {
		parts = append(parts, took.Round(time.Second).String())
	}
	switch {
	case simulated > 0 && simulated == done:
		parts = append(parts, "SIMULATED")
	case simulated > 0:
		parts = append(parts, fmt.Sprintf("%d of %d SIMULATED", simulated, done))
	}
	var each []string
	for _, c := range []struct {
		v    compare.Verdict
		name string
	}{
		{compare.Acceptable, "valid"},
		{compare.Invalid, "INVALID"},
		{compare.NoStart, "did not start"},
		{compare.FailedRun, "failed"},
		{compare.Skipped, "skipped"},
	} {
		if n := counts[c.v]; n > 0 {
			each = append(each, fmt.Sprintf("%d %s", n, c.name))
		}
	}
	return append(parts, strings.Join(each, ", "))
}

// took is how long processes have worked on the run, without the time between them;
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

// shown are the figures that stand in the grid: how much a cell carries, the latency
// that the plan's objectives are about, else a p95, and beside it the p95 of E2E, or that of
// TTFT beside an E2E.
func (e *ending) shown() (rate compare.Measure, latencies []compare.Measure) {
	rate = compare.RequestRate
	var rows []result.Row
	for _, p := range e.points {
		for _, t := range p.Trials {
			if o := t.Outcome; o != nil && (o.Row[col.Status] == result.StatusOK || o.Row[col.Status] == result.StatusInvalid) {
				rows = append(rows, o.Row)
			}
		}
	}
	has := func(column string) bool {
		return slices.ContainsFunc(rows, func(row result.Row) bool { return row[row.Figure(column)] != nil || row.Infinite(column) })
	}
	if has(compare.TokenRate.Column) {
		rate = compare.TokenRate
	}
	first := e.first(has)
	if first == "" {
		return rate, nil
	}
	latencies = []compare.Measure{{Column: first}}
	second := col.P95E2EMs
	if strings.HasSuffix(first, "_e2e_ms") {
		second = col.P95TTFTMs
	}
	if has(second) {
		latencies = append(latencies, compare.Measure{Column: second})
	}
	return rate, latencies
}

// first is the column of the latency that objectives of the plan are about, else of a p95;
// "" if none was measured.
func (e *ending) first(has func(column string) bool) string {
	for _, p := range e.points {
		for _, o := range p.Objectives {
			if o.Severity == compare.SeverityWarn {
				continue
			}
			for _, name := range columnsOf(o) {
				if percentile.MatchString(name) && has(name) {
					return name
				}
			}
		}
	}
	for _, l := range []string{"ttft", "e2e", "tpot"} {
		if name := col.Latency("p95", l); has(name) {
			return name
		}
	}
	return ""
}

// owed are the pods that the run has not given back, with a label that says whether
// anybody has to look after them.
func (e *ending) owed() (label string, lines []string) {
	label = "Pods"
	for _, o := range e.State.Owed {
		text := fmt.Sprintf("pod %s (%s)", cmp.Or(o.Name, o.Pod), o.Kind)
		if o.USDPerHour > 0 {
			text += fmt.Sprintf(", $%.2f/h", o.USDPerHour)
		}
		switch {
		case o.Kept():
			text += ": kept running until " + o.Expires.UTC().Format(time.DateTime) + " UTC"
		case e.Running:
			text += ": in use by the run"
		default:
			label = "OWED"
			text += ": may still run, its end is not confirmed"
		}
		lines = append(lines, text)
	}
	return label, cut(lines, maxOwed, "pod", draw.Command("sweep pods"))
}

// cut keeps the first lines of a list and says how many more there are, and where. One
// line more than the bound stays: what is said instead takes one too.
func cut(lines []string, n int, what, where string) []string {
	if len(lines) <= n+1 {
		return lines
	}
	return append(lines[:n:n], fmt.Sprintf("%d more %ss: %s", len(lines)-n, what, where))
}

// files are what the run has written: the summary in full, the others by name.
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

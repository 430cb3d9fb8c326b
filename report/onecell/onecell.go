// Package onecell draws one cell of a run: its trials side by side, the conclusions
// from them, their course second by second, and the paths of their logs.
package onecell

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/rundir"
)

// Options say how much of a cell is drawn.
type Options struct {
	draw.Style
	// Verbose draws every trial by itself however many there are, the course of each,
	// and the whole end of a log.
	Verbose bool
	// Columns are those of the cells table that are drawn in place of the usual
	// figures; nil for the usual ones.
	Columns []result.Column
}

// Write draws a cell of a run. The error is that of writing, or of reading the samples
// of a trial.
func Write(w io.Writer, run *report.Run, p *conclude.Point, o Options) error {
	v := view{run: run, p: p, o: o, limit: o.Width}
	if v.limit == 0 {
		v.limit = widthUnknown
	}
	d := draw.New(w, o.Style)
	d.Title(v.title())
	d.Paragraph(v.state()...)
	for _, grid := range v.grids() {
		d.Grid(grid)
	}
	d.Section("Objectives", v.objectives())
	d.Section("INVALID: these numbers must not be used", v.found(func(o *result.Outcome) []result.Finding { return o.Invalid }, true))
	for _, grid := range v.clients() {
		d.Grid(grid)
	}
	d.Section("Failed", v.failures())
	d.Section("Findings", v.found(func(o *result.Outcome) []result.Finding { return o.Findings }, false))
	if err := v.courses(d); err != nil {
		return err
	}
	d.Lines("Logs", v.logs())
	return d.Err()
}

// widthUnknown is the width of what is not written to a terminal.
const widthUnknown = 100

type view struct {
	run   *report.Run
	p     *conclude.Point
	o     Options
	limit int
}

// title says which cell it is.
func (v *view) title() string {
	text := fmt.Sprintf("%s, cell %s of %s", v.p.Cell.Label, v.p.Cell.ID, v.run.State.Manifest.Plan)
	if v.p.Simulated() {
		text += ", SIMULATED"
	}
	return text
}

// state returns the verdict on the cell, and which trials it rests on.
func (v *view) state() []string {
	text := v.p.Verdict.Mark() + " " + v.p.Outcome()
	if v.p.Why != "" {
		text += ": " + v.p.Why
	}
	n := len(v.p.Trials)
	switch {
	case n == 1:
	case v.p.Valid == n:
		text += fmt.Sprintf("; all %d trials are VALID", n)
	case v.p.Valid > 0:
		text += fmt.Sprintf("; %d of %d trials are VALID, and the means are theirs", v.p.Valid, n)
	default:
		text += fmt.Sprintf("; none of %d trials is VALID", n)
	}
	lines := []string{text}
	if v.p.Jitter != "" {
		lines = append(lines, "jitter: "+v.p.Jitter)
	}
	return lines
}

// measured returns the trials with an outcome.
func (v *view) measured() []conclude.Trial {
	return slices.DeleteFunc(slices.Clone(v.p.Trials), func(t conclude.Trial) bool { return t.Outcome == nil })
}

// objectives returns those of the cell, over its valid trials together.
func (v *view) objectives() []draw.Item {
	if v.p.Valid == 0 {
		return nil
	}
	var items []draw.Item
	for _, o := range v.p.Objectives {
		verdict := o.Verdict
		if verdict == "" {
			verdict = "could not be checked"
		}
		if o.Severity == conclude.SeverityWarn {
			verdict += " (a warning only)"
		}
		text := fmt.Sprintf("%s (%s): %s", o.Name, o.Expr, verdict)
		if why := objective.Why(o); why != "" && (o.Verdict != result.SLOPass || v.o.Verbose) {
			text += ": " + why
		}
		items = append(items, draw.Item{Text: text})
	}
	return items
}

// found returns findings, each code once with the trials that have it. The figures in the
// text are those of the first of them.
func (v *view) found(of func(*result.Outcome) []result.Finding, advise bool) []draw.Item {
	type group struct {
		first  string
		trials []int
		all    []string // the text of each
	}
	groups := map[finding.Code]*group{}
	var order []finding.Code
	for _, t := range v.measured() {
		for _, f := range of(t.Outcome) {
			g := groups[f.Code]
			if g == nil {
				g = &group{first: f.Text}
				groups[f.Code], order = g, append(order, f.Code)
			}
			if !slices.Contains(g.trials, t.Trial) {
				g.trials = append(g.trials, t.Trial)
			}
			g.all = append(g.all, fmt.Sprintf("trial %d: %s", t.Trial, f.Text))
		}
	}
	var items []draw.Item
	for _, code := range order {
		g := groups[code]
		item := draw.Item{Text: code.String() + ": " + g.first}
		switch {
		case len(v.p.Trials) == 1:
		case len(g.trials) == 1 || slices.Equal(g.all, uniform(g.first, g.trials)):
			item.Text = fmt.Sprintf("%s (%s): %s", code, trials(g.trials), g.first)
		case v.o.Verbose:
			item = draw.Item{Text: fmt.Sprintf("%s (%s)", code, trials(g.trials)), Below: g.all}
		default:
			item.Text = fmt.Sprintf("%s (%s; figures of trial %d): %s", code, trials(g.trials), g.trials[0], g.first)
		}
		if _, try, ok := strings.Cut(finding.Advice(code), " -> "); ok && advise {
			item.Below = append(item.Below, "-> "+try)
		}
		items = append(items, item)
	}
	return items
}

// uniform returns the texts of trials that all say the same.
func uniform(text string, numbers []int) []string {
	all := make([]string, len(numbers))
	for i, n := range numbers {
		all[i] = fmt.Sprintf("trial %d: %s", n, text)
	}
	return all
}

// trials returns numbers of trials in words: "trial 2", "trials 1, 3".
func trials(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = fmt.Sprint(n)
	}
	if len(texts) == 1 {
		return "trial " + texts[0]
	}
	return "trials " + strings.Join(texts, ", ")
}

// briefTail is how many lines of a log are quoted when details are not asked for.
const briefTail = 5

// failures returns why trials failed, each reason once, with the end of the server's log.
func (v *view) failures() []draw.Item {
	type failure struct {
		numbers []int
		tail    []string
	}
	by := map[string]*failure{}
	var order []string
	for _, t := range v.measured() {
		class, _ := t.Outcome.Row[col.ErrorClass].(string)
		if class == "" {
			continue
		}
		text := class
		if words, ok := t.Outcome.Row[col.Error].(string); ok {
			text += ": " + words
		}
		if by[text] == nil {
			by[text], order = &failure{tail: t.Outcome.LogTail}, append(order, text)
		}
		by[text].numbers = append(by[text].numbers, t.Trial)
	}
	var items []draw.Item
	for _, text := range order {
		f := by[text]
		if len(v.p.Trials) > 1 {
			text += " (" + trials(f.numbers) + ")"
		}
		if n := len(f.tail); n > briefTail && !v.o.Verbose {
			f.tail = f.tail[n-briefTail:]
		}
		items = append(items, draw.Item{Text: text, Quoted: f.tail})
	}
	return items
}

// courses draw how trials went: the first that counts, or all.
func (v *view) courses(d *draw.Document) error {
	shown := v.p.Counting()
	if len(shown) > 1 && !v.o.Verbose {
		shown = shown[:1]
	}
	if v.o.Verbose {
		shown = v.measured()
	}
	for _, t := range shown {
		samples, err := clientSamples(v.run.Dir, t)
		if err != nil {
			return err
		}
		lines := sparklines(samples, min(60, v.limit-32))
		if !v.o.Verbose && len(lines) > brief {
			lines = lines[:brief]
		}
		if len(lines) == 0 {
			continue
		}
		title := "Each second"
		if len(v.p.Trials) > 1 {
			title += fmt.Sprintf(" of trial %d", t.Trial)
		}
		d.Lines(title, lines)
	}
	return nil
}

// logs returns the engine logs of the trials, or if there is none their folders.
func (v *view) logs() []string {
	var paths []string
	for _, t := range v.measured() {
		path := rundir.AttemptDir(v.run.Dir, t.Commit)
		if log := filepath.Join(path, layout.EngineLog); exists(log) {
			path = log
		}
		paths = append(paths, path)
	}
	if len(paths) > 2 && !v.o.Verbose {
		return []string{fmt.Sprintf("%s and those of %d more trials", paths[0], len(paths)-1)}
	}
	return paths
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

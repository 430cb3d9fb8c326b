// Package details writes everything there is to say about a run: all grids, all
// comparisons, each objective and each trial without numbers to use.
package details

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/objective"
)

// A summary is what there is to say about a run.
type summary struct {
	*report.Run
	set       *compare.Set
	points    []*compare.Point
	repeats   int
	fixed     compare.Fixed
	rate      compare.Measure // how much a cell carries
	latencies []string        // whose p95 is shown
	e2e       bool            // that of the whole answer was measured
}

// newSummary judges a run and concludes what there is to say about it.
func newSummary(r *report.Run) *summary {
	set := r.Conclude()
	s := &summary{Run: r, set: set, points: set.Points, repeats: max(1, r.Resolved.Repeats), fixed: r.Fixed()}
	s.figures()
	return s
}

// Write writes what a run found: the cells worth using and what is not decided, every
// objective that was missed with the value that missed it, the reasons for INVALID and
// failed trials with what to try, the grids, and then what all of that rests on.
func Write(w io.Writer, r *report.Run, style draw.Style) error {
	s := newSummary(r)
	d := draw.New(w, style)

	d.Title(r.State.Manifest.Plan + ": " + s.count())
	if text := s.simulated(); text != "" {
		d.Paragraph(text)
	}
	owed := "Termination not confirmed: these may still run, or cost money"
	if s.Running {
		owed = "In use by the run, which is still going"
	}
	d.Section(owed, s.owed(false))
	d.Section("Kept running, and billed until then; the next run of the same server takes them over", s.owed(true))
	if len(r.Resolved.Searches) > 0 { // whose answers rest on fresh trials alone
		answers := capacity.Of(r)
		d.Section(capacity.Title(answers), capacity.Items(answers))
	} else {
		d.Section("Sweet spots", s.spots())
		d.Paragraph(s.toDecide()...)
		d.Section("Objectives that were not met", s.missed())
		d.Section("Objectives that are undecided", s.undecided())
	}
	d.Section("Objectives that could not be checked", s.unchecked())
	d.Section("INVALID: these numbers must not be used", s.invalidByReason())
	d.Section("Failed", s.failed(func(t compare.Trial) bool { return compare.Judge(t) == compare.FailedRun }))
	d.Section(s.noStartTitle(), s.failed(func(t compare.Trial) bool { return compare.Judge(t) == compare.NoStart }))
	d.Section("Not finished", s.unfinished())
	d.Section("What to try", s.adviseOthers())
	for _, g := range s.grids() {
		d.Grid(g)
	}
	d.Paragraph(s.legend()...)
	if len(r.Resolved.Searches) == 0 {
		s.comparisons(d)
	}
	if err := s.quality(d); err != nil {
		return err
	}
	d.Section(rehearsedTitle, s.rehearsed())
	d.Section("Cost of output tokens", s.costs())
	d.Section("Prices", s.prices())
	d.Section("Unstable", s.unstable())
	d.Section("Jitter zone (decides nothing)", s.jitter())
	d.Section("Trials unlike the others of their cell (they count all the same)", s.outliers())
	d.Section("Findings", s.findings())
	if text := s.requests(); text != "" {
		d.Paragraph(text)
	}
	d.Paragraph(s.trust()...)
	d.Section("How cells are judged", draw.Items(compare.Rules))
	d.Section("Files", draw.Items(s.files()))
	if len(s.Calibration) > 0 {
		d.Paragraph(s.Calibration...)
	}
	if style.Markdown {
		d.Section("Next", draw.Items([]string{s.Next()}))
	}
	return d.Err()
}

// comparisons are the sections that a plan has by what it varies: several
// engines, settings of memory, several GPUs.
func (s *summary) comparisons(d *draw.Document) {
	if len(s.set.Engines) > 0 {
		d.Grid(s.table(s.set.Engines[0]))
		d.Paragraph(s.caveats(s.set.Engines[0])...)
		d.Section("Engines ranked", s.ranked())
	}
	if surface := s.surface(); surface != nil {
		d.Grid(surface.grid)
		d.Paragraph(surface.notes...)
	}
	tables := false
	for _, c := range s.set.Answers(compare.AskGPUBest) {
		if len(c.Places) > 0 {
			d.Grid(bestTable(c))
			tables = true
		}
	}
	if tables {
		notes := []string{shapeNote}
		for _, sh := range s.set.Shapes {
			for _, line := range slices.Concat(s.counts(col.GPU, sh.Points), drifted(sh.Points)) {
				if !slices.Contains(notes, line) {
					notes = append(notes, line)
				}
			}
		}
		d.Paragraph(notes...)
	}
	if t := s.turns(); t != nil {
		for _, g := range t.Grids() {
			d.Grid(g)
		}
		d.Paragraph(t.Notes()...)
	}
	d.Section("Which GPU for which load", s.choices())
}

// quality is how the deployments answered the plan's prompts.
func (s *summary) quality(d *draw.Document) error {
	p, err := paired.Read(s.Dir)
	if err != nil || p == nil {
		return err
	}
	d.Grid(p.Grid())
	d.Section("Does it answer worse than the baseline?", p.Verdicts())
	d.Paragraph(p.Notes()...)
	return nil
}

// count is how many cells have each verdict.
func (s *summary) count() string {
	var parts []string
	for _, v := range compare.Verdicts() {
		n := 0
		for _, p := range s.points {
			if p.Verdict == v {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	cells := humanize.Plural(len(s.points), "cell")
	if s.repeats > 1 && len(s.Resolved.Searches) == 0 {
		cells += " of "
		if s.Resolved.RepeatsUpTo {
			cells += "up to "
		}
		cells += humanize.Plural(s.repeats, "trial")
	}
	return cells + ": " + strings.Join(parts, ", ")
}

// simulated says which numbers are simulated; "" if none are.
func (s *summary) simulated() string {
	rows := s.Rows()
	n := 0
	for _, row := range rows {
		if row[col.Simulated] == true {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case len(rows):
		return "All numbers are simulated: they rehearse a plan, they do not measure a GPU."
	}
	return fmt.Sprintf("The numbers of %d of %s are simulated: they rehearse a plan, they do not measure a GPU.", n, humanize.Plural(len(rows), "trial"))
}

// owed are the pods that are not known to be gone: those that were kept on
// purpose, or all others.
func (s *summary) owed(kept bool) []draw.Item {
	var items []draw.Item
	for _, o := range s.State.Owed {
		if o.Kept() != kept {
			continue
		}
		text := fmt.Sprintf("pod %s (%s)", cmp.Or(o.Name, o.Pod), o.Kind)
		if o.Ref != nil {
			text += ", " + o.Ref.ID
		}
		if o.USDPerHour > 0 {
			text += fmt.Sprintf(", $%.2f/h", o.USDPerHour)
		}
		if kept {
			text += ", until " + o.Expires.UTC().Format(time.DateTime) + " UTC"
		}
		items = append(items, draw.Item{Text: text})
	}
	return items
}

// describe is the cell of a claim with its figures in words.
func (s *summary) describe(c compare.Claim) string {
	p := c.Places[0].Point
	parts := []string{p.Cell.Label + ": " + c.Measure.Show(c.Places[0].Value) + " " + compare.Rates[c.Measure.ID()]}
	if p.Valid > 1 {
		parts[0] += fmt.Sprintf(" ±%.0f%% over %s", 100*p.Spread(c.Measure), humanize.Plural(p.Valid, "trial"))
	}
	for _, l := range s.latencies {
		parts = append(parts, fmt.Sprintf("p95 %s %s ms", strings.ToUpper(l), p.Shown(compare.Measure{Column: col.Latency("p95", l)})))
	}
	if p.Few > 0 {
		parts[len(parts)-1] += fmt.Sprintf(" (%s)", humanize.Plural(p.Few, "request"))
	}
	if usd, ok := p.Figure(compare.TokenCost); ok {
		parts = append(parts, compare.TokenCost.Show(usd)+" per 1M output tokens")
	}
	return strings.Join(parts, ", ")
}

func (s *summary) unstable() []draw.Item {
	var items []draw.Item
	for _, p := range s.points {
		if p.Verdict == compare.Unstable {
			items = append(items, draw.Item{Text: p.Cell.Label + ": " + p.Why})
		}
	}
	return items
}

// jitter are the cells whose p95 is far from the p50.
func (s *summary) jitter() []draw.Item {
	var items []draw.Item
	for _, p := range s.points {
		if p.Jitter != "" {
			items = append(items, draw.Item{Text: p.Cell.Label + ": " + p.Jitter})
		}
	}
	return items
}

// missed are the objectives that cells missed.
func (s *summary) missed() []draw.Item { return s.objectives(result.SLOFail) }

// undecided are those that there are too few requests for.
func (s *summary) undecided() []draw.Item { return s.objectives(result.SLOUndecided) }

// unchecked are the objectives that could not be held against cells.
func (s *summary) unchecked() []draw.Item { return s.objectives("") }

// objectives are those of a verdict, of all cells.
func (s *summary) objectives(verdict string) []draw.Item {
	var items []draw.Item
	for _, p := range s.points {
		for _, o := range p.Objectives {
			if o.Verdict != verdict {
				continue
			}
			text := fmt.Sprintf("%s: %s (%s): %s", p.Cell.Label, o.Name, o.Expr, objective.Why(o))
			if o.Severity == compare.SeverityWarn {
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

func (s *summary) invalid() []draw.Item {
	var items []draw.Item
	for _, t := range s.Trials {
		if compare.Judge(t) != compare.Invalid {
			continue
		}
		if len(t.Outcome.Invalid) == 0 {
			items = append(items, draw.Item{Text: fmt.Sprintf("%s: %v", s.Label(t), t.Outcome.Row[col.InvalidReasons])})
		}
		for _, f := range t.Outcome.Invalid {
			items = append(items, draw.Item{Text: fmt.Sprintf("%s: %s: %s", s.Label(t), f.Code, f.Text)})
		}
	}
	return items
}

// invalidByReason are the reasons for INVALID with what to try, each with the texts of its
// trials.
func (s *summary) invalidByReason() []draw.Item {
	var items []draw.Item
	at := map[string]int{}
	add := func(code, advice, text string) {
		i, ok := at[code]
		if !ok {
			i = len(items)
			at[code], items = i, append(items, draw.Item{Text: advice})
		}
		items[i].Below = append(items[i].Below, text)
	}
	for _, t := range s.Trials {
		if compare.Judge(t) != compare.Invalid {
			continue
		}
		if len(t.Outcome.Invalid) == 0 {
			add(fmt.Sprint(t.Outcome.Row[col.InvalidReasons]), "", s.Label(t))
		}
		for _, f := range t.Outcome.Invalid {
			add(f.Code.String(), finding.Advice(f.Code), s.Label(t)+": "+f.Text)
		}
	}
	for code, i := range at {
		text := fmt.Sprintf("%s (%s)", code, humanize.Plural(len(items[i].Below), "trial"))
		if items[i].Text != "" {
			text += ": " + items[i].Text
		}
		items[i].Text = text
	}
	return items
}

// logLines is how many of a server's last lines stand with its failure; all
// that are kept are in result.json.
const logLines = 3

// digits are what differs between two failures of one kind: times, process ids.
var digits = regexp.MustCompile(`[0-9]+`)

// failed are the trials without numbers, those with the same reason together:
// a server that does not start fails all of its cells with one. Of reasons that
// differ in their numbers alone the first stands for all.
func (s *summary) failed(want func(compare.Trial) bool) []draw.Item {
	var items []draw.Item
	byText := map[string]int{}
	for _, t := range s.Trials {
		if t.Outcome == nil || !want(t) {
			continue
		}
		row := t.Outcome.Row
		text := fmt.Sprintf("%s: %s", humanize.Figure(row[col.ErrorClass]), humanize.Figure(row[col.Error]))
		kind := digits.ReplaceAllString(text, "0")
		i, ok := byText[kind]
		if !ok {
			i = len(items)
			byText[kind] = i
			log := t.Outcome.LogTail
			items = append(items, draw.Item{Text: text, Quoted: log[max(0, len(log)-logLines):]})
		}
		items[i].Below = append(items[i].Below, s.Label(t))
	}
	return items
}

func (s *summary) noStartTitle() string {
	if s.Resolved.RecordStarts {
		return "Servers that did not start (results of this plan, not faults)"
	}
	return "Servers that did not start"
}

// unfinished says what is missing, and why the run ended without it.
func (s *summary) unfinished() []draw.Item {
	n := 0
	for _, t := range s.Trials {
		if t.Outcome == nil {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %s without an outcome", n, humanize.Plural(len(s.Trials), "trial"))
	if why := s.Ended(); why != "" {
		text += "; the run ended early: " + why
	}
	return []draw.Item{{Text: text}}
}

// findings are one line for each code: a missing nvidia-smi is one fact, not
// one for every cell.
func (s *summary) findings() []draw.Item {
	type kind struct {
		text, label string
		trials      int
		several     bool // texts
	}
	var order []finding.Code
	kinds := map[finding.Code]*kind{}
	for _, t := range s.Trials {
		if t.Outcome == nil {
			continue
		}
		seen := map[finding.Code]bool{}
		for _, f := range t.Outcome.Findings {
			k := kinds[f.Code]
			if k == nil {
				k = &kind{text: f.Text, label: s.Label(t)}
				kinds[f.Code], order = k, append(order, f.Code)
			}
			k.several = k.several || k.text != f.Text
			if !seen[f.Code] {
				seen[f.Code] = true
				k.trials++
			}
		}
	}
	items := make([]draw.Item, len(order))
	for i, code := range order {
		k := kinds[code]
		text := code.String() + ": " + k.text
		switch {
		case k.several:
			text += fmt.Sprintf(" (%s; %s have it, each with its own numbers)", k.label, humanize.Plural(k.trials, "trial"))
		case k.trials > 1:
			text += fmt.Sprintf(" (%s)", humanize.Plural(k.trials, "trial"))
		}
		items[i] = draw.Item{Text: text}
	}
	return append(items, draw.Items(s.SlowDevices())...)
}

func (s *summary) files() []string {
	var lines []string
	for _, name := range layout.Derived() {
		path := filepath.Join(s.Dir, name)
		if _, err := os.Stat(path); err == nil || name == layout.Summary {
			lines = append(lines, path)
		}
	}
	logs, _ := fs.Glob(os.DirFS(s.Dir), layout.AnyMetricsLog) // the only error is a bad pattern
	for _, name := range logs {
		lines = append(lines, filepath.Join(s.Dir, name))
	}
	return lines
}

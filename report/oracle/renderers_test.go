package oracle

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/answer"
	"sweep.dev/sweep/report/bench"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/junit"
	"sweep.dev/sweep/report/summary"
	"sweep.dev/sweep/report/terminal"
	"sweep.dev/sweep/report/view"
	"sweep.dev/sweep/report/webpage"
	"sweep.dev/sweep/result"
)

// TestRenderers draws random runs in every form. What a form claims is in the view, the
// summary has all of the view, and so no two forms contradict each other.
func TestRenderers(t *testing.T) {
	t.Parallel()
	runs := 200
	if slow.Tests {
		runs = 1000
	}
	seen := map[string]int{}
	for n := range runs {
		r := rand.New(rand.NewPCG(seed+1, uint64(n)))
		e := random(r)
		switch r.IntN(5) {
		case 0:
			e.named()
		case 1:
			e.alone()
		}
		d := drawn{e: e, run: e.of(), seen: seen}
		d.View = view.Of(d.run)
		d.summary()
		d.terminal()
		d.answer()
		d.junit()
		d.bench()
		d.headlines()
		if n%5 == 0 || slow.Tests { // which takes longest
			d.page()
		}
		if len(d.wrong) > 0 {
			t.Fatalf("run %d of seed %d: %d differ; the first:\n%s\n%v", n, seed+1, len(d.wrong), strings.Join(d.wrong[:min(3, len(d.wrong))], "\n"), e)
		}
	}
	// A check that nothing comes to holds nothing.
	for _, what := range []string{"entry", "best", "best of several", "tally", "INVALID", "FAILED", "NO START", "SLO", "claim", "case failed", "case error", "case skipped", "sentence", "headline", "open headline", "bench decided", "bench open"} {
		if seen[what] < 5 {
			t.Errorf("%q was looked at %d times in %d runs", what, seen[what], runs)
		}
	}
}

// named gives the cells two loads with names.
func (e *experiment) named() {
	e.axes = append(e.axes, axis{result.LoadAxis, false})
	for i, c := range e.cells {
		c.values = append(c.values, []any{"chat", "batch"}[i%2])
		for _, row := range c.trials {
			if row != nil {
				row[result.LoadAxis] = c.values[len(c.values)-1]
			}
		}
	}
	slices.SortStableFunc(e.cells, func(a, b *cell) int {
		return strings.Compare(fmt.Sprint(a.value(result.LoadAxis)), fmt.Sprint(b.value(result.LoadAxis)))
	})
}

// alone leaves the cells of one series.
func (e *experiment) alone() {
	series := func(c *cell) string { return c.text(func(a axis) bool { return !isAmount(a.name) }) }
	first := series(e.cells[0])
	e.cells = slices.DeleteFunc(e.cells, func(c *cell) bool { return series(c) != first })
}

// drawn is a run with its view, and how its forms differ from that.
type drawn struct {
	*view.View
	e     *experiment
	run   *report.Run
	seen  map[string]int
	wrong []string
}

func (d *drawn) add(form, format string, args ...any) {
	d.wrong = append(d.wrong, form+": "+fmt.Sprintf(format, args...))
}

// text returns what a form writes.
func (d *drawn) text(form string, write func(io.Writer) error) string {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		d.add(form, "%v", err)
	}
	return b.String()
}

// entries returns the lists of the view, by the sections of the summary that have them.
func (d *drawn) entries() map[string][]draw.Item {
	sections := map[string][]draw.Item{
		sweetSection: d.Spots(), engineSection: d.Ranked(), gpuSection: d.Choices(), costSection: d.Costs(),
		"Objectives that were not met": d.Missed(), "Objectives that are undecided": d.Undecided(), "Objectives that could not be checked": d.Unchecked(),
		"INVALID: these numbers must not be used": d.Invalid(), "Failed": d.Failed(), d.NoStartTitle(): d.NoStart(),
		"What to try": d.Advice(), "Prices": d.Prices(), "Unstable": d.Unstable(), "Jitter zone (decides nothing)": d.Jitter(),
		"Trials unlike the others of their cell (they count all the same)": d.Outliers(), "Findings": d.Findings(),
	}
	if text := d.Unfinished(); text != "" {
		sections["Not finished"] = draw.Items([]string{text})
	}
	return sections
}

// summary has the entries of the view, all of them, and no others.
func (d *drawn) summary() {
	text := d.text("summary", func(w io.Writer) error { return summary.Write(w, d.run, draw.Style{Markdown: true}) })
	doc := readMarkdown(text)
	want := d.entries()
	for section, items := range want {
		var lines []string
		for _, it := range items {
			lines = append(append(lines, it.Text), it.Below...)
		}
		d.seen["entry"] += len(lines)
		if got := flat(doc.sections[section]); !slices.Equal(got, lines) {
			d.add("summary", "%s has %q, want %q", section, got, lines)
		}
	}
	for section := range doc.sections {
		if _, ok := want[section]; !ok && section != "How cells are judged" && section != "Files" && section != "Next" {
			d.add("summary", "the view has no %q", section)
		}
	}
	for _, text := range slices.Concat(d.Trust(), d.ToDecide(), []string{d.Simulated(), d.Requests()}) {
		if !strings.Contains(doc.paragraphs, text) {
			d.add("summary", "not found: %q", text)
		}
	}
}

// bests returns what may be said of the series of a grid: the sides of each text.
func (d *drawn) bests(g view.Grid) map[string][]string {
	sides := map[string][]string{}
	main := view.ShownOf(g.Points).Main
	about := map[string]bool{}
	for _, p := range g.Points {
		about[view.About(p.Cell)] = true
	}
	last := ""
	for _, c := range d.Set.Claims {
		if !about[c.About] {
			continue
		}
		describe := func() string {
			p := c.Places[0].Point
			return " at " + conclude.LoadText(p.Cell) + ": " + view.Figures(p, c.Measure, main[:min(1, len(main))])
		}
		text := ""
		switch {
		case c.Question == conclude.AskBest: // of the series before
			names := sides[last]
			side := names[len(names)-1]
			sides[last] = names[:len(names)-1]
			sides[last+"; most "+c.Measure.Name+describe()] = append(sides[last+"; most "+c.Measure.Name+describe()], side)
			continue
		case c.Question != conclude.AskSweetSpot:
			continue
		case c.Answer == conclude.Decided:
			text = describe() + c.Best("; ")
		default:
			text = ": " + view.Open(c)
		}
		last = text
		sides[text] = append(sides[text], g.SideOf(c))
	}
	for text, names := range sides {
		if len(names) == 0 {
			delete(sides, text)
		}
	}
	return sides
}

var (
	reasonRead = regexp.MustCompile(`^(\S+) ([0-9]+)x`)
	sloRead    = regexp.MustCompile(`(missed|undecided|not checked) in ([0-9]+) of ([0-9]+) cell`)
)

// terminal says of series, reasons and objectives what the view says.
func (d *drawn) terminal() {
	text := d.text("terminal", func(w io.Writer) error { return terminal.Write(w, d.run, draw.Style{}) })
	title, _, _ := strings.Cut(text, "\n")
	n := d.Tally()
	counts := []string{fmt.Sprintf("%d of %d trial", n.Done, n.All)}
	if valid := n.Each[conclude.Acceptable]; valid > 0 {
		counts = append(counts, fmt.Sprintf("%d valid", valid))
	}
	for _, v := range []conclude.Verdict{conclude.Invalid, conclude.NoStart, conclude.FailedRun, conclude.Skipped} {
		if n.Each[v] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n.Each[v], v))
		}
	}
	for _, c := range counts {
		if !strings.Contains(title, c) {
			d.add("terminal", "the title %q has no %q", title, c)
		}
	}
	labelled := readLabelled(text)
	for label, verdict := range map[string]conclude.Verdict{"INVALID": conclude.Invalid, "FAILED": conclude.FailedRun, "NO START": conclude.NoStart} {
		var want, got []string
		for _, r := range d.Reasons(verdict) {
			want = append(want, fmt.Sprintf("%s %dx", r.Code, len(r.Trials)))
		}
		for _, line := range labelled[label] {
			got = append(got, reasonRead.FindString(line))
		}
		d.seen[label] += len(got)
		if len(want) <= 5 && !slices.Equal(got, want) {
			d.add("terminal", "%s has %q, want %q", label, got, want)
		}
	}
	for _, line := range labelled["SLO"] {
		name, _, _ := strings.Cut(line, " ")
		at := slices.IndexFunc(d.Objectives(), func(o *view.Objective) bool { return o.Name == name })
		for _, m := range sloRead.FindAllStringSubmatch(line, -1) {
			d.seen["SLO"]++
			verdict := map[string]string{"missed": result.SLOFail, "undecided": result.SLOUndecided, "not checked": ""}[m[1]]
			o := d.Objectives()[at]
			if fmt.Sprint(len(o.By[verdict]), o.Cells) != m[2]+" "+m[3] {
				d.add("terminal", "%q of %d cells", line, len(o.By[verdict]))
			}
		}
	}
	d.best(labelled["Best"])
}

// best holds the answers of the terminal: each is a text of the view with the sides that it
// is of.
func (d *drawn) best(lines []string) {
	want, texts := map[string]bool{}, 0
	for _, g := range d.Grids() {
		sides := d.bests(g)
		texts += len(sides)
		for text, names := range sides {
			want[strings.TrimLeft(strings.Join(names, ", ")+text, ": ")] = true
			if len(names) > 1 {
				d.seen["best of several"]++
			}
		}
	}
	said := 0
	for _, line := range lines {
		switch {
		case want[line]:
			said++
		case strings.HasPrefix(line, "no more load was tried"), strings.Contains(line, " more answers: "):
			texts = -1
		case regexp.MustCompile(`^[0-9]+ (sweet spot|not decided|series without)`).MatchString(line):
			d.seen["tally"]++
			texts = -1 // of a large grid
		default:
			d.add("terminal", "%q is not in the view: %v", line, want)
		}
	}
	d.seen["best"] += said
	if edge := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "no more load") }); len(d.Grids()) == 1 && edge != (view.Edge(d.Set.Claims) != "") {
		d.add("terminal", "%q, and the view has the edge %q", lines, view.Edge(d.Set.Claims))
	}
	if texts > said {
		d.add("terminal", "%d answers of %d: %q, want %v", said, texts, lines, want)
	}
}

// readLabelled returns the texts behind labels, of a terminal of unknown width: none is broken.
func readLabelled(text string) map[string][]string {
	all := map[string][]string{}
	label := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case len(line) <= 10:
			label = ""
		case strings.TrimSpace(line[:10]) != "":
			if label = strings.TrimSpace(line[:10]); line[9] == ' ' {
				all[label] = append(all[label], line[10:])
			}
		case label != "":
			all[label] = append(all[label], line[10:])
		}
	}
	return all
}

// answer has the claims of the view, in its words and order.
func (d *drawn) answer() {
	a := answer.Of(d.run)
	claims := d.Claims()
	d.seen["claim"] += len(claims)
	if len(a.Claims) != len(claims) {
		d.add("answer.json", "%d claims, want %d", len(a.Claims), len(claims))
		return
	}
	for i, c := range claims {
		if got := a.Claims[i]; got.Question != string(c.Question) || got.About != c.About || got.Answer != string(c.Answer) || got.Text != c.Text {
			d.add("answer.json", "claim %+v, want %+v", got, c)
		}
	}
	cells := map[string]int{}
	for _, p := range d.Set.Points {
		cells[string(p.Verdict)]++
	}
	if fmt.Sprint(a.Cells) != fmt.Sprint(cells) {
		d.add("answer.json", "cells %v, want %v", a.Cells, cells)
	}
	if n := d.Tally(); (a.Simulated == "all") != (n.Simulated > 0 && n.Simulated == n.Done) || (a.Simulated == "none") != (n.Simulated == 0) {
		d.add("answer.json", "simulated %q of %+v", a.Simulated, n)
	}
}

// junit has as many failures, errors and skipped cases as the view has missed objectives,
// cells without numbers and what is open.
func (d *drawn) junit() {
	var all struct {
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	text := d.text("junit", func(w io.Writer) error { return junit.Write(w, []*report.Run{d.run}) })
	if err := xml.Unmarshal([]byte(text), &all); err != nil {
		d.add("junit", "%v", err)
	}
	failures, faults, skipped := 0, 0, 0
	for _, p := range d.Set.Points {
		switch p.Verdict {
		case conclude.Invalid, conclude.NoStart, conclude.FailedRun:
			faults++
		case conclude.Pending, conclude.Skipped:
			skipped++
		}
	}
	for _, o := range d.Objectives() {
		if o.Warn {
			continue
		}
		failures += len(o.By[result.SLOFail])
		skipped += len(o.By[result.SLOUndecided])
		faults += len(o.By[""])
	}
	d.seen["case failed"] += failures
	d.seen["case error"] += faults
	d.seen["case skipped"] += skipped
	if all.Failures != failures || all.Errors != faults || all.Skipped != skipped {
		d.add("junit", "%+v, want %d failures, %d errors, %d skipped", all, failures, faults, skipped)
	}
}

// page has the sentences of the view about what is compared, and what is wrong.
func (d *drawn) page() {
	text := d.text("page", func(w io.Writer) error { return webpage.Write(w, []*report.Run{d.run}) })
	text = html.UnescapeString(text)
	want := []string{d.Count(), d.Simulated(), d.Unfinished(), d.Requests()}
	for _, c := range d.Claims() {
		switch c.Question {
		case conclude.AskEngine, conclude.AskGPU, conclude.AskGPUBest, conclude.AskCost:
			want = append(want, c.Text)
		}
	}
	for section, items := range d.entries() {
		if isClaims(section) {
			continue // the page has their claims one by one
		}
		for _, it := range items {
			want = append(append(want, it.Text), it.Below...)
		}
	}
	d.seen["sentence"] += len(want)
	for _, w := range want {
		if !strings.Contains(text, w) {
			d.add("page", "not found: %q", w)
		}
	}
}

// bench says of a run of one series what the view says of it.
func (d *drawn) bench() {
	g := d.Grids()[0]
	if len(d.Grids()) > 1 || len(g.Points) < 2 || g.Down == nil || !g.Down.Amount || len(g.Across) > 0 {
		return
	}
	text := d.text("bench", func(w io.Writer) error { return bench.Write(w, d.run, draw.Style{}, 30*time.Second) })
	for _, c := range d.Set.Answers(conclude.AskSweetSpot) {
		want := ""
		if c.Answer == conclude.Decided {
			want = "sweet spot: " + strconv.FormatFloat(conclude.Load(c.Places[0].Point.Cell), 'g', -1, 64) + " "
			d.seen["bench decided"]++
		} else {
			want = "sweet spot: " + view.Open(c)
			d.seen["bench open"]++
		}
		if !strings.Contains(text, "\n"+want) {
			d.add("bench", "not found: %q in\n%s", want, text)
		}
	}
}

// headlines name no server as the best for some work while another one is not decided: then
// one sentence has all of them.
func (d *drawn) headlines() {
	open, spots := d.Headlines()
	statements := d.e.statements()
	for _, cells := range d.e.group(func(a axis) bool { return !a.server && !isAmount(a.name) }) {
		var labels, sides []string
		undecided := 0
		servers, names := split(cells, func(c *cell) string { return c.text(func(a axis) bool { return a.server }) })
		for _, name := range names {
			about := servers[name][0].text(func(a axis) bool { return !isAmount(a.name) })
			for _, s := range statements {
				if s.question != qSweet || s.about != about || s.answer == aNone {
					continue
				}
				sides = append(sides, name)
				if s.answer == aOpen {
					undecided++
				}
				for _, c := range servers[name] {
					labels = append(labels, ": "+c.label()+": ")
				}
			}
		}
		d.seen["headline"] += len(spots)
		if undecided == 0 || len(sides) < 2 {
			continue
		}
		d.seen["open headline"]++
		for _, s := range spots {
			if slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(s, l) }) {
				d.add("headlines", "%q, and %d of %q are open", s, undecided, sides)
			}
		}
		if !slices.ContainsFunc(open, func(s string) bool {
			return !slices.ContainsFunc(sides, func(side string) bool { return !strings.Contains(s, side+" (") })
		}) {
			d.add("headlines", "%q do not name all of %q", open, sides)
		}
	}
}

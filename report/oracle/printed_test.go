package oracle

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/report"
)

// What is printed, read back. A summary is read as a person would: by its
// sections, its tables and its words.

// rounded is how far a printed value may be from the one that it stands for: it
// has three digits, or cents.
var rounded = tolerance{value: 0.006, ratio: 0.006, usd: 0.0051}

// printed says how what is printed, in Markdown and for terminals, differs from
// what has to be said.
func printed(e *experiment, run *report.Run, want map[string]statement) []string {
	text := func(style report.Style) string {
		var b bytes.Buffer
		if err := run.Summary(&b, style); err != nil {
			return err.Error()
		}
		return b.String()
	}
	var wrong []string
	hold := func(where string, some []string) {
		for _, s := range some {
			wrong = append(wrong, where+": "+s)
		}
	}
	markdown, wide, narrow := text(report.Style{Markdown: true}), text(report.Style{}), text(report.Style{Width: 80})
	said := map[string]statement{}
	for key, s := range want {
		if s.question == qVerdict || s.question == qMore || s.question == qEngine && s.figure != "" && !isSaid(s.figure) {
			continue // marks in grids, a number in the advice, and the table
		}
		if s.question == qSweet && s.answer != aDecided {
			s.figure = "" // which is not said
			key = s.key()
		}
		if s.question == qEngine && s.figure == "" {
			s.places = nil // who is ranked is said by the rankings
		}
		if s.question == qGPU && s.figure == "" && s.answer == aOpen {
			s.places = nil // there is nothing to rank
		}
		said[key] = s
	}
	d := readMarkdown(markdown)
	hold("Markdown", compare(d.cut(said), d.statements(), rounded))
	hold("Markdown", e.counts(d, want))
	hold("Markdown", e.marks(d.tables, want))
	hold("Markdown", engineTable(d.tables, want))
	hold("Markdown", gpuTables(d.tables, want))
	p := readPlain(wide)
	hold("terminal", compare(p.cut(said), p.statements(), rounded))
	hold("terminal", e.counts(p, want))
	for name, items := range p.sections {
		// A narrow terminal has the same words on other lines.
		if isClaims(name) && !strings.Contains(squeeze(narrow), squeeze(strings.Join(flat(items), " "))) {
			hold("80 columns", []string{"not found: " + name})
		}
	}
	return wrong
}

func isSaid(id string) bool {
	return id == "start_up_s" || slices.ContainsFunc(said, func(f figure) bool { return f.id() == id })
}

// A document is a summary without its layout.
type document struct {
	title      string
	paragraphs string
	sections   map[string][]entry
	tables     []tableRead
}

type entry struct {
	text  string
	below []string
}

type tableRead struct {
	name string
	rows [][]string // the first are the heads
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func flat(items []entry) []string {
	var all []string
	for _, it := range items {
		all = append(append(all, it.text), it.below...)
	}
	return all
}

var escaped = strings.NewReplacer(`\`, "", "&lt;", "<", "&amp;", "&")

func readMarkdown(text string) document {
	d := document{sections: map[string][]entry{}}
	name := ""
	for line := range strings.Lines(text) {
		line = escaped.Replace(strings.TrimRight(line, "\n"))
		switch {
		case strings.HasPrefix(line, "# "):
			d.title = line[2:]
		case strings.HasPrefix(line, "## "):
			name = line[3:]
		case strings.HasPrefix(line, "| --- "), line == "":
		case strings.HasPrefix(line, "| "):
			if n := len(d.tables); n == 0 || d.tables[n-1].name != name {
				d.tables = append(d.tables, tableRead{name: name})
			}
			row := strings.Split(strings.TrimSuffix(line[2:], " |"), " | ")
			t := &d.tables[len(d.tables)-1]
			t.rows = append(t.rows, row)
		case strings.HasPrefix(line, "- "):
			d.sections[name] = append(d.sections[name], entry{text: line[2:]})
		case strings.HasPrefix(line, "  - "):
			items := d.sections[name]
			items[len(items)-1].below = append(items[len(items)-1].below, line[4:])
		default:
			d.paragraphs += line + "\n"
		}
	}
	return d
}

// readPlain reads the text for a terminal whose width nobody knows: no line of a
// section is broken.
func readPlain(text string) document {
	d := document{sections: map[string][]entry{}}
	lines := strings.Split(text, "\n")
	d.title = lines[0]
	name := ""
	for _, line := range lines[1:] {
		items := d.sections[name]
		switch {
		case line == "":
			name = ""
		case !strings.HasPrefix(line, " ") && strings.HasSuffix(line, ":"):
			name = strings.TrimSuffix(line, ":")
		case name == "":
			d.paragraphs += line + "\n"
		case strings.HasPrefix(line, "    ") && len(items) > 0:
			items[len(items)-1].below = append(items[len(items)-1].below, line[4:])
		case strings.HasPrefix(line, "  "):
			d.sections[name] = append(items, entry{text: line[2:]})
		}
	}
	return d
}

// The sections that say who is better.
const (
	sweetSection  = "Sweet spots"
	engineSection = "Engines ranked"
	gpuSection    = "Which GPU for which load"
	costSection   = "Cost of output tokens"
)

func isClaims(name string) bool {
	return slices.Contains([]string{sweetSection, engineSection, gpuSection, costSection}, name)
}

const defaultLoad = "the plan's load"

func (d document) statements() map[string]statement {
	all := map[string]statement{}
	add := func(s statement) {
		if s.about == defaultLoad || s.about == "at "+defaultLoad {
			s.about = ""
		}
		all[s.key()] = s
	}
	for _, it := range d.sections[sweetSection] {
		readSweet(it, add)
	}
	readEngines(d.sections[engineSection], add)
	for _, it := range d.sections[gpuSection] {
		for _, line := range it.below {
			s := readComparison(line)
			s.about = it.text
			add(s)
		}
	}
	for _, it := range d.sections[costSection] {
		s := readComparison(it.text)
		s.question = qCost
		add(s)
	}
	return all
}

// cut leaves out the contests of engines that a long section only counts.
func (d document) cut(want map[string]statement) map[string]statement {
	items := d.sections[engineSection]
	if len(items) == 0 || !strings.HasPrefix(items[len(items)-1].text, "and at ") {
		return want
	}
	got, rest, contests := d.statements(), map[string]statement{}, map[string]bool{}
	for key, s := range want {
		about := statement{question: qEngine, about: s.about}
		if _, ok := got[about.key()]; s.question == qEngine && !ok {
			contests[s.about] = true
			continue
		}
		rest[key] = s
	}
	if !strings.HasPrefix(items[len(items)-1].text, fmt.Sprintf("and at %d load", len(contests))) {
		return want
	}
	return rest
}

// unit is what a rate is called behind its number.
var unit = regexp.MustCompile(`^([0-9.]+) (tok/s|requests/s)`)

func readRate(label, text string) statement {
	m := unit.FindStringSubmatch(text)
	s := statement{answer: aDecided, about: withoutLoad(label)}
	if m == nil {
		s.answer = "unreadable: " + text
		return s
	}
	s.figure = map[string]string{"tok/s": tokens.id(), "requests/s": requests.id()}[m[2]]
	v, _ := strconv.ParseFloat(m[1], 64)
	s.places = []place{{label: label, value: v}}
	return s
}

var amount = regexp.MustCompile(` ?(concurrency|request_rate)=[0-9.]+`)

func withoutLoad(label string) string { return strings.TrimSpace(amount.ReplaceAllString(label, "")) }

func readSweet(it entry, add func(statement)) {
	about, text, _ := strings.Cut(it.text, ": ")
	switch {
	case strings.HasPrefix(text, "none, "):
		add(statement{question: qSweet, about: about, answer: aNone})
	case strings.HasPrefix(text, "not decided: "):
		add(statement{question: qSweet, about: about, answer: aOpen, open: holeLoads(text)})
	default:
		s := readRate(about, text)
		s.question = qSweet
		add(s)
	}
	for _, line := range it.below {
		rest, ok := strings.CutPrefix(line, "best: ")
		label, text, _ := strings.Cut(rest, ": ")
		s := readRate(label, text)
		if s.question = qMost; !ok {
			s.answer = "unreadable: " + line
		}
		add(s)
	}
}

// holesRead are loads before what keeps them from being decided.
var holesRead = regexp.MustCompile(`(?:concurrency|request_rate) ([0-9., ]+?) (?:INVALID|failed|did not start|pending|undecided|not measured)`)

func holeLoads(text string) []string {
	var loads []string
	for _, m := range holesRead.FindAllStringSubmatch(text, -1) {
		loads = append(loads, strings.Split(m[1], ", ")...)
	}
	return loads
}

// readable is a ratio, infinite where it is beyond what is printed.
func readable(ratio float64) float64 {
	if ratio >= 1000 {
		return math.Inf(1)
	}
	return ratio
}

// sideRead is a side with its value, and behind that its load and ratio.
var sideRead = regexp.MustCompile(`^(.+?) \$?([0-9.e+-]+)(?: at (?:concurrency|request_rate)=([0-9.]+))?(?: \((.*)\))?$`)

// ratioRead is a ratio, or that it is beyond what anybody reads.
var ratioRead = regexp.MustCompile(`([0-9.]+|>999)x`)

func readRatio(text string) float64 {
	if text == ">999" {
		return math.Inf(1)
	}
	v, _ := strconv.ParseFloat(text, 64)
	return v
}

// sidesRead are sides, each with a reason in brackets behind it.
func sidesRead(text string) []string {
	var sides []string
	for _, part := range commas(text) {
		side, _, _ := strings.Cut(part, " (")
		sides = append(sides, side)
	}
	return sides
}

var moreRead = regexp.MustCompile(`^and ([0-9]+) more$`)

func readPlaces(text string) []place {
	var all []place
	for _, part := range commas(text) {
		if m := moreRead.FindStringSubmatch(part); m != nil {
			n, _ := strconv.Atoi(m[1])
			all = append(all, place{more: n})
			continue
		}
		m := sideRead.FindStringSubmatch(part)
		if m == nil {
			all = append(all, place{side: "unreadable: " + part})
			continue
		}
		p := place{side: m[1], ratio: 1}
		p.value, _ = strconv.ParseFloat(m[2], 64)
		p.load, _ = strconv.ParseFloat(m[3], 64)
		if r := ratioRead.FindStringSubmatch(m[4]); r != nil {
			p.ratio = readRatio(r[1])
		}
		all = append(all, p)
	}
	return all
}

// commas cuts a list at the commas that are in no brackets.
func commas(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts, from = append(parts, strings.TrimSpace(text[from:i])), i+1
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

func readEngines(items []entry, add func(statement)) {
	names := map[string]string{}
	for _, f := range table {
		names[f.name] = f.id()
	}
	ranking := func(about, line string) {
		name, text, _ := strings.Cut(line, ": ")
		add(statement{question: qEngine, about: about, figure: names[name], answer: aDecided, places: readPlaces(text)})
	}
	for _, it := range items {
		if strings.HasPrefix(it.text, "and at ") {
			continue // see cut
		}
		if strings.HasPrefix(it.text, "start-up, s: ") {
			// Of the load that is shown, which the section's first has to be.
			ranking(items[1].text, it.text)
			continue
		}
		who := statement{question: qEngine, about: it.text, answer: aDecided}
		for _, line := range it.below {
			kind, rest, _ := strings.Cut(line, ": ")
			side, _, _ := strings.Cut(rest, ",")
			switch kind {
			case "not comparable":
				who.answer = aIncomparble
			case "not ranked":
				who.left = append(who.left, side)
			case "not decided":
				who.open = append(who.open, side)
			default:
				ranking(it.text, line)
			}
		}
		if len(who.open) > 0 {
			who.answer = aOpen
		}
		add(who)
	}
}

// head is what a comparison begins with: at which loads, and by what.
var head = regexp.MustCompile(`^(?:(.*?)(?:, )?)?(each at its best of )?(?:(concurrency|request_rate)[ =]([0-9., ]*[0-9]))?(?:, )?(p95 TTFT, ms|tok/s a user per \$/h|Mtok/\$|\$ per 1M output tokens)?: `)

func readComparison(line string) statement {
	names := map[string]string{waits.name: waits.id(), feels.name: feels.id(), carries.name: carries.id(), costs.name: costs.id()}
	m := head.FindStringSubmatch(line)
	if strings.HasPrefix(line, "not decided: ") || strings.HasPrefix(line, "not comparable") {
		m = make([]string, 6) // of no load, and by nothing
	}
	if m == nil {
		return statement{answer: "unreadable: " + line}
	}
	s := statement{question: qGPU, about: strings.TrimSuffix(m[1], ", "), figure: names[m[5]], answer: aDecided}
	if s.figure == carries.id() {
		s.question = qGPUBest
	}
	for v := range strings.SplitSeq(m[4], ", ") {
		load, _ := strconv.ParseFloat(v, 64) // 0 where the plan does not vary it
		s.loads = append(s.loads, load)
	}
	for part := range strings.SplitSeq(line[len(m[0]):], "; ") {
		what, rest, _ := strings.Cut(part, ": ")
		switch what {
		case "not decided":
			s.answer = aOpen
			s.open = sidesRead(rest)
		case "of the others":
			s.places = readPlaces(rest)
		case "not ranked":
			s.left = sidesRead(rest)
		case "not comparable":
			s.answer = aIncomparble
			switch only, ok := strings.CutPrefix(rest, "there is "); {
			case ok:
				s.places = readPlaces(strings.TrimSuffix(only, " alone"))
			case strings.HasPrefix(rest, "only "):
				s.places = []place{{side: strings.TrimSuffix(rest[5:], " was found to meet every objective")}}
			case rest == "no load was given to all of them":
				s.loads = nil
			}
		default:
			if part == "not comparable" {
				s.answer = aIncomparble
				continue
			}
			s.places = readPlaces(part)
		}
	}
	return s
}

// counts hold the title, the sections about cells and trials, and the number in
// the advice.
func (e *experiment) counts(d document, want map[string]statement) []string {
	verdicts, more := map[string]int{}, 0
	for _, s := range want {
		switch s.question {
		case qVerdict:
			verdicts[s.answer]++
		case qMore:
			more++
		}
	}
	var wrong []string
	_, list, _ := strings.Cut(strings.TrimPrefix(d.title, "grid: "), ": ")
	got := map[string]int{}
	for part := range strings.SplitSeq(list, ", ") {
		n, v, _ := strings.Cut(part, " ")
		got[v], _ = strconv.Atoi(n)
	}
	if fmt.Sprint(got) != fmt.Sprint(verdicts) {
		wrong = append(wrong, fmt.Sprintf("the title has %v, want %v", got, verdicts))
	}
	said := 0
	for _, it := range d.sections["What to try"] {
		if rest, ok := strings.CutPrefix(it.text, "no more load was tried than that of "); ok {
			_, _ = fmt.Sscan(rest, &said)
		}
	}
	if said != more {
		wrong = append(wrong, fmt.Sprintf("%d sweet spots at the most load, want %d", said, more))
	}
	hold := func(section string, of func(c *cell, trial int) []string) {
		var want []string
		for _, c := range e.cells {
			for i := range c.trials {
				want = append(want, of(c, i)...)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		var got []string
		for _, it := range d.sections[section] {
			got = append(got, it.text)
		}
		for _, w := range want {
			if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, w) }) {
				wrong = append(wrong, fmt.Sprintf("%s does not have %q", section, w))
			}
		}
		if len(got) != len(want) {
			wrong = append(wrong, fmt.Sprintf("%s has %d entries, want %d", section, len(got), len(want)))
		}
	}
	trial := func(c *cell, i int) string {
		if e.repeats > 1 {
			return fmt.Sprintf("%s, trial %d: ", c.label(), i+1)
		}
		return c.label() + ": "
	}
	hold("Unstable", func(c *cell, _ int) []string {
		if c.verdict() == unstable {
			return []string{c.label() + ": "}
		}
		return nil
	})
	hold("INVALID: these numbers must not be used", func(c *cell, i int) []string {
		if e.kind(c.trials[i]) == invalid {
			return []string{trial(c, i)}
		}
		return nil
	})
	objectives := func(is func(met any) bool) func(*cell, int) []string {
		return func(c *cell, i int) []string {
			var names []string
			for _, name := range e.order {
				if row := c.trials[i]; row != nil && row["status"] == "ok" && is(row["slo_"+name]) {
					names = append(names, trial(c, i)+name)
				}
			}
			return names
		}
	}
	hold("Objectives that were not met", objectives(func(met any) bool { return met == false }))
	hold("Objectives that could not be checked", objectives(func(met any) bool { return met == nil }))
	rows, simulated := 0, 0
	for _, c := range e.cells {
		for _, row := range c.trials {
			if row != nil {
				rows++
				if row["simulated"] == true {
					simulated++
				}
			}
		}
	}
	switch {
	case (simulated > 0 && simulated == rows) != strings.Contains(d.paragraphs, "All numbers are simulated"),
		(simulated > 0 && simulated < rows) != strings.Contains(d.paragraphs, fmt.Sprintf("The numbers of %d of %d trial", simulated, rows)):
		wrong = append(wrong, fmt.Sprintf("%d of %d rows are simulated:\n%s", simulated, rows, d.paragraphs))
	}
	again, wait := false, false
	for _, s := range want {
		for _, c := range s.holes {
			again = again || c.has(invalid, failed) || c.has(noStart) && !e.record
			wait = wait || c.has(pending)
		}
	}
	command := ""
	switch {
	case again:
		command = "To decide what is not: sweep resume --retry invalid,failed DIR\n"
	case wait:
		command = "To decide what is not: sweep resume DIR\n"
	}
	if command == "" && strings.Contains(d.paragraphs, "To decide") || !strings.Contains(d.paragraphs, command) {
		wrong = append(wrong, fmt.Sprintf("the command is not %q", command))
	}
	return wrong
}

// marks hold the mark of each cell in the grids.
func (e *experiment) marks(tables []tableRead, want map[string]statement) []string {
	of := map[string]string{sweetSpot: "*", acceptable: "+", unstable: "~", undecided: "?", missed: "-", invalid: "!", noStart: "o", failed: "x", skipped: "/", pending: "."}
	wantMarks, got := map[string]int{}, map[string]int{}
	for _, s := range want {
		if s.question == qVerdict {
			wantMarks[of[s.answer]]++
		}
	}
	for _, t := range tables {
		if strings.HasPrefix(t.name, "GPUs for ") || strings.HasPrefix(t.name, "Engines side by side") || strings.HasPrefix(t.name, "Which servers") {
			continue
		}
		for _, row := range t.rows[1:] {
			for i, text := range row[1:] {
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				got[text[:1]]++
				if c := e.at(t, t.rows[0][i+1], row[0]); c != nil {
					if mark := of[want[qVerdict+" | "+c.label()+" | "].answer]; mark != text[:1] {
						return []string{fmt.Sprintf("%s has the mark %s, want %s", c.label(), text[:1], mark)}
					}
				} else {
					return []string{fmt.Sprintf("no cell is at %q, %q of %q", row[0], t.rows[0][i+1], t.name)}
				}
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(wantMarks) {
		return []string{fmt.Sprintf("the grids have the marks %v, want %v", got, wantMarks)}
	}
	return nil
}

// at is the cell in one place of a grid: all of its axes are named there.
func (e *experiment) at(t tableRead, across, down string) *cell {
	named := map[string]string{t.rows[0][0]: down}
	for _, part := range append(strings.Split(t.name, ", "), across) {
		name, value, _ := strings.Cut(part, " ")
		named[name] = value
	}
	for _, c := range e.cells {
		all := true
		for i, a := range e.axes {
			all = all && named[a.name] == fmt.Sprint(c.values[i])
		}
		if all {
			return c
		}
	}
	return nil
}

var timesRead = regexp.MustCompile(`  ([0-9.]+|>999)x$`)

// engineTable holds the ratios of the table of engines.
func engineTable(tables []tableRead, want map[string]statement) []string {
	for _, t := range tables {
		about, ok := strings.CutPrefix(t.name, "Engines side by side")
		if !ok {
			continue
		}
		about = strings.TrimPrefix(about, ": ")
		for _, row := range t.rows[1:] {
			i := slices.IndexFunc(table, func(f figure) bool { return f.name == row[0] })
			for j, text := range row[1:] {
				m := timesRead.FindStringSubmatch(text)
				if m == nil {
					continue
				}
				if i < 0 {
					return []string{fmt.Sprintf("%s is ranked", row[0])}
				}
				s := want[statement{question: qEngine, about: about, figure: table[i].id()}.key()]
				k := slices.IndexFunc(s.places, func(p place) bool { return p.side == t.rows[0][j+1] })
				if k < 0 || !near(readRatio(m[1]), readable(s.places[k].ratio), rounded.ratio) {
					return []string{fmt.Sprintf("%s, %s: %s of %+v", row[0], t.rows[0][j+1], text, s)}
				}
			}
		}
	}
	return nil
}

// gpuTables hold the tables of GPUs to the comparisons that they are of.
func gpuTables(tables []tableRead, want map[string]statement) []string {
	seen := 0
	for _, t := range tables {
		rest, ok := strings.CutPrefix(t.name, "GPUs for ")
		if !ok {
			continue
		}
		seen++
		about, _, _ := strings.Cut(rest, ", ")
		if about == defaultLoad {
			about = ""
		}
		s := want[statement{question: qGPUBest, about: about, figure: carries.id()}.key()]
		for i, row := range t.rows[1:] {
			if i >= len(s.places) {
				if open := strings.Contains(row[3], "not decided"); open != slices.Contains(s.open, row[0]) {
					return []string{fmt.Sprintf("%q of %+v", row, s)}
				}
				continue
			}
			value, _ := strconv.ParseFloat(row[6], 64)
			load, _ := strconv.ParseFloat(row[2], 64) // "-" where the plan does not vary it
			k := slices.IndexFunc(s.places, func(p place) bool { return p.side == row[0] })
			if k < 0 || load != s.places[k].load || !near(value, s.places[k].value, rounded.value) {
				return []string{fmt.Sprintf("%q of %+v", row, s)}
			}
		}
	}
	for _, s := range want {
		if s.question == qGPUBest && len(s.places) > 0 {
			seen--
		}
	}
	if seen != 0 {
		return []string{"another number of tables of GPUs than of comparisons"}
	}
	return nil
}

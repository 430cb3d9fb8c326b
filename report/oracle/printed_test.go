package oracle

// This file reads the printed summary back as a person would: by its sections, its
// tables and its words.

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/summary"
)

// rounded is how far a printed value may be from the one that it stands for: it
// has three digits, or cents.
var rounded = tolerance{value: 0.006, ratio: 0.006, usd: 0.0051}

// printed says how what is printed, in Markdown and for terminals, differs from
// what has to be said.
func printed(e *experiment, run *report.Run, want map[string]statement) []string {
	text := func(style draw.Style) string {
		var b bytes.Buffer
		if err := summary.Write(&b, run, style); err != nil {
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
	markdown, wide, narrow := text(draw.Style{Markdown: true}), text(draw.Style{}), text(draw.Style{Width: 80})
	expected := map[string]statement{}
	for key, s := range want {
		if s.question == qVerdict || s.question == qMore || s.question == qEngine && s.figure != "" && !isSaid(s.figure) {
			continue // marks in grids, a number in the advice, and the table
		}
		if s.question == qSweet && s.answer != aDecided {
			s.figure = "" // which is not said
			if s.answer != aTied {
				s.loads = nil
			}
			key = s.key()
		}
		if s.question == qEngine && s.figure == "" {
			s.places = nil // who is ranked is said by the rankings
		}
		if s.question == qGPU && s.figure == "" && s.answer == aOpen {
			s.places = nil // there is nothing to rank
		}
		expected[key] = s
	}
	d := readMarkdown(markdown)
	hold("Markdown", d.differences(expected))
	hold("Markdown", e.counts(d, want))
	hold("Markdown", e.marks(d.tables, want))
	hold("Markdown", engineTable(d.tables, want))
	hold("Markdown", gpuTables(d.tables, want))
	p := readPlain(wide)
	hold("terminal", p.differences(expected))
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
	return id == "start_up_s" || has(said, id)
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
		if rest, ok := strings.CutPrefix(it.text, "no more load was tried than at "); ok {
			_, _ = fmt.Sscan(rest, &said)
		}
		if strings.HasPrefix(it.text, "no more load was tried: ") { // at all sweet spots
			said = verdicts[sweetSpot]
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
			if len(it.below) > 0 { // a reason, with its trials
				got = append(got, it.below...)
				continue
			}
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
	// Without counts of requests an objective is as bad as in its worst trial.
	objectives := func(want any) func(*cell, int) []string {
		return func(c *cell, i int) []string {
			var names []string
			for _, name := range e.order {
				seen := map[any]bool{}
				for _, row := range c.valid() {
					seen[row["slo_"+name]] = true
				}
				for _, verdict := range []any{"fail", nil, "undecided", "pass"} {
					if seen[verdict] {
						if verdict == want && i == 0 {
							names = append(names, c.label()+": "+name)
						}
						break
					}
				}
			}
			return names
		}
	}
	hold("Objectives that were not met", objectives("fail"))
	hold("Objectives that are undecided", objectives("undecided"))
	hold("Objectives that could not be checked", objectives(nil))
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
		command = "To decide the rest: sweep resume --retry invalid,failed DIR\n"
	case wait:
		command = "To decide the rest: sweep resume DIR\n"
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

// at returns the cell in one place of a grid: all of the axes that cells differ in are named
// there, the one that goes down by its column and the others in the words of labels.
func (e *experiment) at(t tableRead, across, down string) *cell {
	words := slices.DeleteFunc(strings.Fields(t.name+" "+across), func(w string) bool {
		return slices.Contains([]string{"all", "cells", "tok/s", "requests/s"}, w) // which name no axis
	})
	for _, c := range e.cells {
		named := 0
		all := true
		for i, a := range e.axes {
			switch text := c.text(func(b axis) bool { return b == a }); {
			case !e.varies(i):
				if slices.Contains(words, text) {
					named++
				}
			case a.name == t.rows[0][0]:
				all = all && fmt.Sprint(c.values[i]) == down
			case slices.Contains(words, text):
				named++
			default:
				all = false
			}
		}
		if all && named == len(words) {
			return c
		}
	}
	return nil
}

// varies reports whether cells differ in an axis.
func (e *experiment) varies(i int) bool {
	return slices.ContainsFunc(e.cells, func(c *cell) bool { return c.values[i] != e.cells[0].values[i] })
}

var timesRead = regexp.MustCompile(`  (?:([0-9.]+|>999)x|~|too few (?:trials|launches): [0-9]+ more)$`)

// engineTable holds the ratios of the table of engines.
func engineTable(tables []tableRead, want map[string]statement) []string {
	for _, t := range tables {
		about, ok := strings.CutPrefix(t.name, "Engines side by side")
		if !ok {
			continue
		}
		about = strings.TrimPrefix(about, ": ")
		for _, row := range t.rows[1:] {
			var s statement
			if i := slices.IndexFunc(table, func(f figure) bool { return f.name == row[0] }); i >= 0 {
				s = want[statement{question: qEngine, about: about, figure: table[i].id()}.key()]
			}
			ranks := 0
			for j, text := range row[1:] {
				m := timesRead.FindStringSubmatch(text)
				if m == nil {
					continue
				}
				ranks++
				k := slices.IndexFunc(s.places, func(p place) bool { return p.side == t.rows[0][j+1] })
				if k < 0 || (m[1] == "") != (s.places[k].ratio == 0) || strings.HasPrefix(m[0], "  too few ") != s.places[k].lacks || m[1] != "" && !near(readRatio(m[1]), readable(s.places[k].ratio), rounded.ratio) {
					return []string{fmt.Sprintf("%s, %s: %s of %+v", row[0], t.rows[0][j+1], text, s)}
				}
			}
			if ranks != len(s.places) {
				return []string{fmt.Sprintf("%s has %d ranks, want those of %+v", row[0], ranks, s)}
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
				if open := row[3] == "? not decided" || strings.HasPrefix(row[6], "? "); open != slices.Contains(s.open, row[0]) {
					return []string{fmt.Sprintf("%q of %+v", row, s)}
				}
				continue
			}
			number, mark, _ := strings.Cut(row[6], "  ")
			value, _ := strconv.ParseFloat(number, 64)
			load, _ := strconv.ParseFloat(row[2], 64) // "-" where the plan does not vary it
			k := slices.IndexFunc(s.places, func(p place) bool { return p.side == row[0] })
			if k >= 0 && strings.HasPrefix(mark, "too few ") != s.places[k].lacks {
				return []string{fmt.Sprintf("%q of %+v", row, s)}
			}
			if k >= 0 && (mark != "") != (s.places[k].ratio == 0 && (i > 0 || s.answer == aTied)) {
				return []string{fmt.Sprintf("%q of %+v", row, s)}
			}
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

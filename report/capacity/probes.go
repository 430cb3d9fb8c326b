package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result/objective"
)

// Marks of probes.
const (
	Kept    = "+"
	Missed  = "-"
	Invalid = "!" // it decides nothing
	Failed  = "x"
)

// A Probe is one trial of a search, and how it ended for the objective of an answer.
type Probe struct {
	Load  float64
	Trial int    // of the load
	Fresh bool   // it confirms a load that others have found
	Mark  string // Kept, Missed, Invalid or Failed
	Cell  string
	On    string // the device; "" if nobody knows
	Why   string // what was measured of the parts that it missed, or why it decides nothing
}

// A Level is a load that was tried, with how many of its trials kept and missed the
// objective: of the fresh ones, or if there is none of those before. A trial in which the
// server failed missed it.
type Level struct {
	Load         float64
	Fresh        bool
	Kept, Missed int
	Open         int // INVALID ones, which decide nothing
}

// Probes returns those of the search in their order.
func (a *Answer) Probes() []Probe {
	var all []Probe
	for i, o := range a.Of.Outcomes {
		if o.State == search.Seen {
			continue
		}
		p := Probe{Load: a.Of.Levels[o.Level], Trial: o.Trial, Fresh: o.Why != search.Find, Mark: mark(o, a.Objective), Cell: a.Of.Cells[o.Level], On: o.On}
		switch p.Mark {
		case Invalid:
			p.Why = "INVALID"
			if row := a.Of.Trials[i].Outcome; row != nil && len(row.Invalid) > 0 {
				p.Why += ": " + row.Invalid[0].Code.String()
			}
		case Failed:
			p.Why = "failed"
		case Missed:
			p.Why = why(o, a.Objective)
		}
		all = append(all, p)
	}
	return all
}

// why returns what an outcome measured of the parts of an objective that it missed.
func why(o search.Outcome, name string) string {
	for _, r := range o.SLOs {
		if r.Name == name {
			return objective.Why(r)
		}
	}
	return ""
}

// Levels returns the loads that were tried, the least first.
func (a *Answer) Levels() []Level {
	at := map[float64]*Level{}
	for _, p := range a.Probes() {
		l := at[p.Load]
		if l == nil || p.Fresh && !l.Fresh {
			l = &Level{Load: p.Load, Fresh: p.Fresh}
			at[p.Load] = l
		}
		switch {
		case p.Fresh != l.Fresh:
		case p.Mark == Kept:
			l.Kept++
		case p.Mark == Missed, p.Mark == Failed:
			l.Missed++
		default:
			l.Open++
		}
	}
	levels := make([]Level, 0, len(at))
	for _, l := range at {
		levels = append(levels, *l)
	}
	slices.SortFunc(levels, func(x, y Level) int { return cmp.Compare(x.Load, y.Load) })
	return levels
}

// Drawn returns the answers as [Items] has them, for a terminal: the probes stand in columns,
// unless that is wider than the terminal.
func Drawn(answers []Answer, width int) []draw.Item {
	items := Items(answers)
	for i := range answers {
		a := &answers[i]
		strip := a.strip()
		long := slices.ContainsFunc(strip, func(line string) bool { return utf8.RuneCountInString(line) > width-stripIndent })
		if strip == nil || long && width > 0 {
			continue
		}
		words := a.path()
		items[i].Below = slices.DeleteFunc(items[i].Below, func(l string) bool { return l == words })
		items[i].Drawn = strip
	}
	return items
}

// stripIndent is how far a strip stands from the edge of a terminal.
const stripIndent = 4

// strip draws the probes in two lines: the loads, and below each how it ended. Behind a bar
// are the fresh trials, which the answer rests on.
func (a *Answer) strip() []string {
	var loads, marks strings.Builder
	put := func(load, mark string) {
		width := max(utf8.RuneCountInString(load), utf8.RuneCountInString(mark)) + 2
		fmt.Fprintf(&loads, "%*s", width, load)
		fmt.Fprintf(&marks, "%*s", width, mark)
	}
	loads.WriteString(a.Of.Axis)
	marks.WriteString(strings.Repeat(" ", len(a.Of.Axis)))
	for _, p := range a.Probes() {
		if !p.Fresh {
			put(Number(p.Load), p.Mark)
		}
	}
	if loads.Len() == len(a.Of.Axis) {
		return nil
	}
	bar := false
	for _, l := range a.Levels() {
		if !l.Fresh {
			continue
		}
		if !bar {
			loads.WriteString(" |")
			marks.WriteString(" |")
			bar = true
		}
		put(Number(l.Load), fmt.Sprintf("%d/%d", l.Kept, l.Kept+l.Missed))
	}
	if a.Capacity != nil {
		marks.WriteString("  certified at " + percent(a.Of.Confidence))
	}
	return []string{loads.String(), marks.String()}
}

// path returns the probes in their order, each with whether it kept the objective, and what
// the fresh trials said of each load.
func (a *Answer) path() string {
	var found, afresh []string
	for _, p := range a.Probes() {
		if !p.Fresh {
			found = append(found, Number(p.Load)+p.Mark)
		}
	}
	if len(found) == 0 {
		return ""
	}
	for _, l := range a.Levels() {
		if l.Fresh {
			afresh = append(afresh, fmt.Sprintf("%s %d of %d kept", Number(l.Load), l.Kept, l.Kept+l.Missed))
		}
	}
	text := "tried " + strings.Join(found, " ")
	if len(afresh) > 0 {
		text += "; then afresh " + strings.Join(afresh, ", ")
	}
	return text
}

// mark returns how a probe ended for an objective. One whose figures drifted is INVALID if it
// kept the objective.
func mark(o search.Outcome, name string) string {
	switch o.State {
	case search.Failed:
		return Failed
	case search.Refusing:
		return Missed
	case search.Invalid, search.ClientBound:
		return Invalid
	}
	for _, r := range o.SLOs {
		if r.Name == name {
			if kept, ok := objective.Kept(r); ok && kept && o.State == search.Drifting {
				return Invalid
			} else if ok && kept {
				return Kept
			} else if ok {
				return Missed
			}
		}
	}
	return Invalid
}

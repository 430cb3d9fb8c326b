package details

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
)

// The sentences of claims. Nothing here decides anything.

// maxRanked is how many shared loads are ranked one by one.
const maxRanked = 12

// maxPlaces is how many places of a ranking are said; the claim has all.
const maxPlaces = 6

// spots are the sweet spots, and the series that have none or of which it is not
// decided.
func (s *summary) spots() []draw.Item {
	var items []draw.Item
	for _, c := range s.set.Answers(compare.AskSweetSpot, compare.AskBest) {
		about := cmp.Or(c.About, "the plan's load")
		switch {
		case c.Question == compare.AskBest:
			last := &items[len(items)-1]
			last.Below = append(last.Below, "best: "+s.describe(c))
		case c.Answer == compare.Decided:
			items = append(items, draw.Item{Text: s.describe(c) + c.Best("; ")})
		case c.Answer == compare.Tied:
			items = append(items, draw.Item{Text: about + ": not decided" + c.Best("; ") + c.WouldTell()})
		case c.Answer == compare.None:
			items = append(items, draw.Item{Text: about + ": none, no cell is acceptable"})
		default:
			items = append(items, draw.Item{Text: about + ": not decided: " + c.Left[0].Why})
		}
	}
	return items
}

// scopes say what the intervals of ratios cover; "" if there is none.
func (s *summary) scopes() string {
	var all []string
	for _, c := range s.set.Claims {
		for _, p := range c.Places {
			if scope := string(p.Interval.Scope); scope != "" && !slices.Contains(all, scope) {
				all = append(all, scope)
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return "What is told apart, and the intervals of ratios, rest on differences " + strings.Join(all, ", or ") + "."
}

// toDecide is the command that measures the holes that leave claims not decided;
// none if no command can.
func (s *summary) toDecide() []string {
	if command := s.Resume(s.set.Undecided()); command != "" {
		return []string{"To decide the rest: " + command}
	}
	return nil
}

// ranked says for every load that several engines had who is first, and how much
// slower the others are.
func (s *summary) ranked() []draw.Item {
	var items []draw.Item
	for i, c := range s.set.Engines {
		if i == maxRanked {
			return append(items, draw.Item{Text: fmt.Sprintf("and at %s more: %s has them", humanize.Plural(len(s.set.Engines)-i, "load"), layout.CellsCSV)})
		}
		it := draw.Item{Text: cmp.Or(c.Name, "at the plan's load")}
		for _, claim := range c.Claims {
			switch {
			case claim.Measure.Lasting: // the start-up, which is of no load
				items = append(items, draw.Item{Text: ranking(claim)})
			case claim.Measure.Said:
				it.Below = append(it.Below, ranking(claim))
			case claim.Measure.ID() == "":
				it.Below = append(it.Below, unranked(claim)...)
			}
		}
		items = append(items, it)
	}
	return items
}

// unranked says which engines are in no ranking of a load.
func unranked(c compare.Claim) []string {
	var lines []string
	if len(c.Places) < 2 {
		lines = append(lines, "not comparable: fewer than two engines have numbers to use")
	}
	for _, l := range c.Left {
		what := "not ranked"
		if l.Hole {
			what = "not decided"
		}
		lines = append(lines, fmt.Sprintf("%s: %s, %s", what, l.Side, l.Why))
	}
	return lines
}

// ranking is a decided claim at one load in words.
func ranking(c compare.Claim) string {
	texts := make([]string, len(c.Places))
	for i, p := range c.Places {
		var notes []string
		if p.Ratio > 0 {
			notes = append(notes, worse(p, c.Measure.How()))
		} else if c.Answer != compare.Tied {
			notes = append(notes, same)
		}
		if n := len(p.Point.Trials); len(p.Rows) < n {
			notes = append(notes, fmt.Sprintf("%d of %s", len(p.Rows), humanize.Plural(n, "trial")))
		}
		texts[i] = p.Side + " " + c.Measure.Show(p.Value)
		if len(notes) > 0 {
			texts[i] += " (" + strings.Join(notes, "; ") + ")"
		}
	}
	head := c.Measure.Name + ": "
	if c.Answer == compare.Tied {
		head += tied(c)
	}
	return head + strings.Join(texts, ", ") + c.WouldTell()
}

// choices say for each kind of request how GPUs compare: at each load that
// several of them had, and each at its best.
func (s *summary) choices() []draw.Item {
	var items []draw.Item
	at := map[string]int{}
	for _, c := range s.set.Answers(compare.AskGPU, compare.AskGPUBest) {
		i, ok := at[c.About]
		if !ok {
			i = len(items)
			at[c.About] = i
			items = append(items, draw.Item{Text: cmp.Or(c.About, "the plan's load")})
		}
		switch n := len(items[i].Below); {
		case n < maxRanked || c.Question == compare.AskGPUBest:
			items[i].Below = append(items[i].Below, compared(c))
		case n == maxRanked:
			items[i].Below = append(items[i].Below, "and at more loads: "+layout.CellsCSV+" has them")
		}
	}
	return items
}

// costs say what a token costs with each server at its best.
func (s *summary) costs() []draw.Item {
	var items []draw.Item
	for _, c := range s.set.Answers(compare.AskCost) {
		text := compared(c)
		if c.About != "" {
			text = c.About + ", " + text
		}
		items = append(items, draw.Item{Text: text})
	}
	return items
}

// compared is a comparison of sides in words, with the load of each.
func compared(c compare.Claim) string {
	head := c.At
	own := c.Question != compare.AskGPU && len(c.Loads) > 1 // each side has a load of its own
	if own {
		head = "each at its best of " + c.At
	}
	if c.Measure.Name != "" {
		head = strings.TrimPrefix(head+", "+c.Measure.Name, ", ")
	}
	var parts, open, left []string
	for i, p := range c.Places {
		if i == maxPlaces {
			parts = append(parts, fmt.Sprintf("and %d more", len(c.Places)-i))
			break
		}
		text := p.Side
		if c.Measure.Name != "" {
			text += " " + c.Measure.Show(p.Value)
		}
		if at := compare.LoadText(p.Point.Cell); own && at != "" {
			text += " at " + at
		}
		switch {
		case i == 0:
		case p.Ratio > 0:
			text += " (" + worse(p, c.Measure.How()) + ")"
		case c.Measure.Name != "" && c.Answer != compare.Tied:
			text += " (" + same + ")"
		}
		parts = append(parts, text)
	}
	for _, l := range c.Left {
		if text := fmt.Sprintf("%s (%s)", l.Side, l.Why); l.Hole {
			open = append(open, text)
		} else {
			left = append(left, text)
		}
	}
	var text []string
	switch {
	case len(open) > 0:
		text = append(text, "not decided: "+strings.Join(open, ", "))
		if len(parts) > 0 && c.Measure.Name != "" {
			text = append(text, "of the others: "+strings.Join(parts, ", "))
		}
	case c.Answer == compare.NotComparable && len(c.Loads) == 0:
		text = append(text, "not comparable: no load was given to all of them")
	case c.Answer == compare.NotComparable && len(parts) == 0:
		text = append(text, "not comparable")
	case c.Answer == compare.NotComparable && c.Measure.Name == "":
		text = append(text, "not comparable: only "+parts[0]+" was found to meet every objective")
	case c.Answer == compare.NotComparable:
		text = append(text, "not comparable: there is "+parts[0]+" alone")
	case c.Answer == compare.Tied:
		text = append(text, tied(c)+strings.Join(parts, ", ")+c.WouldTell())
	default:
		text = append(text, strings.Join(parts, ", "))
	}
	if len(left) > 0 {
		text = append(text, "not ranked: "+strings.Join(left, ", "))
	}
	if head == "" {
		return strings.Join(text, "; ")
	}
	return head + ": " + strings.Join(text, "; ")
}

// times is a ratio for people, up to 999.
func times(r float64) string {
	switch {
	case r >= 1000:
		return ">999x"
	case r >= 100:
		return fmt.Sprintf("%.0fx", r)
	}
	return fmt.Sprintf("%.2fx", r)
}

// same is said of a side that cannot be told from the best.
const same = "~"

// tied is said of sides none of which can be told from the best.
func tied(c compare.Claim) string {
	known := slices.ContainsFunc(c.Places, func(p compare.Place) bool { return p.Interval.Scope != "" })
	switch {
	case known:
		return "not distinguishable: "
	case c.Measure.Lasting:
		return "not ranked, too few launches: "
	}
	return "not ranked, too few trials: "
}

// worse is how much worse than the first a place is, with the word for it and the
// interval. The first has neither.
func worse(p compare.Place, how string) string {
	text := times(p.Ratio)
	if p.Interval.Scope == "" || text == "1.00x" {
		return text
	}
	high := "more"
	if !math.IsInf(p.Interval.High, 1) {
		high = strings.TrimSuffix(times(p.Interval.High), "x")
	}
	return fmt.Sprintf("%s %s, %s to %s", text, how, strings.TrimSuffix(times(p.Interval.Low), "x"), high)
}

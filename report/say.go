package report

import (
	"cmp"
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
)

// The sentences of claims. Nothing here decides anything.

// maxPlaces is how many places of a ranking are said; the claim has all.
const maxPlaces = 6

// say names the loads of holes and their kinds: "concurrency 4, 8 INVALID".
// Neighbours of one kind are said together. The grid and the sections about
// trials have the reasons.
func say(holes []*Point) string {
	var parts []string
	for i := 0; i < len(holes); {
		j := i + 1
		for j < len(holes) && holes[j].briefly() == holes[i].briefly() {
			j++
		}
		at := amounts(holes[i:j])
		if at != "" {
			at += " "
		}
		parts = append(parts, at+holes[i].briefly())
		i = j
	}
	return strings.Join(parts, ", ")
}

// briefly is why without codes.
func (p *Point) briefly() string {
	if h := p.open; h.kind != "" {
		h.why = ""
		return h.String()
	}
	return p.why()
}

// spots are the sweet spots, and the series that have none or of which it is not
// decided.
func (s *summary) spots() []item {
	var items []item
	for _, c := range s.answers(AskSweetSpot, AskBest) {
		about := cmp.Or(c.About, "the plan's load")
		switch {
		case c.Question == AskBest:
			last := &items[len(items)-1]
			last.below = append(last.below, "best: "+s.describe(c))
		case c.Answer == Decided:
			items = append(items, item{text: s.describe(c)})
		case c.Answer == None:
			items = append(items, item{text: about + ": none, no cell is acceptable"})
		default:
			items = append(items, item{text: about + ": not decided: " + c.Left[0].Why})
		}
	}
	return items
}

// toDecide is the command that measures the holes that leave claims not decided;
// none if no command can.
func (s *summary) toDecide() []string {
	var trials []Trial
	for _, c := range s.claims {
		for _, l := range c.Left {
			if !l.Hole {
				continue
			}
			for _, p := range l.points {
				trials = append(trials, p.Trials...)
			}
		}
	}
	if command := s.resume(trials); command != "" {
		return []string{"To decide the rest: " + command}
	}
	return nil
}

// ranked says for every load that several engines had who is first, and how much
// slower the others are.
func (s *summary) ranked() []item {
	var items []item
	for i, c := range s.engines {
		if i == maxRanked {
			return append(items, item{text: fmt.Sprintf("and at %s more: %s has them", humanize.Plural(len(s.engines)-i, "load"), layout.CellsCSV)})
		}
		it := item{text: cmp.Or(c.name, "at the plan's load")}
		for _, claim := range c.claims {
			switch {
			case claim.measure.lasting: // the start-up, which is of no load
				items = append(items, item{text: claim.ranking()})
			case claim.measure.said:
				it.below = append(it.below, claim.ranking())
			case claim.Measure() == "":
				it.below = append(it.below, claim.unranked()...)
			}
		}
		items = append(items, it)
	}
	return items
}

// unranked says which engines are in no ranking of a load.
func (c Claim) unranked() []string {
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
func (c Claim) ranking() string {
	texts := make([]string, len(c.Places))
	for i, p := range c.Places {
		var notes []string
		if p.Ratio > 0 {
			notes = append(notes, worse(p.Ratio, c.measure.how()))
		}
		if n := len(p.point.Trials); len(p.Rows) < n {
			notes = append(notes, fmt.Sprintf("%d of %s", len(p.Rows), humanize.Plural(n, "trial")))
		}
		texts[i] = p.Side + " " + c.measure.show(p.Value)
		if len(notes) > 0 {
			texts[i] += " (" + strings.Join(notes, "; ") + ")"
		}
	}
	return c.measure.name + ": " + strings.Join(texts, ", ")
}

// choices say for each kind of request how GPUs compare: at each load that
// several of them had, and each at its best.
func (s *summary) choices() []item {
	var items []item
	at := map[string]int{}
	for _, c := range s.answers(AskGPU, AskGPUBest) {
		i, ok := at[c.About]
		if !ok {
			i = len(items)
			at[c.About] = i
			items = append(items, item{text: cmp.Or(c.About, "the plan's load")})
		}
		switch n := len(items[i].below); {
		case n < maxRanked || c.Question == AskGPUBest:
			items[i].below = append(items[i].below, c.compared())
		case n == maxRanked:
			items[i].below = append(items[i].below, "and at more loads: "+layout.CellsCSV+" has them")
		}
	}
	return items
}

// costs say what a token costs with each server at its best.
func (s *summary) costs() []item {
	var items []item
	for _, c := range s.answers(AskCost) {
		text := c.compared()
		if c.About != "" {
			text = c.About + ", " + text
		}
		items = append(items, item{text: text})
	}
	return items
}

// compared is a comparison of sides in words, with the load of each.
func (c Claim) compared() string {
	head := c.at
	own := c.Question != AskGPU && len(c.Loads) > 1 // each side has a load of its own
	if own {
		head = "each at its best of " + c.at
	}
	if c.measure.name != "" {
		head = strings.TrimPrefix(head+", "+c.measure.name, ", ")
	}
	var parts, open, left []string
	for i, p := range c.Places {
		if i == maxPlaces {
			parts = append(parts, fmt.Sprintf("and %d more", len(c.Places)-i))
			break
		}
		text := p.Side
		if c.measure.name != "" {
			text += " " + c.measure.show(p.Value)
		}
		if at := loadText(p.point.Cell); own && at != "" {
			text += " at " + at
		}
		if i > 0 && p.Ratio > 0 {
			text += " (" + worse(p.Ratio, c.measure.how()) + ")"
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
		if len(parts) > 0 && c.measure.name != "" {
			text = append(text, "of the others: "+strings.Join(parts, ", "))
		}
	case c.Answer == NotComparable && len(c.Loads) == 0:
		text = append(text, "not comparable: no load was given to all of them")
	case c.Answer == NotComparable && len(parts) == 0:
		text = append(text, "not comparable")
	case c.Answer == NotComparable && c.measure.name == "":
		text = append(text, "not comparable: only "+parts[0]+" was found to meet every objective")
	case c.Answer == NotComparable:
		text = append(text, "not comparable: there is "+parts[0]+" alone")
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

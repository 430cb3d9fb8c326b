package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The sentences of claims. Nothing here decides anything.

// maxPlaces is how many places of a ranking are said; the claim has all.
const maxPlaces = 6

// say is where holes are and what they are: "concurrency 4, 8
// INVALID". Neighbours of one kind are said together. Their reasons stand in the
// grid and in the sections about them.
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
	if p.open.kind != "" {
		return p.open.short()
	}
	return p.why()
}

// spots are the sweet spots, and the series that have none or of which it is not
// decided.
func (s *summary) spots() []item {
	var items []item
	for _, c := range s.answers(AskSweetSpot, AskBest) {
		switch {
		case c.Question == AskBest:
			last := &items[len(items)-1]
			last.below = append(last.below, "best: "+s.describe(c))
		case c.Answer == Decided:
			items = append(items, item{text: s.describe(c)})
		case c.Answer == None:
			items = append(items, item{text: cmp.Or(c.About, "the plan's load") + ": none, no cell is acceptable"})
		default:
			var holes []*Point
			for _, h := range c.Holes {
				holes = append(holes, h.at...)
			}
			items = append(items, item{text: cmp.Or(c.About, "the plan's load") + ": not decided: " + say(holes)})
		}
	}
	return items
}

// toDecide is the command that measures what claims miss; none where no command
// can.
func (s *summary) toDecide() []string {
	pending, again := false, false
	for _, c := range s.claims {
		for _, l := range slices.Concat(c.Left, c.Holes) {
			if !l.Hole {
				continue
			}
			for _, p := range l.at {
				for _, t := range p.Trials {
					switch v := Judge(t); v {
					case Pending:
						pending = true
					case Invalid, FailedRun:
						again = true
					case NoStart:
						again = again || !s.Resolved.RecordStarts
					}
				}
			}
		}
	}
	switch {
	case again:
		return []string{"To decide what is not: sweep resume --retry invalid,failed " + s.Dir}
	case pending:
		return []string{"To decide what is not: sweep resume " + s.Dir}
	}
	return nil
}

// ranked says for every load that several engines had who is first, and how much
// slower the others are.
func (s *summary) ranked() []item {
	var items []item
	claims := s.answers(AskEngine)
	loads := map[string]int{}
	more := 0
	for i, c := range claims {
		said := isRanking(c.Measure)
		if c.Measure == "start_up_s" {
			// A start is not of one load: the load that is shown stands for all.
			if text := s.ranking(c); text != "" {
				items = append(items, item{text: text})
			}
			continue
		}
		at, ok := loads[c.About]
		if !ok {
			if len(loads) == maxRanked {
				if i == 0 || claims[i-1].About != c.About {
					more++
				}
				continue
			}
			at = len(items)
			loads[c.About] = at
			items = append(items, item{text: cmp.Or(c.About, "at the plan's load")})
		}
		if c.Measure == "" { // who is not in it
			if len(c.Places) < 2 {
				items[at].below = append(items[at].below, "not comparable: fewer than two engines have numbers to use")
			}
			for _, l := range c.Left {
				what := "not ranked"
				if l.Hole {
					what = "not decided"
				}
				items[at].below = append(items[at].below, fmt.Sprintf("%s: %s, %s", what, l.Side, l.Why))
			}
			continue
		}
		if text := s.ranking(c); text != "" && said {
			items[at].below = append(items[at].below, text)
		}
	}
	if more > 0 {
		items = append(items, item{text: fmt.Sprintf("and at %s more: cells.csv has them", plural(more, "load"))})
	}
	return items
}

// ranking is a claim at one load in words; "" where there are not two to rank.
func (s *summary) ranking(c Claim) string {
	if len(c.Places) < 2 {
		return ""
	}
	texts := make([]string, len(c.Places))
	for i, p := range c.Places {
		var notes []string
		if p.Ratio > 0 {
			notes = append(notes, worse(p.Ratio, c.measure.how()))
		}
		if n := len(p.point.Trials); len(p.Rows) < n {
			notes = append(notes, fmt.Sprintf("%d of %s", len(p.Rows), plural(n, "trial")))
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
			items[i].below = append(items[i].below, "and at more loads: cells.csv has them")
		}
	}
	return items
}

// costs say what a token costs of each server at its best.
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
		if l.Hole {
			open = append(open, fmt.Sprintf("%s (%s)", l.Side, l.Why))
		} else {
			left = append(left, fmt.Sprintf("%s (%s)", l.Side, l.Why))
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

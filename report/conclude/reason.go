package conclude

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/result/col"
)

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

// briefly returns why without codes.
func (p *Point) briefly() string {
	if h := p.open; h.kind != "" {
		h.why = ""
		return h.String()
	}
	return p.why()
}

// Reason returns why a cell without a valid trial has none, as a code.
func (p *Point) Reason() string {
	column := col.ErrorClass
	if p.Verdict == Invalid {
		column = col.InvalidReasons
	}
	for _, t := range p.Trials {
		if t.Outcome != nil {
			if code, ok := t.Outcome.Row[column].(string); ok {
				return code
			}
		}
	}
	return string(p.Verdict)
}

// Best says behind a separator which loads of a series may be the best, and what that
// gives; "" if it is the sweet spot alone.
func (c Claim) Best(separator string) string {
	most := c.Measure.Show(c.Most) + " " + Rates[c.Measure.ID()]
	switch {
	case len(c.Loads) > 1:
		return fmt.Sprintf("%s%s are not distinguishable from the best, %s", separator, c.At, most)
	case len(c.Loads) == 1 && (c.Answer != Decided || c.Loads[0] != Load(c.Places[0].Point.Cell)):
		return fmt.Sprintf("%sthe best is %s, %s", separator, c.At, most)
	}
	return ""
}

// WouldTell says how many trials would tell apart two values that cannot be told apart
// yet; "" if that is unknown.
func (c Claim) WouldTell() string {
	if c.Trials == 0 {
		return ""
	}
	return fmt.Sprintf("; about %d trials of each would tell", c.Trials)
}

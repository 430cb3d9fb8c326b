package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// The sentences of claims. Nothing here decides anything.

// maxRanked is how many shared loads are ranked one by one.
const maxRanked = 12

// maxPlaces is how many places of a ranking are said; the claim has all.
const maxPlaces = 6

// TheLoad stands for what a claim is about where the plan has one load alone.
const TheLoad = "the plan's load"

// A Said is a claim and the sentence that states it.
type Said struct {
	conclude.Claim
	Text string
}

// Claims returns those that are said, in the order of the summary. The verdicts on single
// cells are not among them: the grid has those.
func (v *View) Claims() []Said {
	if v.Searching() {
		return nil
	}
	var all []Said
	for _, c := range v.Set.Claims {
		text := ""
		switch c.Question {
		case conclude.AskVerdict, conclude.AskMoreLoad:
			continue
		case conclude.AskSweetSpot, conclude.AskBest:
			text = v.spot(c)
		case conclude.AskEngine:
			if c.Measure.ID() == "" || !c.Measure.Said && !c.Measure.Lasting {
				continue
			}
			text = ranking(c)
		default:
			text = compared(c)
		}
		all = append(all, Said{c, text})
	}
	return all
}

// spot describes the load that a series is best at, with the label of its cell, or says why it
// is not decided.
func (v *View) spot(c conclude.Claim) string {
	if c.Answer != conclude.Decided {
		return Open(c)
	}
	p := c.Places[0].Point
	text := p.Cell.Label + ": " + Figures(p, c.Measure, P95(v.Latencies))
	if c.Question == conclude.AskSweetSpot {
		text += c.Best("; ")
	}
	return text
}

// Open returns the reason that the best load of a series is not decided, or that there is
// none. The claim is not Decided.
func Open(c conclude.Claim) string {
	switch c.Answer {
	case conclude.Tied:
		return "not decided" + c.Best("; ") + c.WouldTell()
	case conclude.None:
		return "none, no cell is acceptable"
	}
	return "not decided, " + c.Left[0].Why + needs(c.Left[0].Points)
}

// Spots returns the sweet spots, and the series that have none or of which it is not
// decided.
func (v *View) Spots() []draw.Item {
	var items []draw.Item
	for _, c := range v.Set.Answers(conclude.AskSweetSpot, conclude.AskBest) {
		switch {
		case c.Question == conclude.AskBest: // of the series before
			last := &items[len(items)-1]
			last.Below = append(last.Below, "best: "+v.spot(c))
		case c.Answer == conclude.Decided:
			items = append(items, draw.Item{Text: v.spot(c)})
		default:
			items = append(items, draw.Item{Text: cmp.Or(c.About, TheLoad) + ": " + Open(c)})
		}
	}
	return items
}

// A race is servers that were given the same work.
type race struct {
	work  string
	sides []string // with what each is known to give, and what keeps that from being decided
	spots []string // of those whose best load is decided
	open  bool     // a side has none
}

// Headlines returns the sweet spots in a sentence each, or the best load of a server without one.
// Of servers that were given the same work, one of which is not decided, a single sentence of
// open names all: none is the best because another is not decided.
func (v *View) Headlines() (open, spots []string) {
	if v.Searching() {
		return nil, nil
	}
	cells := map[string]conclude.Cell{}
	for _, p := range v.Set.Points {
		cells[About(p.Cell)] = p.Cell
	}
	var order []*race
	races := map[string]*race{}
	for _, c := range v.Set.Answers(conclude.AskSweetSpot, conclude.AskBest) {
		cell := cells[c.About]
		work := cell.Text(func(s conclude.Setting) bool { return !s.Server && !s.Amount })
		k := races[work]
		if k == nil {
			k = &race{work: work}
			races[work], order = k, append(order, k)
		}
		side := func(value float64, why string) {
			k.sides = append(k.sides, fmt.Sprintf("%s (%s %s%s)", cell.ServerText(), c.Measure.Show(value), conclude.Rates[c.Measure.ID()], why))
		}
		switch {
		case c.Question == conclude.AskBest: // of the side before
			k.spots = append(k.spots, "Best of those that meet every objective: "+v.spot(c))
		case c.Answer == conclude.Decided:
			side(c.Places[0].Value, "")
			k.spots = append(k.spots, "Sweet spot: "+v.spot(c))
		case c.Answer == conclude.Tied:
			side(c.Most, "")
		case c.Answer == conclude.NotDecided && c.Left[0].Best != nil:
			value, _ := c.Left[0].Best.Figure(c.Measure)
			side(value, "; "+c.Left[0].Why)
			k.open = true
		case c.Answer == conclude.NotDecided:
			k.sides = append(k.sides, fmt.Sprintf("%s (%s)", cell.ServerText(), c.Left[0].Why))
			k.open = true
		}
	}
	for _, k := range order {
		switch {
		case !k.open || len(k.sides) < 2:
			spots = append(spots, k.spots...)
		case k.work == "":
			open = append(open, "Best server: "+between(k.sides))
		default:
			open = append(open, "Best server for "+k.work+": "+between(k.sides))
		}
	}
	return open, spots
}

// Edge returns a sentence about the sweet spots of some claims that are at the most load that
// was tried; "" if none is.
func Edge(claims []conclude.Claim) string {
	n, spots := 0, 0
	for _, c := range claims {
		switch {
		case c.Question == conclude.AskMoreLoad:
			n++
		case c.Question == conclude.AskSweetSpot && c.Answer == conclude.Decided:
			spots++
		}
	}
	switch {
	case n == 0:
		return ""
	case n == spots:
		return "no more load was tried: the server may carry more"
	}
	return fmt.Sprintf("no more load was tried than at %d of %s: there the server may carry more", n, humanize.Plural(spots, "sweet spot"))
}

// maxNeeds is how many cells are named of those that need more.
const maxNeeds = 2

// needs returns what would decide the undecided ones of some cells; "" if none is.
func needs(points []*conclude.Point) string {
	var parts []string
	for _, p := range points {
		if text := need(p, len(points) > 1); text != "" && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	if len(parts) > maxNeeds {
		parts = append(parts[:maxNeeds], "...")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// need returns what would decide a cell, by the objective that needs most of it; its load is
// named beside other cells.
func need(p *conclude.Point, named bool) string {
	if p.Verdict != conclude.Undecided {
		return ""
	}
	requests, seconds := 0, 0.0
	for _, o := range p.Objectives {
		if o.Verdict == "" || o.Severity == conclude.SeverityWarn {
			continue
		}
		for _, part := range o.Parts {
			switch {
			case o.Verdict != result.SLOUndecided || part.Verdict != result.SLOUndecided:
			case part.MoreRequests == 0 && part.MoreSeconds == 0:
				return o.Name + ": " + objective.AtLimit
			default:
				requests, seconds = max(requests, part.MoreRequests), max(seconds, part.MoreSeconds)
			}
		}
	}
	at := ""
	if text := conclude.LoadText(p.Cell); named && text != "" {
		at = text + ": "
	}
	switch {
	case requests > 0:
		return fmt.Sprintf("%sabout %s more would decide it", at, humanize.Plural(requests, "request"))
	case seconds > 0:
		return fmt.Sprintf("%sabout %.0f s more would decide it", at, seconds)
	}
	return p.Why
}

// scopes say what the intervals of ratios cover; "" if there is none.
func (v *View) scopes() string {
	var all []string
	for _, c := range v.Set.Claims {
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

// ToDecide returns the command that measures the holes that leave claims not decided, as a
// sentence; none if no command can.
func (v *View) ToDecide() []string {
	if v.Searching() {
		return nil
	}
	if command := v.Resume(v.Set.Undecided()); command != "" {
		return []string{"To decide the rest: " + command}
	}
	return nil
}

// Ranked ranks the engines at every load that several had, with how much slower than the
// first the others are.
func (v *View) Ranked() []draw.Item {
	var items []draw.Item
	for i, c := range v.Set.Engines {
		if i == maxRanked {
			return append(items, draw.Item{Text: fmt.Sprintf("and at %s more: %s has them", humanize.Plural(len(v.Set.Engines)-i, "load"), layout.CellsCSV)})
		}
		it := draw.Item{Text: cmp.Or(c.Name, "at "+TheLoad)}
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
func unranked(c conclude.Claim) []string {
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

// ranking returns a decided claim at one load in words.
func ranking(c conclude.Claim) string {
	texts := make([]string, len(c.Places))
	for i, p := range c.Places {
		var notes []string
		if p.Ratio > 0 {
			notes = append(notes, worse(p, c.Measure.How()))
		} else if c.Answer != conclude.Tied || p.More > 0 {
			notes = append(notes, unapart(p, c.Measure))
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
	if c.Answer == conclude.Tied {
		head += tied(c)
	}
	return head + strings.Join(texts, ", ") + c.WouldTell()
}

// Choices say for each kind of request how GPUs compare: at each load that
// several of them had, and each at its best.
func (v *View) Choices() []draw.Item {
	var items []draw.Item
	at := map[string]int{}
	for _, c := range v.Set.Answers(conclude.AskGPU, conclude.AskGPUBest) {
		i, ok := at[c.About]
		if !ok {
			i = len(items)
			at[c.About] = i
			items = append(items, draw.Item{Text: cmp.Or(c.About, TheLoad)})
		}
		switch n := len(items[i].Below); {
		case n < maxRanked || c.Question == conclude.AskGPUBest:
			items[i].Below = append(items[i].Below, compared(c))
		case n == maxRanked:
			items[i].Below = append(items[i].Below, "and at more loads: "+layout.CellsCSV+" has them")
		}
	}
	return items
}

// Costs say what a token costs with each server at its best.
func (v *View) Costs() []draw.Item {
	var items []draw.Item
	for _, c := range v.Set.Answers(conclude.AskCost) {
		text := compared(c)
		if c.About != "" {
			text = c.About + ", " + text
		}
		items = append(items, draw.Item{Text: text})
	}
	return items
}

// compared returns a comparison of sides in words, with the load of each.
func compared(c conclude.Claim) string {
	head := c.At
	own := c.Question != conclude.AskGPU && len(c.Loads) > 1 // each side has a load of its own
	if own {
		head = "each at its best of " + c.At
	}
	if c.Measure.Name != "" {
		head = strings.TrimPrefix(head+", "+c.Measure.Name, ", ")
	}
	figure := func(p *conclude.Point, value float64) string {
		if c.Measure.Name == "" {
			return ""
		}
		text := c.Measure.Show(value)
		if at := conclude.LoadText(p.Cell); own && at != "" {
			text += " at " + at
		}
		return text
	}
	var parts, open, left []string
	for i, p := range c.Places {
		if i == maxPlaces {
			parts = append(parts, fmt.Sprintf("and %d more", len(c.Places)-i))
			break
		}
		text := strings.TrimSpace(p.Side + " " + figure(p.Point, p.Value))
		switch {
		case i == 0:
		case p.Ratio > 0:
			text += " (" + worse(p, c.Measure.How()) + ")"
		case c.Measure.Name != "" && (c.Answer != conclude.Tied || p.More > 0):
			text += " (" + unapart(p, c.Measure) + ")"
		}
		parts = append(parts, text)
	}
	for _, l := range c.Left {
		switch {
		case !l.Hole:
			left = append(left, fmt.Sprintf("%s (%s)", l.Side, l.Why))
		case l.Best == nil:
			open = append(open, fmt.Sprintf("%s (%s)", l.Side, l.Why))
		default:
			value, _ := l.Best.Figure(c.Measure)
			open = append(open, fmt.Sprintf("%s (%s; %s)", l.Side, figure(l.Best, value), l.Why))
		}
	}
	var text []string
	switch {
	case len(open) > 0 && len(parts) > 0 && c.Measure.Name == "":
		text = append(text, between(append(open, parts...)))
	case len(open) > 0 && len(parts) > 0:
		// Those that are certainly behind the first are not the best, whatever the open ones come to.
		behind := 1
		for behind < len(c.Places) && behind < maxPlaces && c.Places[behind].Ratio == 0 {
			behind++
		}
		for _, p := range c.Places[:behind] {
			note := ""
			if p.More > 0 {
				note = "; " + unapart(p, c.Measure)
			}
			open = append(open, fmt.Sprintf("%s (%s%s)", p.Side, figure(p.Point, p.Value), note))
		}
		text = append(text, between(open))
		if rest := parts[behind:]; len(rest) > 0 {
			text = append(text, "behind "+c.Places[0].Side+": "+strings.Join(rest, ", "))
		}
	case len(open) > 0:
		text = append(text, "not decided: "+strings.Join(open, ", "))
	case c.Answer == conclude.NotComparable && len(c.Loads) == 0:
		text = append(text, "not comparable: no load was given to all of them")
	case c.Answer == conclude.NotComparable && len(parts) == 0:
		text = append(text, "not comparable")
	case c.Answer == conclude.NotComparable && c.Measure.Name == "":
		text = append(text, "not comparable: only "+parts[0]+" was found to meet every objective")
	case c.Answer == conclude.NotComparable:
		text = append(text, "not comparable: there is "+parts[0]+" alone")
	case c.Answer == conclude.Tied:
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

// between says that one of some sides is the best, and that it is not decided which.
func between(sides []string) string {
	last := len(sides) - 1
	return "not decided between " + strings.Join(sides[:last], ", ") + " and " + sides[last]
}

// times returns a ratio for people, up to 999.
func times(r float64) string {
	switch {
	case r >= 1000:
		return ">999x"
	case r >= 100:
		return fmt.Sprintf("%.0fx", r)
	}
	return fmt.Sprintf("%.2fx", r)
}

// unapart is said of a side that is not told from the best: that it cannot be, or where the
// two are far apart, how many trials it lacks.
func unapart(p conclude.Place, m conclude.Measure) string {
	switch {
	case p.More == 0:
		return "~"
	case m.Lasting:
		return fmt.Sprintf("too few launches: %d more", p.More)
	}
	return fmt.Sprintf("too few trials: %d more", p.More)
}

// tied is said of sides none of which can be told from the best.
func tied(c conclude.Claim) string {
	known := slices.ContainsFunc(c.Places, func(p conclude.Place) bool { return p.Interval.Scope != "" })
	far := slices.ContainsFunc(c.Places, func(p conclude.Place) bool { return p.More > 0 })
	switch {
	case known && !far:
		return "not distinguishable: "
	case c.Measure.Lasting:
		return "not ranked, too few launches: "
	}
	return "not ranked, too few trials: "
}

// worse returns how much worse than the first a place is, with the word for it and the
// interval. The first has neither.
func worse(p conclude.Place, how string) string {
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

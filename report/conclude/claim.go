package conclude

import (
	"slices"

	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/ratio"
	"sweep.dev/sweep/rundir"
)

// A Question is what a claim answers.
type Question string

// The questions that a summary answers.
const (
	// AskVerdict: what is a cell worth? One place.
	AskVerdict Question = "verdict"
	// AskSweetSpot: which load of a series is its sweet spot? One place.
	AskSweetSpot Question = "sweet spot"
	// AskBest: which load of a series gives most tokens a second and meets every
	// objective? It is asked where the sweet spot is not decided. One place.
	AskBest Question = "best"
	// AskMoreLoad: was no more load tried than a sweet spot has? One place.
	AskMoreLoad Question = "more load"
	// AskEngine: how do engines compare at one load?
	AskEngine Question = "engine"
	// AskGPU: how do GPUs compare at one load at which they meet every objective?
	AskGPU Question = "gpu"
	// AskGPUBest: how do GPUs compare, each at its best of the loads that all of
	// them were given?
	AskGPUBest Question = "gpu at its best"
	// AskCost: how do servers compare in the price of a token, each at its best of
	// the loads that all of them were given?
	AskCost Question = "cost"
)

// An Answer is how a question is answered.
type Answer string

// The answers.
const (
	Decided       Answer = "decided"             // by Places, the best first; those without a ratio may be as good
	Tied          Answer = "not distinguishable" // there are too few trials to tell which of Places, or of Loads, is better
	None          Answer = "none"                // no cell is acceptable
	NotDecided    Answer = "not decided"         // holes stand in the way; Places, if any, are ranked among themselves
	NotComparable Answer = "not comparable"      // there are not two sides to compare
)

// A Claim is one conclusion about a run, as data. Every sentence of a summary
// about the worth of cells, or about which is better, states a claim.
type Claim struct {
	Question Question
	About    string // what the cells share, in the words of their labels; of a verdict, the cell's label
	// Loads are those among which each side has its best, or the one at which sides are
	// compared; of a sweet spot, those that are not distinguishable from the best.
	Loads  []float64
	Answer Answer
	Places []Place
	Left   []Left // sides without a place

	Measure Measure // that sides are compared by; without a name for none
	At      string  // Loads in words
	Most    float64 // of a sweet spot: the highest mean of the loads it is chosen from
	Trials  int     // that each side would need to be told apart; 0 if unknown
}

// A Place is one cell in a claim, with the numbers that the claim rests on.
type Place struct {
	Side    string // the engine, the GPU or the server; "" in a claim about one cell
	Cell    string // its id
	Rows    []rundir.Key
	Verdict Verdict
	Value   float64 // of the measure: the mean over Rows
	// Ratio is how many times worse than the first place this one certainly is, 1 for
	// the first; 0 where the two cannot be told apart.
	Ratio float64
	// More is how many further trials of each would tell it from the first place, where the
	// two are far beyond their noise and too few tell it; else 0.
	More int
	// Interval is that of the ratio to the first place, with 95 % shared over all pairs;
	// of a sweet spot that of its share of the most, whose ends hold with 95 % each.
	Interval ratio.Ratio
	Point    *Point
}

// A Left is a side that a claim has no place for.
type Left struct {
	Side   string // "" in a claim about one series
	Why    string // in words
	Hole   bool   // the reason is a hole: a run without it may decide otherwise
	Points []*Point
	// Best is the point of a side with a hole that has the best figure of those known; nil if
	// none has one.
	Best *Point
}

// Cells returns the ids of the cells that are the reason.
func (l Left) Cells() []string {
	var ids []string
	for _, p := range l.Points {
		ids = append(ids, p.Cell.ID)
	}
	return ids
}

// Undecided returns the trials of the cells that leave claims of the set not decided.
func (s *Set) Undecided() []Trial {
	var trials []Trial
	for _, c := range s.Claims {
		for _, l := range c.Left {
			if !l.Hole {
				continue
			}
			for _, p := range l.Points {
				trials = append(trials, p.Trials...)
			}
		}
	}
	return trials
}

// loadClaims returns the sweet spot of a series, which they mark, or if that is not
// decided, the best load if that is.
func (l *Series) loadClaims() []Claim {
	if len(l.Points) < 2 || !l.begun() { // there is nothing to choose, or nothing yet
		return nil
	}
	m := l.rate()
	c := Claim{Question: AskSweetSpot, About: l.Name, Measure: m}
	chosen := l.sweetSpot(m)
	for _, p := range chosen.tied {
		c.Loads = append(c.Loads, Load(p.Cell))
	}
	c.At = amounts(chosen.tied)
	if chosen.most != nil {
		c.Most, _ = chosen.most.Figure(m)
	}
	switch spot := chosen.spot; {
	case len(chosen.holes) > 0:
		c.Answer, c.Left = NotDecided, []Left{{Why: say(chosen.holes), Hole: true, Points: chosen.holes, Best: known(l.Points, m)}}
		most, _ := peak(l.Points, m, (*Point).passes)
		if all := choose(l.Points, m, (*Point).passes); most != nil && slices.Equal(all.tied, []*Point{most}) {
			return []Claim{c, {Question: AskBest, About: l.Name, Measure: m, Answer: Decided, Places: []Place{most.place("", m)}}}
		}
	case spot != nil:
		spot.Verdict = SweetSpot
		place := spot.place("", m)
		place.Interval = chosen.interval
		c.Answer, c.Places = Decided, []Place{place}
		if spot == l.Points[len(l.Points)-1] {
			return []Claim{c, {Question: AskMoreLoad, About: l.Name, Answer: Decided, Places: c.Places}}
		}
	case chosen.most == nil:
		c.Answer = None
	default:
		c.Answer, c.Trials = Tied, chosen.trials
	}
	return []Claim{c}
}

// place returns a point in a claim.
func (p *Point) place(side string, m Measure) Place {
	out := Place{Side: side, Cell: p.Cell.ID, Verdict: p.Verdict, Point: p}
	out.Value, _ = p.Figure(m)
	for _, t := range p.Counting() {
		out.Rows = append(out.Rows, t.Key)
	}
	return out
}

// answer ranks the places and decides the answer by them and by the sides that
// are left.
func (c *Claim) answer() {
	apart, trials := rank(c.Places, c.Measure)
	switch {
	case slices.ContainsFunc(c.Left, func(l Left) bool { return l.Hole }):
		c.Answer = NotDecided
	case len(c.Places) < 2:
		c.Answer = NotComparable
	case c.Measure.Name != "" && !apart:
		c.Answer, c.Trials = Tied, trials
	default:
		c.Answer = Decided
	}
}

// shared returns the loads that all sides were given, in order. A side may have
// others, which its plan excludes for the rest: it cannot be best there.
func shared(sides []*Series) []float64 {
	var loads []float64
	for i, d := range sides {
		if i == 0 {
			for _, p := range d.Points {
				loads = append(loads, Load(p.Cell))
			}
		}
		loads = slices.DeleteFunc(loads, func(v float64) bool { return len(d.at([]float64{v})) == 0 })
	}
	return loads
}

// bests compares the sides by a measure, each at its best of the loads that all
// of them were given.
func (sh *Shape) bests(q Question, m Measure) Claim {
	c := Claim{Question: q, About: sh.Name, Measure: m}
	var rest []*Series
	for _, d := range sh.sides {
		if !d.priced() && slices.ContainsFunc(d.Points, (*Point).passes) {
			c.Left = append(c.Left, Left{Side: d.Name, Why: "no price"})
			continue
		}
		rest = append(rest, d)
	}
	c.Loads = shared(rest)
	if len(c.Loads) == 0 {
		for _, d := range rest {
			c.Left = append(c.Left, Left{Side: d.Name, Why: "tried at " + amounts(d.Points)})
		}
		c.Answer = NotComparable
		return c
	}
	c.At = amounts(rest[0].at(c.Loads))
	for _, d := range rest {
		best, holes := peak(d.at(c.Loads), m, (*Point).passes)
		switch {
		case best != nil:
			c.Places = append(c.Places, best.place(d.Name, m))
		case len(holes) > 0:
			c.Left = append(c.Left, Left{Side: d.Name, Why: say(holes), Hole: true, Points: holes, Best: known(d.at(c.Loads), m)})
		default:
			c.Left = append(c.Left, Left{Side: d.Name, Why: "no cell meets every objective"})
		}
	}
	if q == AskCost { // the servers that are compared may differ in how they speculate
		c.drop(finding.ContentUnrepresentative.String(), (*Point).unrepresentative)
	}
	c.unmix()
	c.answer()
	return c
}

// drop takes sides out of a comparison.
func (c *Claim) drop(why string, of func(*Point) bool) {
	c.Places = slices.DeleteFunc(c.Places, func(p Place) bool {
		if !of(p.Point) {
			return false
		}
		c.Left = append(c.Left, Left{Side: p.Side, Why: why})
		return true
	})
}

// unmix takes the simulated sides out of a comparison with measured ones: the
// two have nothing in common.
func (c *Claim) unmix() {
	if slices.ContainsFunc(c.Places, func(p Place) bool { return !p.Point.Simulated() }) {
		c.drop("simulated", (*Point).Simulated)
	}
}

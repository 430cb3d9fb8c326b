package report

import (
	"cmp"
	"slices"

	"sweep.dev/sweep/result"
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
	Decided       Answer = "decided"        // by Places, the best first
	None          Answer = "none"           // no cell is acceptable
	NotDecided    Answer = "not decided"    // holes stand in the way; Places, if any, are ranked among themselves
	NotComparable Answer = "not comparable" // there are not two sides to compare
)

// A Claim is one conclusion about a run, as data. Summary says nothing of what
// cells are worth, and of which is better, that is not in a claim.
type Claim struct {
	Question Question
	About    string    // what the cells share, in the words of their labels; of a verdict, the cell's label
	Measure  string    // the column, or two with a slash, that sides are compared by; "" without one
	Loads    []float64 // those among which each side has its best, or the one at which sides are compared
	Answer   Answer
	Places   []Place
	Left     []Left // sides without a place
	Holes    []Left // the cells that stand in the way

	measure measure
	at      string // Loads in words
}

// A Place is one cell in a claim, with the numbers that the claim rests on.
type Place struct {
	Side    string // the engine, the GPU or the server; "" in a claim about one cell
	Cell    string // its id
	Rows    []rundir.Key
	Verdict Verdict
	Value   float64 // of the measure: the mean over Rows
	Ratio   float64 // how many times worse than the first place, 1 for the first; 0 where there is no ratio
	point   *Point
}

// A Left is a side or a cell that a claim has no place for.
type Left struct {
	Side string   // the side; of a cell, its label
	Why  string   // in words
	Hole bool     // a hole is why: a run without it may decide otherwise
	Cell []string // the ids of the cells that are
	at   []*Point
}

// Claims are all conclusions about the run. Those of the cells' verdicts stand
// first, in the plan's order.
func (r *Run) Claims() []Claim {
	return newSummary(r).claims
}

// conclude makes all claims, and marks the sweet spots.
func (s *summary) conclude() {
	var claims []Claim
	for _, l := range allSeries(s.points) {
		claims = append(claims, l.claims()...)
	}
	for _, c := range claims {
		if c.Question == AskSweetSpot && c.Answer == Decided {
			c.Places[0].point.Verdict = SweetSpot
		}
	}
	for i, c := range s.contests() {
		claims = append(claims, s.engineClaims(c, i == 0)...)
	}
	for _, sh := range s.shapes() {
		claims = append(claims, sh.claims()...)
	}
	claims = append(claims, s.costClaims()...)
	for _, p := range s.points {
		s.claims = append(s.claims, Claim{
			Question: AskVerdict, About: p.Cell.Label, Answer: Decided, Places: []Place{p.place("", measure{})},
		})
	}
	s.claims = append(s.claims, claims...)
}

// answers are the claims that answer some question.
func (s *summary) answers(questions ...Question) []Claim {
	var some []Claim
	for _, c := range s.claims {
		if slices.Contains(questions, c.Question) {
			some = append(some, c)
		}
	}
	return some
}

// claims are the sweet spot of a series, or where that is not decided, the most
// that is.
func (l *series) claims() []Claim {
	if len(l.points) < 2 || !l.begun() { // there is nothing to choose, or nothing yet
		return nil
	}
	m := l.rate()
	c := Claim{Question: AskSweetSpot, About: l.name, Measure: m.id(), measure: m}
	spot, holes := l.sweetSpot(m)
	switch {
	case spot != nil:
		c.Answer, c.Places = Decided, []Place{spot.place("", m)}
		claims := []Claim{c}
		if spot == l.points[len(l.points)-1] {
			claims = append(claims, Claim{Question: AskMoreLoad, About: l.name, Answer: Decided, Places: c.Places})
		}
		return claims
	case len(holes) == 0:
		c.Answer = None
		return []Claim{c}
	}
	c.Answer, c.Holes = NotDecided, holesOf(holes)
	if most, _ := peak(l.points, m, (*Point).passes); most != nil {
		return []Claim{c, {Question: AskBest, About: l.name, Measure: m.id(), measure: m, Answer: Decided, Places: []Place{most.place("", m)}}}
	}
	return []Claim{c}
}

func holesOf(points []*Point) []Left {
	var holes []Left
	for _, p := range points {
		holes = append(holes, Left{Side: p.Cell.Label, Why: p.why(), Hole: true, Cell: []string{p.Cell.ID}, at: []*Point{p}})
	}
	return holes
}

// place is a point in a claim. Its rows are those that count.
func (p *Point) place(side string, m measure) Place {
	out := Place{Side: side, Cell: p.Cell.ID, Verdict: p.Verdict, point: p}
	out.Value, _ = p.figure(m)
	for _, t := range p.Trials {
		if t.Outcome != nil && (p.Valid == 0 || t.Outcome.Row["status"] == result.StatusOK) {
			out.Rows = append(out.Rows, t.Key)
		}
	}
	return out
}

// rank puts places in order, the best first, and says how much worse the others
// are.
func rank(places []Place, m measure) {
	slices.SortStableFunc(places, func(a, b Place) int {
		switch {
		case m.better(a.Value, b.Value):
			return -1
		case m.better(b.Value, a.Value):
			return 1
		}
		return 0
	})
	for i := range places {
		places[i].Ratio = m.worse(places[i].Value, places[0].Value)
	}
}

// answer is what a comparison of sides comes to: of those that have a place and
// those that have not.
func (c *Claim) answer() {
	rank(c.Places, c.measure)
	switch {
	case slices.ContainsFunc(c.Left, func(l Left) bool { return l.Hole }):
		c.Answer = NotDecided
	case len(c.Places) < 2:
		c.Answer = NotComparable
	default:
		c.Answer = Decided
	}
}

// A side is one engine, GPU or server in a comparison: its points, in the order
// of their load.
type side struct {
	name string
	series
}

// priced says whether any row of the side has a price.
func (d side) priced() bool {
	return slices.ContainsFunc(d.points, func(p *Point) bool {
		return slices.ContainsFunc(p.rows(), func(row result.Row) bool { return number(row, "usd_per_hour") > 0 })
	})
}

// rows are all rows of a point, also of trials that do not count.
func (p *Point) rows() []result.Row {
	var rows []result.Row
	for _, t := range p.Trials {
		rows = append(rows, RowsOf(t)...)
	}
	return rows
}

// shared are the loads that all sides were given, in order. A side may have
// others, that its plan excludes for the rest: it cannot be best there.
func shared(sides []side) []float64 {
	var loads []float64
	for i, d := range sides {
		var own []float64
		for _, p := range d.points {
			own = append(own, load(p.Cell))
		}
		if i == 0 {
			loads = own
			continue
		}
		loads = slices.DeleteFunc(loads, func(v float64) bool { return !slices.Contains(own, v) })
	}
	return loads
}

// simulated says whether a point's numbers are the simulator's.
func (p *Point) simulated() bool {
	return slices.ContainsFunc(p.counting(), func(row result.Row) bool { return row["simulated"] == true })
}

// compareBests compares sides by a measure, each at its best of the loads that
// all of them were given.
func compareBests(q Question, about string, sides []side, m measure) Claim {
	c := Claim{Question: q, About: about, Measure: m.id(), measure: m}
	var rest []side
	for _, d := range sides {
		if !d.priced() && slices.ContainsFunc(d.points, (*Point).passes) {
			c.Left = append(c.Left, Left{Side: d.name, Why: "no price"})
			continue
		}
		rest = append(rest, d)
	}
	c.Loads = shared(rest)
	if len(c.Loads) == 0 {
		for _, d := range rest {
			c.Left = append(c.Left, Left{Side: d.name, Why: cmp.Or("tried at "+amounts(d.points), "tried")})
		}
		c.Answer = NotComparable
		return c
	}
	for i, d := range rest {
		points := d.at(c.Loads)
		if i == 0 {
			c.at = amounts(points)
		}
		best, holes := peak(points, m, (*Point).passes)
		switch {
		case best != nil:
			c.Places = append(c.Places, best.place(d.name, m))
		case len(holes) > 0:
			left := Left{Side: d.name, Hole: true, at: holes}
			for _, h := range holes {
				left.Cell = append(left.Cell, h.Cell.ID)
			}
			left.Why = say(holes)
			c.Left = append(c.Left, left)
		default:
			c.Left = append(c.Left, Left{Side: d.name, Why: "no cell meets every objective"})
		}
	}
	c.unmix()
	c.answer()
	return c
}

// unmix takes the simulated sides out of a comparison with measured ones: the
// two have nothing in common.
func (c *Claim) unmix() {
	simulated := func(p Place) bool { return p.point.simulated() }
	if !slices.ContainsFunc(c.Places, simulated) {
		return
	}
	if !slices.ContainsFunc(c.Places, func(p Place) bool { return !simulated(p) }) {
		return
	}
	c.Places = slices.DeleteFunc(c.Places, func(p Place) bool {
		if simulated(p) {
			c.Left = append(c.Left, Left{Side: p.Side, Why: "simulated"})
		}
		return simulated(p)
	})
}

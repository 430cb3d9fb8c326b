package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"sweep.dev/sweep/result"
)

// A statement is one answer of a summary.
type statement struct {
	question string
	about    string
	figure   string // by its columns; "" without one
	loads    []float64

	answer string
	places []place
	open   []string // sides, or the loads of cells, that holes keep out
	left   []string // sides that are out for other reasons
	holes  []*cell  // what open is about
}

type place struct {
	side  string
	cell  string // its id
	label string
	load  float64
	value float64
	ratio float64
	lacks bool // trials: it is far from the first, and not told from it
	more  int  // of a place that is read: so many more are not said
}

// The questions and the answers.
const (
	qVerdict, qSweet, qMost, qMore       = "verdict", "sweet", "most", "more"
	qEngine, qGPU, qGPUBest, qCost       = "engine", "gpu", "gpubest", "cost"
	aDecided, aNone, aOpen, aIncomparble = "decided", "none", "open", "incomparable"
	aTied                                = "tied"
)

func (s statement) key() string {
	key := s.question + " | " + s.about + " | " + s.figure
	if s.question == qGPU {
		key += fmt.Sprint(" | ", s.loads)
	}
	return key
}

// statements returns all answers, by their questions.
func (e *experiment) statements() map[string]statement {
	all := map[string]statement{}
	add := func(some ...statement) {
		for _, s := range some {
			all[s.key()] = s
		}
	}
	sweet := map[*cell]bool{}
	for _, cells := range e.group(func(a axis) bool { return !isAmount(a.name) }) {
		for _, s := range e.loads(cells) {
			add(s)
			if s.question == qSweet && s.answer == aDecided {
				sweet[find(cells, s.places[0].load)] = true
			}
		}
	}
	for _, c := range e.cells {
		v := c.verdict()
		if sweet[c] {
			v = sweetSpot
		}
		add(statement{question: qVerdict, about: c.label(), answer: v})
	}
	add(e.engines()...)
	add(e.gpus()...)
	add(e.servers()...)
	return all
}

// group returns the cells that share their values of some axes, by increasing load.
func (e *experiment) group(by func(axis) bool) [][]*cell {
	groups, names := split(e.cells, func(c *cell) string { return c.text(by) })
	var all [][]*cell
	for _, name := range names {
		slices.SortStableFunc(groups[name], func(a, b *cell) int { return cmp.Compare(a.load(), b.load()) })
		all = append(all, groups[name])
	}
	return all
}

func find(cells []*cell, load float64) *cell {
	for _, c := range cells {
		if c.load() == load {
			return c
		}
	}
	return nil
}

// next returns the cell of the next higher load; nil above the highest.
func next(cells []*cell, c *cell) *cell {
	var least *cell
	for _, o := range cells {
		if o.load() > c.load() && (least == nil || o.load() < least.load()) {
			least = o
		}
	}
	return least
}

// top returns the cell that no other beats, of several the one of the least load.
func top(cells []*cell, f figure, may func(*cell) bool) *cell {
	for _, c := range cells {
		if !may(c) || !known(c.mean(f)) {
			continue
		}
		beaten := slices.ContainsFunc(cells, func(o *cell) bool { return may(o) && known(o.mean(f)) && f.beats(o.mean(f), c.mean(f)) })
		if !beaten {
			return c
		}
	}
	return nil
}

// open reports whether a cell could still be chosen, or be a better choice.
func open(c *cell, f figure, may func(*cell) bool) bool {
	return c != nil && (c.hole() || may(c) && !known(c.mean(f)))
}

// loads answers which load of a series is the sweet spot.
func (e *experiment) loads(cells []*cell) []statement {
	if len(cells) < 2 || !slices.ContainsFunc(cells, func(c *cell) bool { return c.verdict() != pending }) {
		return nil
	}
	f := requests
	if slices.ContainsFunc(cells, func(c *cell) bool { return c.pass() && c.mean(tokens) > 0 }) {
		f = tokens
	}
	about := cells[0].text(func(a axis) bool { return !isAmount(a.name) })
	s := statement{question: qSweet, about: about, figure: f.id()}
	spot, maybe := sweetest(cells, f, (*cell).accepted)
	for _, c := range maybe {
		s.loads = append(s.loads, c.load())
	}

	stands := map[float64]bool{} // in the way
	if len(maybe) == 0 {
		for _, c := range cells {
			stands[c.load()] = open(c, f, (*cell).accepted)
		}
	} else {
		from := spot
		if from == nil {
			from = maybe[0]
		}
		for _, c := range cells {
			near := c.load() < from.load() || c == next(cells, from)
			for _, m := range maybe {
				near = near || c == next(cells, m)
			}
			stands[c.load()] = near && open(c, f, (*cell).accepted)
		}
		if beyond := next(cells, top(cells, f, (*cell).pass)); open(beyond, f, (*cell).pass) {
			stands[beyond.load()] = true
		}
	}
	for _, c := range cells {
		if stands[c.load()] {
			s.open = append(s.open, fmt.Sprint(c.load()))
			s.holes = append(s.holes, c)
		}
	}
	switch {
	case len(s.open) > 0:
		s.answer = aOpen
		best := top(cells, f, (*cell).pass)
		if best == nil || open(next(cells, best), f, (*cell).pass) {
			return []statement{s}
		}
		if _, maybe := sweetest(cells, f, (*cell).pass); len(maybe) != 1 || maybe[0] != best {
			return []statement{s}
		}
		return []statement{s, {question: qMost, about: about, figure: f.id(), answer: aDecided, places: []place{best.place("", f)}}}
	case len(maybe) == 0:
		s.answer = aNone
		return []statement{s}
	case spot == nil:
		s.answer = aTied
		return []statement{s}
	}
	s.answer, s.places = aDecided, []place{spot.place("", f)}
	if next(cells, spot) == nil {
		return []statement{s, {question: qMore, about: about, answer: aDecided, places: []place{spot.place("", f)}}}
	}
	return []statement{s}
}

func (c *cell) place(side string, f figure) place {
	return place{side: side, cell: c.id, label: c.label(), load: c.load(), value: c.mean(f)}
}

// ranked puts places in order and says how far each is behind, as far as that can be told.
func (s *statement) ranked(f figure, sides map[string]*cell) {
	slices.SortStableFunc(s.places, func(a, b place) int {
		switch {
		case f.beats(a.value, b.value):
			return -1
		case f.beats(b.value, a.value):
			return 1
		}
		return 0
	})
	apart := false
	for i := range s.places {
		p := &s.places[i]
		if i > 0 && f.column != "" {
			p.ratio = f.behind(sides[p.side], sides[s.places[0].side], len(s.places))
			p.lacks = p.ratio == 0 && f.lacks(sides[p.side], sides[s.places[0].side])
			apart = apart || p.ratio > 0
		}
	}
	if apart {
		s.places[0].ratio = 1
	}
	switch {
	case len(s.open) > 0:
		s.answer = aOpen
	case len(s.places) < 2:
		s.answer = aIncomparble
	case f.column != "" && !apart:
		s.answer = aTied
	default:
		s.answer = aDecided
	}
}

// simulated reports whether any number of the cell that counts is simulated.
func (c *cell) simulated() bool {
	rows := c.valid()
	return slices.ContainsFunc(rows, func(row result.Row) bool { return row["simulated"] == true })
}

// real takes simulated cells out if there are measured ones, by their sides.
func (s *statement) real(sides map[string]*cell) {
	measured := slices.ContainsFunc(s.places, func(p place) bool { return !sides[p.side].simulated() })
	if !measured {
		return
	}
	s.places = slices.DeleteFunc(s.places, func(p place) bool {
		if sides[p.side].simulated() {
			s.left = append(s.left, p.side)
			return true
		}
		return false
	})
}

// telling takes out the cells whose content cannot answer the question.
func (s *statement) telling(sides map[string]*cell) {
	s.places = slices.DeleteFunc(s.places, func(p place) bool {
		for _, row := range sides[p.side].valid() {
			if row["findings"] == "content_unrepresentative" {
				s.left = append(s.left, p.side)
				return true
			}
		}
		return false
	})
}

// belongs reports whether a server axis is the engine's own: one value for each
// engine, and not one for all.
func (e *experiment) belongs(name string) bool {
	values, pairs, engines := map[any]bool{}, map[[2]any]bool{}, map[any]bool{}
	for _, c := range e.cells {
		values[c.value(name)] = true
		engines[c.value("engine")] = true
		pairs[[2]any{c.value("engine"), c.value(name)}] = true
	}
	return len(values) > 1 && len(pairs) == len(engines)
}

// engines compares engines at equal load.
func (e *experiment) engines() []statement {
	var all []statement
	same := func(a axis) bool { return a.name != "engine" && !(a.server && e.belongs(a.name)) }
	for _, cells := range e.group(same) {
		numbers := 0
		for _, c := range cells {
			if len(c.valid()) > 0 || c.has(invalid) {
				numbers++
			}
		}
		if numbers < 2 {
			continue
		}
		about := cells[0].text(same)
		who := statement{question: qEngine, about: about}
		sides := map[string]*cell{}
		for _, c := range cells {
			side := fmt.Sprint(c.value("engine"))
			sides[side] = c
			switch {
			case len(c.valid()) > 0:
				who.places = append(who.places, place{side: side, cell: c.id, label: c.label(), load: c.load()})
			case c.hole():
				who.open, who.holes = append(who.open, side), append(who.holes, c)
			default:
				who.left = append(who.left, side)
			}
		}
		who.telling(sides)
		who.real(sides)
		who.ranked(figure{}, nil)
		all = append(all, who)
		for _, f := range table {
			s := statement{question: qEngine, about: about, figure: f.id()}
			for _, p := range who.places {
				if c := sides[p.side]; known(c.mean(f)) {
					s.places = append(s.places, c.place(p.side, f))
				}
			}
			// Who has no such number is not in the ranking, simulated or not.
			if s.ranked(f, sides); len(s.places) > 1 {
				all = append(all, s)
			}
		}
	}
	return all
}

// gpus compares GPUs that at least two prices are known of.
func (e *experiment) gpus() []statement {
	var all []statement
	same := func(a axis) bool { return a.name != "gpu" && !isAmount(a.name) }
	for _, cells := range e.group(same) {
		about := cells[0].text(same)
		sides, names := split(cells, func(c *cell) string { return fmt.Sprint(c.value("gpu")) })
		if prices(sides) < 2 {
			continue
		}
		var loads []float64
		for _, c := range cells {
			if !slices.Contains(loads, c.load()) {
				loads = append(loads, c.load())
			}
		}
		for _, load := range loads {
			all = append(all, atLoad(about, load, sides, names)...)
		}
		all = append(all, atBest(qGPUBest, about, sides, names, carries))
	}
	return all
}

func split(cells []*cell, by func(*cell) string) (sides map[string][]*cell, names []string) {
	sides = map[string][]*cell{}
	for _, c := range cells {
		if sides[by(c)] == nil {
			names = append(names, by(c))
		}
		sides[by(c)] = append(sides[by(c)], c)
	}
	// In the plan's order, which decides between equal sides.
	first := func(name string) string {
		return slices.MinFunc(sides[name], func(a, b *cell) int { return cmp.Compare(a.id, b.id) }).id
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(first(a), first(b)) })
	return sides, names
}

// priced reports whether any row knows the price of a side.
func priced(cells []*cell) bool {
	for _, c := range cells {
		for _, row := range c.trials {
			if usd, ok := row.Number("usd_per_hour"); ok && usd > 0 {
				return true
			}
		}
	}
	return false
}

func prices(sides map[string][]*cell) (n int) {
	for _, cells := range sides {
		if priced(cells) {
			n++
		}
	}
	return n
}

// atLoad compares sides at one load, by those that pass there.
func atLoad(about string, load float64, sides map[string][]*cell, names []string) []statement {
	base := statement{question: qGPU, about: about, loads: []float64{load}}
	at := map[string]*cell{}
	for _, name := range names {
		c := find(sides[name], load)
		switch {
		case c == nil:
			base.left = append(base.left, name)
			continue
		case c.pass():
			base.places = append(base.places, place{side: name, cell: c.id, label: c.label(), load: load})
		case c.hole():
			base.open, base.holes = append(base.open, name), append(base.holes, c)
		default:
			base.left = append(base.left, name)
		}
		at[name] = c
	}
	if len(at) < 2 || len(base.places) == 0 { // nothing to compare, or nothing known
		return nil
	}
	if len(base.places) < 2 {
		base.ranked(figure{}, nil)
		return []statement{base}
	}
	var all []statement
	for _, f := range []figure{waits, feels} {
		s := base
		s.figure, s.places, s.left = f.id(), nil, slices.Clone(base.left)
		for _, p := range base.places {
			if c := at[p.side]; known(c.mean(f)) {
				s.places = append(s.places, c.place(p.side, f))
			} else {
				s.left = append(s.left, p.side)
			}
		}
		s.real(at)
		s.ranked(f, at)
		all = append(all, s)
	}
	return all
}

// atBest compares sides, each at its best of the loads that all of them have.
func atBest(q, about string, sides map[string][]*cell, names []string, f figure) statement {
	s := statement{question: q, about: about, figure: f.id()}
	var rest []string
	for _, name := range names {
		if !priced(sides[name]) && slices.ContainsFunc(sides[name], (*cell).pass) {
			s.left = append(s.left, name)
		} else {
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		for _, c := range sides[rest[0]] {
			all := !slices.ContainsFunc(rest, func(name string) bool { return find(sides[name], c.load()) == nil })
			if all {
				s.loads = append(s.loads, c.load())
			}
		}
	}
	if len(s.loads) == 0 {
		s.left = append(s.left, rest...)
		s.answer = aIncomparble
		return s
	}
	bests := map[string]*cell{}
	for _, name := range rest {
		var cells []*cell
		for _, load := range s.loads {
			cells = append(cells, find(sides[name], load))
		}
		best := top(cells, f, (*cell).pass)
		if best != nil {
			cells = []*cell{next(cells, best)}
		}
		var holes []*cell
		for _, c := range cells {
			if open(c, f, (*cell).pass) {
				holes = append(holes, c)
			}
		}
		switch {
		case len(holes) > 0:
			s.open, s.holes = append(s.open, name), append(s.holes, holes...)
		case best == nil:
			s.left = append(s.left, name)
		default:
			bests[name] = best
			s.places = append(s.places, best.place(name, f))
		}
	}
	if q == qCost {
		s.telling(bests)
	}
	s.real(bests)
	s.ranked(f, bests)
	return s
}

// servers compares what a token costs of each server.
func (e *experiment) servers() []statement {
	var all []statement
	same := func(a axis) bool { return !a.server && !isAmount(a.name) }
	for _, cells := range e.group(same) {
		sides, names := split(cells, func(c *cell) string { return c.text(func(a axis) bool { return a.server }) })
		if prices(sides) > 1 {
			all = append(all, atBest(qCost, cells[0].text(same), sides, names, costs))
		}
	}
	return all
}

package oracle

// The oracle. It answers every question of a summary once more, from the rows of
// the cells table and from what was planned.
//
// Whoever changes a rule of package report changes the oracle in the same
// commit, and whoever changes the oracle alone has found a defect of the report.
// It must not import package report, nor anything that report is made of but the
// rows: it is worth what it does not share.
//
// The rules are those of a summary's section "How cells are judged":
//
//   - Only valid trials count. A cell is what the worst of them is.
//   - A cell with an INVALID, failed, pending or undecided trial is a hole, unless
//     it has missed an objective already. A cell that was skipped, or whose server
//     did not start in a plan that records that, is an outcome.
//   - Best and sweet spot need cells of which every trial passes.
//   - A hole below the sweet spot, next above it, or next above the most tokens a
//     second leaves the sweet spot not decided. A hole next above the best cell
//     of a side leaves that best not decided.
//   - Sides are compared at equal load, or each at its best of the loads that all
//     of them were given; simulated and measured ones are not compared.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
)

// An experiment is what was planned and what came of it.
type experiment struct {
	axes       []axis
	cells      []*cell
	repeats    int
	record     bool            // servers that do not start are results
	objectives map[string]bool // by name, whether a miss fails
	order      []string        // their names
}

type axis struct {
	name   string
	server bool
}

// A cell is a planned cell with the rows of its trials, nil for one without an
// outcome.
type cell struct {
	id     string
	values []any // of the axes
	trials []result.Row

	e *experiment
}

func isAmount(name string) bool { return name == "concurrency" || name == "request_rate" }

// text is the values of some axes, as people read them.
func (c *cell) text(want func(axis) bool) string {
	var parts []string
	for i, a := range c.e.axes {
		if !want(a) {
			continue
		}
		switch a.name {
		case "engine", "gpu", "model":
			parts = append(parts, fmt.Sprint(c.values[i]))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", a.name, c.values[i]))
		}
	}
	return strings.Join(parts, " ")
}

func (c *cell) label() string { return c.text(func(axis) bool { return true }) }

func (c *cell) value(name string) any {
	for i, a := range c.e.axes {
		if a.name == name {
			return c.values[i]
		}
	}
	return nil
}

func (c *cell) load() float64 {
	for i, a := range c.e.axes {
		if isAmount(a.name) {
			return c.values[i].(float64)
		}
	}
	return 0
}

// Of trials.
const (
	acceptable = "acceptable"
	unstable   = "unstable"
	undecided  = "undecided"
	missed     = "SLO failed"
	invalid    = "INVALID"
	noStart    = "did not start"
	failed     = "failed"
	skipped    = "skipped"
	pending    = "pending"

	sweetSpot = "sweet spot" // of cells
)

// kind is what a row is worth.
func (e *experiment) kind(row result.Row) string {
	if row == nil {
		return pending
	}
	switch row["status"] {
	case "invalid":
		return invalid
	case "skipped":
		return skipped
	case "failed":
		if row["start_up_s"] == nil {
			return noStart
		}
		return failed
	}
	open := false
	for name, fails := range e.objectives {
		switch met := row["slo_"+name]; {
		case !fails:
		case met == nil:
			open = true
		case met == false:
			return missed
		}
	}
	if open {
		return undecided
	}
	for _, x := range []string{"ttft", "tpot"} {
		half, ok := row["p50_"+x+"_ms"].(float64)
		most, ok2 := row["p95_"+x+"_ms"].(float64)
		if ok && ok2 && most > 8 && most > 2*half {
			return unstable
		}
	}
	return acceptable
}

func (c *cell) kinds() []string {
	var all []string
	for _, row := range c.trials {
		all = append(all, c.e.kind(row))
	}
	return all
}

func (c *cell) has(kinds ...string) bool {
	return slices.ContainsFunc(c.kinds(), func(k string) bool { return slices.Contains(kinds, k) })
}

// valid are the rows that count.
func (c *cell) valid() []result.Row {
	return slices.DeleteFunc(slices.Clone(c.trials), func(row result.Row) bool { return row == nil || row["status"] != "ok" })
}

// verdict is what the cell is worth.
func (c *cell) verdict() string {
	for _, k := range []string{missed, undecided, unstable} {
		if c.has(k) {
			return k
		}
	}
	if !c.has(acceptable) {
		for _, k := range []string{invalid, noStart, failed, skipped} {
			if c.has(k) {
				return k
			}
		}
		return pending
	}
	var v []float64
	for _, row := range c.valid() {
		if f, ok := row["throughput_tok_s"].(float64); ok {
			v = append(v, f)
		}
	}
	if len(v) > 1 && deviation(v) > 0.1*average(v) {
		return unstable
	}
	return acceptable
}

func average(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func deviation(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Pow(x-average(v), 2)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}

// hole says whether the cell may yet turn out to be anything.
func (c *cell) hole() bool {
	if c.has(missed) {
		return false
	}
	return c.has(invalid, failed, pending, undecided) || c.has(noStart) && !c.e.record
}

// pass says whether every trial meets every objective.
func (c *cell) pass() bool {
	return !slices.ContainsFunc(c.kinds(), func(k string) bool { return k != acceptable && k != unstable })
}

// accepted is pass, for a cell that is also not unstable.
func (c *cell) accepted() bool { return c.pass() && c.verdict() == acceptable }

// A figure is something that a row has or has not.
type figure struct {
	name, column, per string
	times             float64
	least             bool
}

// id names a figure by its columns.
func (f figure) id() string {
	if f.per != "" {
		return f.column + "/" + f.per
	}
	return f.column
}

func (f figure) of(row result.Row) (float64, bool) {
	v, ok := float(row[f.column])
	if ok && f.per != "" {
		by, has := float(row[f.per])
		return v / by * f.times, has && by > 0
	}
	return v, ok
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	}
	return 0, false
}

// mean is that of the figure over the valid rows that have it; NaN without any.
func (c *cell) mean(f figure) float64 {
	var v []float64
	for _, row := range c.valid() {
		if x, ok := f.of(row); ok {
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return math.NaN()
	}
	return average(v)
}

func known(v float64) bool { return !math.IsNaN(v) }

// beats says whether a is strictly better than b.
func (f figure) beats(a, b float64) bool { return a != b && (a < b) == f.least }

// loss is how many times worse than the best a value is.
func (f figure) loss(v, best float64) float64 {
	if f.least {
		return v / best
	}
	return best / v
}

var (
	tokens   = figure{name: "output tokens/s", column: "throughput_tok_s"}
	requests = figure{name: "requests/s", column: "request_throughput"}

	waits   = figure{name: "p95 TTFT, ms", column: "p95_ttft_ms", least: true}
	feels   = figure{name: "tok/s a user per $/h", column: "p50_user_tok_s", per: "usd_per_hour", times: 1}
	carries = figure{name: "Mtok/$", column: "total_throughput_tok_s", per: "usd_per_hour", times: 3600e-6}
	costs   = figure{name: "$ per 1M output tokens", column: "usd_per_1m_output_tokens", least: true}

	// What engines are ranked by: those that are said, and those of the table.
	said  = []figure{tokens, {name: "TTFT, ms", column: "mean_ttft_ms", least: true}, {name: "TPOT, ms", column: "mean_tpot_ms", least: true}, {name: "E2E, ms", column: "mean_e2e_ms", least: true}}
	table = append(slices.Clone(said),
		figure{name: "start-up, s", column: "start_up_s", least: true},
		figure{name: "TTFT p95, ms", column: "p95_ttft_ms", least: true},
		figure{name: "TPOT p95, ms", column: "p95_tpot_ms", least: true})
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
	more  int // of a place that is read: so many more are not said
}

// The questions and the answers, by words of our own.
const (
	qVerdict, qSweet, qMost, qMore       = "verdict", "sweet", "most", "more"
	qEngine, qGPU, qGPUBest, qCost       = "engine", "gpu", "gpubest", "cost"
	aDecided, aNone, aOpen, aIncomparble = "decided", "none", "open", "incomparable"
)

func (s statement) key() string {
	key := s.question + " | " + s.about + " | " + s.figure
	if s.question == qGPU {
		key += fmt.Sprint(" | ", s.loads)
	}
	return key
}

// statements are all answers, by their questions.
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

// group are the cells that share their values of some axes, by increasing load.
func (e *experiment) group(by func(axis) bool) [][]*cell {
	var names []string
	groups := map[string][]*cell{}
	for _, c := range e.cells {
		name := c.text(by)
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], c)
	}
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

// next is the cell of the next higher load; nil above the highest.
func next(cells []*cell, c *cell) *cell {
	var least *cell
	for _, o := range cells {
		if o.load() > c.load() && (least == nil || o.load() < least.load()) {
			least = o
		}
	}
	return least
}

// top is the cell that no other beats, of several the one of the least load.
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

// open says whether a cell could still be chosen, or be a better choice.
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
	most := top(cells, f, (*cell).accepted)

	stands := map[float64]bool{} // in the way
	var spot *cell
	if most == nil {
		for _, c := range cells {
			stands[c.load()] = open(c, f, (*cell).accepted)
		}
	} else {
		for _, c := range slices.Backward(cells) {
			if c.accepted() && c.mean(f) >= 0.95*most.mean(f) {
				spot = c
			}
		}
		for _, c := range cells {
			near := c.load() < spot.load() || c == next(cells, spot) || c == next(cells, most)
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
		return []statement{s, {question: qMost, about: about, figure: f.id(), answer: aDecided, places: []place{best.place("", f)}}}
	case spot == nil:
		s.answer = aNone
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

// ranked puts places in order and says how far each is behind.
func (s *statement) ranked(f figure) {
	slices.SortStableFunc(s.places, func(a, b place) int {
		switch {
		case f.beats(a.value, b.value):
			return -1
		case f.beats(b.value, a.value):
			return 1
		}
		return 0
	})
	for i := range s.places {
		s.places[i].ratio = f.loss(s.places[i].value, s.places[0].value)
	}
	switch {
	case len(s.open) > 0:
		s.answer = aOpen
	case len(s.places) < 2:
		s.answer = aIncomparble
	default:
		s.answer = aDecided
	}
}

// simulated says whether any number of the cell that counts is simulated.
func (c *cell) simulated() bool {
	rows := c.valid()
	return slices.ContainsFunc(rows, func(row result.Row) bool { return row["simulated"] == true })
}

// real takes simulated cells out where there are measured ones, by their sides.
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

// belongs says whether a server axis is the engine's own: one value for each
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
	var contests [][]*cell
	same := func(a axis) bool { return a.name != "engine" && !(a.server && e.belongs(a.name)) }
	for _, cells := range e.group(same) {
		numbers := 0
		for _, c := range cells {
			if len(c.valid()) > 0 || c.has(invalid) {
				numbers++
			}
		}
		if numbers > 1 {
			contests = append(contests, cells)
		}
	}
	var all []statement
	for _, cells := range contests {
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
		who.real(sides)
		who.ranked(figure{})
		all = append(all, who)
		for _, f := range table {
			s := statement{question: qEngine, about: about, figure: f.id()}
			for _, p := range who.places {
				if c := sides[p.side]; known(c.mean(f)) {
					s.places = append(s.places, c.place(p.side, f))
				}
			}
			// Who has no such number is not in the ranking, simulated or not.
			if s.ranked(f); len(s.places) > 1 {
				s.answer = aDecided
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
	return sides, names
}

// priced says whether any row knows the price of a side.
func priced(cells []*cell) bool {
	for _, c := range cells {
		for _, row := range c.trials {
			if usd, ok := float(row["usd_per_hour"]); ok && usd > 0 {
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
		base.ranked(figure{})
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
		s.ranked(f)
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
	s.real(bests)
	s.ranked(f)
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

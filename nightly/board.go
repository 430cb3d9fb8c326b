// Package nightly is what the nights of a plan come to: the verdicts of package gate on
// the figures of package history, with what changed of the software from one night to
// the next, in text, as JSON and as a page.
package nightly

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/nightly/gate"
	"sweep.dev/sweep/nightly/history"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/metric"
)

// A Question is what is asked of a history.
type Question struct {
	// Run is the run whose cells are meant, until its night; "" is all nights there are.
	Run string
	// Plan is the plan whose cells are meant; "" is all. Not beside Run.
	Plan string
	// Metrics are those that are meant.
	Metrics []metric.Metric
	Rule    gate.Rule
	// Noise is what a noise file says of a metric of a cell, with so many trials a night;
	// nil if there is no file.
	Noise func(cell, column string, trials int) *gate.Noise
}

// A Board is every series that was asked for, over the same nights.
type Board struct {
	Nights []When
	Series []Series
}

// A When is one night: a run.
type When struct {
	Date time.Time
	Run  string
	Plan string
}

func (w When) String() string { return w.Date.Format(time.DateOnly) }

// A Series is one metric of one cell.
type Series struct {
	history.Key
	Label  string
	Metric metric.Metric
	// Values, Subjects and Verdicts are by the board's nights. A subject is nil on a night
	// without valid trials.
	Values   []float64
	Subjects []*history.Subject
	Verdicts []gate.Verdict
	// Again are the values of nights that were measured a second time; NaN for those that
	// were not.
	Again []float64
	// New says why the series begins though the cell has nights; "" if it does not.
	New string

	history *history.File
	runs    []string // by the board's nights
}

// Last returns the verdict of the last night.
func (s Series) Last() gate.Verdict { return s.Verdicts[len(s.Verdicts)-1] }

// Changed says in words what of the software changed with a night, since the last one
// before it that has valid trials; "" for nothing.
func (s Series) Changed(night int) string {
	if night >= len(s.Subjects) || s.Subjects[night] == nil {
		return ""
	}
	for i := night - 1; i >= 0; i-- {
		if before := s.Subjects[i]; before != nil {
			now := s.Subjects[night]
			return before.Changed(*now, s.history.Subject(s.runs[i], s.runs[night], now.Engine))
		}
	}
	return ""
}

// Ask makes the board of a question.
func Ask(all *history.File, q Question) (*Board, error) {
	f, seconds := withoutRepeats(all)
	nights, keys := relevant(f, q)
	if len(nights) == 0 {
		switch {
		case q.Run != "":
			return nil, fmt.Errorf("the history has no night of the run %s", q.Run)
		case q.Plan != "":
			return nil, fmt.Errorf("the history has no night of the plan %q", q.Plan)
		}
		return nil, fmt.Errorf("the history has no night")
	}
	b := &Board{Nights: nights}
	at, runs := map[string]int{}, make([]string, len(nights))
	for i, n := range nights {
		at[n.Run], runs[i] = i, n.Run
	}
	cells := map[history.Key][]*history.Night{}
	for i := range f.Nights {
		n := &f.Nights[i]
		if t, ok := at[n.Run]; ok {
			if cells[n.Key] == nil {
				cells[n.Key] = make([]*history.Night, len(nights))
			}
			cells[n.Key][t] = n
		}
	}
	var series []gate.Series
	for _, key := range keys {
		for _, m := range q.Metrics {
			s, g := one(key, m, cells[key], len(nights))
			s.history, s.runs = all, runs
			if !slices.ContainsFunc(cells[key], func(n *history.Night) bool { return n != nil && has(*n, m.Column) }) {
				continue // nobody measures that
			}
			g.Again = again(seconds, key, m, at, len(nights))
			g.Accepted = accepted(f.Accepts, at, key.Cell)
			if q.Noise != nil {
				g.Noise = q.Noise(key.Cell, m.Column, trials(cells[key]))
			}
			s.New = begun(f, key, cells[key])
			s.Again = g.Again
			b.Series = append(b.Series, s)
			series = append(series, g)
		}
	}
	for i, verdicts := range gate.Replay(series, q.Rule) {
		b.Series[i].Verdicts = verdicts
	}
	return b, nil
}

// withoutRepeats returns a history without the nights that were measured a second time, and those.
func withoutRepeats(f *history.File) (first *history.File, seconds []history.Night) {
	first = &history.File{Accepts: f.Accepts, Settings: f.Settings}
	for _, n := range f.Nights {
		if n.Again != "" {
			seconds = append(seconds, n)
		} else {
			first.Nights = append(first.Nights, n)
		}
	}
	return first, seconds
}

// again returns the values of second measurements, by night; NaN for none. The first one of a
// night counts: it is not measured until it passes.
func again(seconds []history.Night, key history.Key, m metric.Metric, at map[string]int, nights int) []float64 {
	values := make([]float64, nights)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, n := range seconds {
		if t, ok := at[n.Again]; ok && n.Key == key && math.IsNaN(values[t]) {
			values[t] = n.Value(m.Column)
		}
	}
	return values
}

// relevant returns the nights and the keys of what is asked for, both in order.
func relevant(f *history.File, q Question) (nights []When, keys []history.Key) {
	wanted := map[history.Key]bool{}
	last := -1
	want := func(k history.Key) {
		if !wanted[k] {
			wanted[k] = true
			keys = append(keys, k)
		}
	}
	for i, n := range f.Nights {
		if q.Run != "" && n.Run != q.Run || q.Plan != "" && n.Plan != q.Plan {
			continue
		}
		last = i
		// A cell that failed tonight has no machine and is a hole.
		if len(n.Figures) > 0 || q.Run == "" {
			want(n.Key)
		}
	}
	if last < 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	for _, n := range f.Nights {
		late := q.Run != "" && n.Date.After(f.Nights[last].Date)
		if (wanted[n.Key] || n.Run == q.Run) && !seen[n.Run] && !late {
			seen[n.Run] = true
			nights = append(nights, When{n.Date, n.Run, n.Plan})
		}
	}
	slices.SortStableFunc(nights, func(a, b When) int { return a.Date.Compare(b.Date) })
	if i := slices.IndexFunc(nights, func(w When) bool { return w.Run == q.Run }); i >= 0 {
		nights = nights[:i+1]
	}
	return nights, keys
}

// one returns a series with its values.
func one(key history.Key, m metric.Metric, nights []*history.Night, n int) (Series, gate.Series) {
	s := Series{Key: key, Metric: m, Values: make([]float64, n), Subjects: make([]*history.Subject, n)}
	for i, night := range nights {
		if night == nil {
			s.Values[i] = math.NaN()
			continue
		}
		s.Label = night.Label
		s.Values[i] = night.Value(m.Column)
		if len(night.Figures) > 0 {
			s.Subjects[i] = &night.Subject
		}
	}
	return s, gate.Series{Group: m.Column, Values: s.Values, Less: m.Less, Floor: m.Floor}
}

func has(n history.Night, column string) bool { _, ok := n.Figures[column]; return ok }

// accepted returns the nights of a cell whose level somebody has accepted.
func accepted(list []history.Accept, at map[string]int, cell string) []int {
	var nights []int
	for _, a := range list {
		if t, ok := at[a.Run]; ok && (a.Cell == "" || a.Cell == cell) {
			nights = append(nights, t)
		}
	}
	return nights
}

// trials returns how many valid ones the last night that has some has.
func trials(nights []*history.Night) int {
	for _, night := range slices.Backward(nights) {
		if night != nil && night.Valid > 0 {
			return night.Valid
		}
	}
	return 1
}

// begun says why a series has no night but the last, though its cell has earlier ones.
func begun(f *history.File, key history.Key, nights []*history.Night) string {
	n := len(nights)
	if n == 0 || nights[n-1] == nil || slices.ContainsFunc(nights[:n-1], func(n *history.Night) bool { return n != nil }) {
		return ""
	}
	before := slices.DeleteFunc(slices.Clone(f.Nights), func(o history.Night) bool {
		return o.Cell != key.Cell || o.Key == key || !o.Date.Before(nights[n-1].Date)
	})
	if len(before) == 0 {
		return ""
	}
	old := slices.MaxFunc(before, func(a, b history.Night) int { return a.Date.Compare(b.Date) })
	switch {
	case old.Method != key.Method:
		return fmt.Sprintf("figures are made in another way (method %d, was %d)", key.Method, old.Method)
	case old.Machine != key.Machine:
		return fmt.Sprintf("another machine (%s, was %s)", key.Machine, old.Machine)
	}
	if changed := f.Conditions(old.Run, nights[n-1].Run); changed != "" {
		return changed
	}
	return "load, prompts, seed, client or collectors have changed"
}

// Count returns how many series of the last night are in each state.
func (b *Board) Count() map[gate.State]int {
	count := map[gate.State]int{}
	for _, s := range b.Series {
		count[s.Last().State]++
	}
	return count
}

// In returns the series whose last night is in one of these states, those that changed most
// first.
func (b *Board) In(states ...gate.State) []Series {
	var list []Series
	for _, s := range b.Series {
		if slices.Contains(states, s.Last().State) {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(x, y Series) int { return cmp.Compare(y.worse(), x.worse()) })
	return list
}

// Fresh returns the cells of series whose last night is the first that is worse than the band,
// and was not measured again.
func (b *Board) Fresh() (cells []string) {
	last := len(b.Nights) - 1
	for _, s := range b.Series {
		v := s.Last()
		if (v.State == gate.Suspect || v.State == gate.Regression) && v.First == last && math.IsNaN(s.Again[last]) && !slices.Contains(cells, s.Cell) {
			cells = append(cells, s.Cell)
		}
	}
	return cells
}

// worse returns by how much the last night is worse than its band, as a share.
func (s Series) worse() float64 {
	if s.Metric.Less {
		return s.Last().Change
	}
	return -s.Last().Change
}

// Holes returns the cells of a run of which its night has nothing valid, each with why.
func Holes(run *report.Run, nights []history.Night) []string {
	measured := map[string]history.Night{}
	for _, n := range nights {
		measured[n.Cell] = n
	}
	states := map[string][]string{}
	for _, t := range run.Trials {
		if t.Outcome != nil {
			status, _ := t.Outcome.Row[col.Status].(string)
			if t.Outcome.Row[col.ReusedFrom] != nil {
				status = "reused"
			}
			states[t.Cell.ID] = append(states[t.Cell.ID], status)
		}
	}
	var holes []string
	for _, c := range run.Resolved.Cells {
		n, ok := measured[c.ID]
		switch status := states[c.ID]; {
		case n.Valid > 0:
		case ok:
			holes = append(holes, fmt.Sprintf("%s: none of %s is valid", c.Label, humanize.Plural(n.Trials, "trial")))
		case len(status) == 0:
			holes = append(holes, c.Label+": no outcome in this run")
		case slices.Contains(status, "reused"):
			holes = append(holes, c.Label+": taken over from another run, not measured in this one")
		}
	}
	return holes
}

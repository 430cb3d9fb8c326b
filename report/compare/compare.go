// Package compare says whether the cells of one run are faster or slower than the same
// cells of another: what differs between the two before any number, the ratio of each
// figure with its interval, and a verdict that holds over all of them together. What
// can be concluded within one run is package conclude's.
//
// It is pure: [Compare] is a function of two sides, and of the noise between runs where
// that is known.
package compare

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/noise"
	"sweep.dev/sweep/result/ratio"
	"sweep.dev/sweep/rundir"
)

// Version is that of the form of [Comparison]. A new one may take keys away or change
// what they mean; new keys alone make none.
const Version = 1

// A Side is one of two runs.
type Side struct {
	Name   string // for people: the run directory
	RunID  string
	Plan   json.RawMessage // resolved
	Points []*conclude.Point
	// Answers are those of its deployments to quality prompts; nil for none, and if they are
	// not to be compared.
	Answers *paired.Paired
}

// Of returns a run as a side, without its answers to quality prompts.
func Of(run *report.Run) Side {
	return Side{Name: run.Dir, RunID: run.State.Manifest.RunID, Plan: run.Resolved.Plan, Points: run.Conclude().Points}
}

// Options are what a comparison is asked for.
type Options struct {
	// MaxRegression is how much worse a figure may be: 0.05 is 5 %. 0 is no bound.
	MaxRegression float64
	// Noise is that between runs; nil if it is not known.
	Noise *noise.File
}

// A Comparison is what two runs say of the same cells. schemas/compare.schema.json is its
// schema.
type Comparison struct {
	Version       int          `json:"version"`
	Base          Ref          `json:"base"`
	Head          Ref          `json:"head"`
	Simulated     bool         `json:"simulated"` // the cells that are compared are the simulator's
	Differs       []Difference `json:"differs"`
	Same          []string     `json:"same"` // what is known and equal
	MaxRegression float64      `json:"max_regression"`
	// NoiseKnown says whether the noise between runs is known for every figure that is
	// judged; else some intervals are within a launch, or within a trial.
	NoiseKnown bool   `json:"noise_known"`
	Cells      []Cell `json:"cells"`
	Left       []Left `json:"not_compared"`
	// Quality is how both runs answered quality prompts; nil if neither has answers. Its
	// regressions are not among the next.
	Quality *Quality `json:"quality"`
	// Regressions are the figures that are certainly worse than the threshold, and
	// Expected how many of them chance makes on average at most.
	Regressions int     `json:"regressions"`
	Expected    float64 `json:"expected_by_chance"`
}

// A Ref names a side.
type Ref struct {
	Dir   string `json:"dir"`
	RunID string `json:"run_id"`
}

// A Cell is one cell that both sides have numbers of.
type Cell struct {
	ID      string       `json:"id"`
	Label   string       `json:"label"`
	Verdict Verdict      `json:"verdict"` // slower if any judged figure is, else faster if any is; same if all are
	Base    []rundir.Key `json:"base_rows"`
	Head    []rundir.Key `json:"head_rows"`
	Figures []Figure     `json:"figures"`
	Notes   []string     `json:"notes"`

	short      string // the settings in which the compared cells differ
	deployment string // of head
}

// Short returns its label without what all compared cells share.
func (c *Cell) Short() string { return c.short }

// A Left is a cell that is not compared, or not in all its figures.
type Left struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Why   string `json:"why"`

	hole bool // both plans have it, and another measurement may compare it
}

// Compare holds the cells of head against the same cells of base.
func Compare(base, head Side, o Options) *Comparison {
	return By(func(c conclude.Cell) string { return c.ID }, base, head, o)
}

// By is [Compare] of cells that are the same if same gives one text for both.
func By(same func(conclude.Cell) string, base, head Side, o Options) *Comparison {
	c := &Comparison{
		Version: Version, Base: Ref{base.Name, base.RunID}, Head: Ref{head.Name, head.RunID}, MaxRegression: o.MaxRegression,
		Differs: []Difference{}, Same: []string{}, Cells: []Cell{}, Left: []Left{},
	}
	byID := map[string]*conclude.Point{}
	for _, p := range base.Points {
		byID[same(p.Cell)] = p
	}
	var pairs []pair
	for _, h := range head.Points {
		b := byID[same(h.Cell)]
		delete(byID, same(h.Cell))
		if b == nil {
			c.leave(h, onlyHead, false)
			continue
		}
		if why := incomparable(b, h); why != "" {
			c.leave(h, why, b.Verdict != h.Verdict || b.Verdict != conclude.NoStart && b.Verdict != conclude.Skipped)
			continue
		}
		if why := invalid(b, h); why != "" {
			c.leave(h, why+", but for the figures that are VALID", true)
		}
		pairs = append(pairs, pair{id: h.Cell.ID, base: b, head: h, noise: o.noiseOf(h), alike: sameConditions(b, h)})
	}
	for _, b := range base.Points {
		if byID[same(b.Cell)] != nil {
			c.leave(b, onlyBase, false)
		}
	}
	c.Differs, c.Same = identify(base, head, pairs)
	if b, h := methods(base.Points), methods(head.Points); b != h && b != "" && h != "" {
		c.Differs = slices.Insert(c.Differs, 0, Difference{col.Method, b, h}) // before all else: no figures of two methods are compared
	}
	c.judge(pairs)
	c.Quality = qualityOf(base, head, pairs, o.MaxRegression)
	return c
}

// Why a cell that one side lacks is not compared.
const (
	onlyBase = "only in base"
	onlyHead = "only in head"
)

// judge fills in the cells of pairs.
func (c *Comparison) judge(pairs []pair) {
	heads := make([]*conclude.Point, len(pairs))
	for i, p := range pairs {
		heads[i] = p.head
	}
	short := shorts(heads)
	var all []*Figure
	for i, p := range pairs {
		cell := Cell{ID: p.id, Label: p.head.Cell.Label, Base: keys(p.base), Head: keys(p.head), Notes: notes(p), short: short[i], deployment: p.head.Cell.Deployment}
		for _, m := range Metrics() {
			cell.Figures = append(cell.Figures, p.figure(m))
		}
		c.Simulated = c.Simulated || p.head.Simulated()
		c.Cells = append(c.Cells, cell)
	}
	for i := range c.Cells {
		for k := range c.Cells[i].Figures {
			all = append(all, &c.Cells[i].Figures[k])
		}
	}
	pool(all)
	for _, f := range all {
		f.hold(c.MaxRegression)
	}
	c.Regressions = concludeOn(all, c.MaxRegression)
	c.Expected = Alarm * float64(c.Regressions)
	c.NoiseKnown = len(c.Cells) > 0
	for _, f := range all {
		if f.judged && f.of.Judged && !f.of.Share && f.known.Scope != ratio.Runs {
			c.NoiseKnown = false
		}
	}
	for i := range c.Cells {
		c.Cells[i].Verdict = c.Cells[i].verdict()
	}
}

// Worse reports whether any regression was found.
func (c *Comparison) Worse() bool {
	return c.Regressions > 0 || c.Quality != nil && c.Quality.Regressions > 0
}

// TooNoisy reports whether a regression of the size that is asked for would drown in the
// noise of a figure of any cell, or a difference far beyond its noise has too few trials.
func (c *Comparison) TooNoisy() bool {
	for _, cell := range c.Cells {
		for _, f := range cell.Figures {
			if f.of.Judged && (f.Verdict == TooNoisy || f.tooFew != "") {
				return true
			}
		}
	}
	return false
}

// verdict returns that of a cell by its judged figures.
func (c *Cell) verdict() Verdict {
	seen := map[Verdict]int{}
	n := 0
	for _, f := range c.Figures {
		if f.of.Judged && (f.Base != nil || f.Head != nil) {
			seen[f.Verdict]++
			n++
		}
	}
	for _, v := range []Verdict{Slower, Faster, TooNoisy} {
		if seen[v] > 0 {
			return v
		}
	}
	if n > 0 && seen[Same] == n {
		return Same
	}
	return CannotTell
}

func (c *Comparison) leave(p *conclude.Point, why string, hole bool) {
	c.Left = append(c.Left, Left{p.Cell.ID, p.Cell.Label, why, hole})
}

// Holes counts the cells of both plans that could not be compared: INVALID, failed or without
// an outcome on a side. A server that starts on neither side, and a cell that both skipped,
// are none.
func (c *Comparison) Holes() (n int) {
	for _, l := range c.Left {
		if l.hole {
			n++
		}
	}
	return n
}

// incomparable returns why two points have no figures to compare; "" if they have.
func incomparable(base, head *conclude.Point) string {
	switch why := invalid(base, head); {
	case why != "" && !(base.Stands() && head.Stands()):
		return why
	case base.Simulated() != head.Simulated():
		return "one side is simulated and the other was measured"
	case method(base) != method(head):
		return fmt.Sprintf("measured by methods %d and %d, whose figures mean different things", method(base), method(head))
	}
	return ""
}

// invalid returns on which of two sides no trial is valid, and why; "" if both have one.
func invalid(base, head *conclude.Point) string {
	var why []string
	for _, side := range []struct {
		point *conclude.Point
		name  string
	}{{base, "base"}, {head, "head"}} {
		if side.point.Valid == 0 {
			text := string(side.point.Verdict)
			if reason := side.point.Reason(); reason != text {
				text += " (" + reason + ")"
			}
			why = append(why, text+" in "+side.name)
		}
	}
	return strings.Join(why, ", ")
}

// noiseOf returns the noise that a point may be held against: none, if its figures are of
// another method than the noise.
func (o Options) noiseOf(p *conclude.Point) *noise.File {
	if o.Noise != nil && o.Noise.Method > 0 && o.Noise.Method != method(p) {
		return nil
	}
	return o.Noise
}

// method returns the way in which the figures of a point were made; 0 if it has none.
func method(p *conclude.Point) int {
	for _, t := range p.Counting() {
		return t.Outcome.Row.Method()
	}
	return 0
}

// methods returns those of the points that have figures, for people; "" if none has.
func methods(points []*conclude.Point) string {
	all := map[string]bool{}
	for _, p := range points {
		if n := method(p); n > 0 {
			all[strconv.Itoa(n)] = true
		}
	}
	return list(all)
}

// sameConditions reports whether trials of one number had the same arrivals and lengths.
func sameConditions(base, head *conclude.Point) bool {
	b, h := conditions(base), conditions(head)
	return len(b) == 1 && b[0] != "" && slices.Equal(b, h)
}

// notes returns what a person should know about the trials behind a cell.
func notes(p pair) []string {
	all := []string{}
	for _, side := range []struct {
		point *conclude.Point
		name  string
	}{{p.base, "base"}, {p.head, "head"}} {
		if n := len(side.point.Trials); side.point.Valid < n {
			all = append(all, fmt.Sprintf("%d of %d trials of %s count", side.point.Valid, n, side.name))
		}
		if side.point.Verdict == conclude.Undecided {
			all = append(all, fmt.Sprintf("%s in %s", side.point.Why, side.name))
		}
	}
	return all
}

// keys returns the rows behind a point's figures.
func keys(p *conclude.Point) []rundir.Key {
	all := []rundir.Key{}
	for _, t := range p.Counting() {
		all = append(all, t.Key)
	}
	return all
}

// shorts returns labels of those settings alone in which the points differ.
func shorts(points []*conclude.Point) []string {
	axes := conclude.Varied(points)
	all := make([]string, len(points))
	for i, p := range points {
		all[i] = axes.Short(p.Cell)
	}
	return all
}

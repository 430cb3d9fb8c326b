package oracle

// The oracle. It answers every question of a summary once more, from the rows of
// the cells table and from what was planned.
//
// A commit that changes a rule of package report changes the oracle too. The
// oracle imports the rows alone: code that it shared with the report would share
// the report's defects.
//
// The rules are those of a summary's section "How cells are judged":
//
//   - Only valid trials count. A cell is what the worst of them is.
//   - A cell with an INVALID, failed, pending or undecided trial is a hole, unless
//     it has missed an objective already. A cell that was skipped, or whose server
//     did not start in a plan that records that, is an outcome.
//   - Best and sweet spot need cells of which every trial passes.
//   - One side is worse than another if the interval of their ratio says so: of the
//     differences between trials of one number, by Welch's t if they have others, or
//     within the trials where a side has one. 95 % are shared over all pairs.
//   - The sweet spot is the least load from which on up to the most each gives certainly
//     95 % of what any gives. It is not distinguishable where none does.
//   - A hole below the sweet spot, next above it, or next above a cell that may have the
//     most tokens a second leaves the sweet spot not decided. A hole next above the best cell
//     of a side leaves that best not decided.
//   - Sides are compared at equal load, or each at its best of the loads that all
//     of them were given; simulated and measured ones are not compared.
//   - Engines and servers whose content is unrepresentative are not ranked.

import (
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

// text returns the values of some axes, as people read them.
func (c *cell) text(want func(axis) bool) string {
	var parts []string
	for i, a := range c.e.axes {
		if !want(a) {
			continue
		}
		switch a.name {
		case "engine", "gpu", "model", result.LoadAxis:
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

// kind returns what a row is worth.
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
		case met == nil || met == "undecided":
			open = true
		case met == "fail":
			return missed
		}
	}
	if open {
		return undecided
	}
	if again, ok := row["preemptions"].(int64); ok && float64(again) > 0.01*float64(row["completed"].(int64)) {
		return unstable
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

// valid returns the rows that count.
func (c *cell) valid() []result.Row {
	return slices.DeleteFunc(slices.Clone(c.trials), func(row result.Row) bool { return row == nil || row["status"] != "ok" })
}

// verdict returns what the cell is worth.
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
	// The quantiles of chi-square at 95 % for so many degrees of freedom.
	chi := []float64{0, 3.84, 5.99, 7.81, 9.49, 11.07, 12.59, 14.07, 15.51, 16.92}
	if n := len(v); n > 1 && n <= len(chi) && deviation(v)*math.Sqrt(float64(n-1)/chi[n-1]) > 0.1*average(v) {
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

// hole reports whether the cell may yet turn out to be anything.
func (c *cell) hole() bool {
	if c.has(missed) {
		return false
	}
	return c.has(invalid, failed, pending, undecided) || c.has(noStart) && !c.e.record
}

// pass reports whether every trial meets every objective.
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
	of95              string // the column of whose interval within a trial this is the reciprocal
}

// id names a figure by its columns.
func (f figure) id() string {
	if f.per != "" {
		return f.column + "/" + f.per
	}
	return f.column
}

func (f figure) of(row result.Row) (float64, bool) {
	v, ok := row.Number(f.column)
	if ok && f.per != "" {
		by, has := row.Number(f.per)
		return v / by * f.times, has && by > 0
	}
	return v, ok
}

// mean returns that of the figure over the valid rows that have it; NaN without any.
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

func has(figures []figure, id string) bool {
	return slices.ContainsFunc(figures, func(f figure) bool { return f.id() == id })
}

func known(v float64) bool { return !math.IsNaN(v) }

// beats reports whether a is strictly better than b.
func (f figure) beats(a, b float64) bool { return a != b && (a < b) == f.least }

var (
	tokens   = figure{name: "output tokens/s", column: "throughput_tok_s"}
	requests = figure{name: "requests/s", column: "request_throughput"}

	waits   = figure{name: "p95 TTFT, ms", column: "p95_ttft_ms", least: true}
	feels   = figure{name: "tok/s a user per $/h", column: "p50_user_tok_s", per: "usd_per_hour", times: 1, of95: "p50_tpot_ms"}
	carries = figure{name: "Mtok/$", column: "total_throughput_tok_s", per: "usd_per_hour", times: 3600e-6}
	costs   = figure{name: "$ per 1M output tokens", column: "usd_per_1m_output_tokens", least: true, of95: "throughput_tok_s"}

	// The figures by which engines are ranked: those of the sentences, and those of the table.
	said  = []figure{tokens, {name: "TTFT, ms", column: "mean_ttft_ms", least: true}, {name: "TPOT, ms", column: "mean_tpot_ms", least: true}, {name: "E2E, ms", column: "mean_e2e_ms", least: true}}
	table = append(slices.Clone(said),
		figure{name: "start-up, s", column: "start_up_s", least: true},
		figure{name: "TTFT p95, ms", column: "p95_ttft_ms", least: true},
		figure{name: "TPOT p95, ms", column: "p95_tpot_ms", least: true})
)

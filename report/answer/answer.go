// Package answer makes the answer of a run as data: answer.json, for programs and agents.
// It has the claims of [compare] with the trials that each rests on, what is not decided
// and why, the next command, and the money. It concludes nothing.
package answer

import (
	"encoding/json"
	"io"
	"slices"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/compare/turns"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/view"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

// Version is that of the form. A new one may take keys away or change what they mean; new
// keys alone make none.
const Version = 1

// An Answer is the content of answer.json. schemas/answer.schema.json is its schema.
type Answer struct {
	Version   int            `json:"version"`
	RunID     string         `json:"run_id"`
	Plan      string         `json:"plan"`
	Digest    string         `json:"plan_digest"`
	Simulated string         `json:"simulated"` // all, some or none of the trials
	Finished  bool           `json:"finished"`  // the last run of the directory ended by itself
	Trials    map[string]int `json:"trials"`    // by status; those without an outcome are pending
	Cells     map[string]int `json:"cells"`     // by verdict
	Claims    []Claim        `json:"claims"`
	Turns     *Turns         `json:"comparison"` // of a plan that compares by turns; null of others
	Searches  []Search       `json:"searches"`   // of a plan with find; then there are no claims
	Quality   *Quality       `json:"quality"`    // of a plan with quality; null of others
	Open      []Open         `json:"not_decided"`
	ToDecide  []string       `json:"to_decide"` // commands that measure what leaves claims not decided
	Next      string         `json:"next"`
	Money     Money          `json:"money"`
}

// A Claim is one conclusion.
type Claim struct {
	Question string    `json:"question"`
	About    string    `json:"about"`
	Answer   string    `json:"answer"`
	Text     string    `json:"text"`    // the same in words, as in summary.md
	Measure  string    `json:"measure"` // a column of the cells table, or the quotient of two; "" for none
	Loads    []float64 `json:"loads"`   // at which sides are compared
	Places   []Place   `json:"places"`  // the best first
	Left     []Left    `json:"left"`    // sides without a place
}

// A Place is a cell in a claim.
type Place struct {
	Side    string       `json:"side"`
	Cell    string       `json:"cell"`
	Label   string       `json:"label"`
	Verdict string       `json:"verdict"`
	Rows    []rundir.Key `json:"rows"`  // the rows of the cells table that the claim rests on
	Value   *float64     `json:"value"` // of the measure: the mean over the rows
	Ratio   *float64     `json:"ratio"` // how many times worse than the first place; null if they cannot be told apart
}

// A Left is a side without a place.
type Left struct {
	Side  string   `json:"side"`
	Why   string   `json:"why"`
	Open  bool     `json:"open"` // another measurement may decide it
	Cells []string `json:"cells"`
}

// Turns are the values of a server axis, each held against the baseline of the plan.
type Turns struct {
	Axis     string      `json:"axis"`
	Baseline string      `json:"baseline"`
	Drift    string      `json:"host_drift"` // how the baseline itself moved; "" if not certainly
	Sides    []TurnsSide `json:"sides"`
}

// A TurnsSide is one value against the baseline, whose rows are base.
type TurnsSide struct {
	Value string         `json:"value"`
	Cells []compare.Cell `json:"cells"`
	Left  []compare.Left `json:"not_compared"`
}

// A Search is what a search found for one objective of the plan.
type Search struct {
	About      string       `json:"about"` // the combination of the other axes; "" if there is one
	Axis       string       `json:"axis"`
	Objective  string       `json:"objective"`
	Expr       string       `json:"expr"`
	Confidence float64      `json:"confidence"`
	Reason     *string      `json:"reason"` // why it ended; null if it has not
	Capacity   *float64     `json:"capacity"`
	Point      *float64     `json:"capacity_point"`
	Devices    []OnDevice   `json:"devices"`
	Least      *float64     `json:"certified_min"` // over several devices; null for one
	Most       *float64     `json:"certified_max"`
	FailsAt    *float64     `json:"fails_at"`
	Missed     []string     `json:"missed"`
	LimitedBy  *string      `json:"limited_by"`         // null if nothing failed
	Predicted  *float64     `json:"predicted_capacity"` // by the simulator before the run; null if it was not asked, or predicted none
	Probes     int          `json:"probes"`
	Requests   int          `json:"requests"`
	Rows       []rundir.Key `json:"rows"` // the rows of the cells table at the capacity
	Text       string       `json:"text"` // the same in words, as in summary.md
}

// OnDevice is what a search found on one device.
type OnDevice struct {
	UUID     string   `json:"uuid"` // as gpu_uuid of its rows
	Capacity *float64 `json:"capacity"`
	Reason   string   `json:"reason"`
}

// searches returns those of a run.
func searches(v *view.View) []Search {
	all := []Search{}
	for _, c := range v.Capacity() {
		s := Search{
			About: c.Of.Label, Axis: c.Of.Axis, Objective: c.Objective, Expr: c.Expr, Confidence: c.Of.Confidence,
			Capacity: c.Capacity, Point: c.Point, FailsAt: c.FailsAt, Missed: append([]string{}, c.Missed...),
			Probes: len(c.Of.Outcomes), Requests: c.Requests, Rows: append([]rundir.Key{}, c.Rows()...), Text: c.Text(),
		}
		s.Devices = []OnDevice{}
		for _, d := range c.Devices {
			s.Devices = append(s.Devices, OnDevice{d.ID, d.Capacity, d.Reason})
		}
		s.Least, s.Most = c.Spread()
		if c.Reason != "" {
			s.Reason = &c.Reason
		}
		if c.Limit != nil {
			s.LimitedBy = &c.Limit.By
		}
		if c.Predicted != nil {
			s.Predicted = c.Predicted.Capacity
		}
		all = append(all, s)
	}
	return all
}

// An Open question is a claim that is not decided, or a figure of the comparison by turns
// that cannot be told.
type Open struct {
	Question string   `json:"question"`
	About    string   `json:"about"`
	Metric   string   `json:"metric"` // the column that cannot be told; "" of a claim
	Why      string   `json:"why"`
	Cells    []string `json:"cells"`
	Repeats  *int     `json:"repeats"` // trials of each side that would tell; null of a claim, or if that is not known
}

// Comparison is the question of an [Open] that is no claim's.
const Comparison = "comparison"

// Money is what the run has cost, in USD.
type Money struct {
	Spent  float64  `json:"spent_usd"`    // on pods that are gone
	Rate   float64  `json:"usd_per_hour"` // of pods that are not known to be gone
	Budget *float64 `json:"budget_usd"`   // the plan's max_cost; null for none
	Left   *float64 `json:"left_usd"`     // of the budget; null for none
}

// Of returns the answer of a run.
func Of(run *report.Run) *Answer {
	v, m := view.Of(run), run.State.Manifest
	a := &Answer{
		Version: Version, RunID: m.RunID, Plan: m.Plan, Digest: m.PlanDigest, Finished: run.State.Finished,
		Trials: map[string]int{}, Cells: map[string]int{}, Claims: []Claim{}, Open: []Open{}, ToDecide: []string{},
		Next: run.Next(), Money: money(run), Searches: searches(v), Quality: qualityOf(v),
	}
	a.count(v)
	t := v.Turns()
	if t != nil {
		a.Turns = &Turns{Axis: t.Axis, Baseline: t.Baseline, Drift: t.Drift, Sides: []TurnsSide{}}
		for _, s := range t.Sides {
			a.Turns.Sides = append(a.Turns.Sides, TurnsSide{s.Value, s.Cells, s.Left})
		}
	}
	for _, said := range v.Claims() {
		c := claim(said)
		a.Claims = append(a.Claims, c)
		switch said.Answer {
		case conclude.Tied:
			open := Open{Question: c.Question, About: c.About, Why: c.Text, Cells: []string{}}
			for _, p := range c.Places {
				open.Cells = append(open.Cells, p.Cell)
			}
			a.Open = append(a.Open, open)
			continue
		case conclude.NotDecided:
		default:
			continue
		}
		for _, l := range c.Left {
			if l.Open {
				a.Open = append(a.Open, Open{Question: c.Question, About: c.About, Why: join(l.Side, l.Why), Cells: l.Cells})
			}
		}
	}
	a.Open = append(a.Open, untold(t)...)
	if command := run.Resume(v.Set.Undecided()); command != "" {
		a.ToDecide = append(a.ToDecide, command)
	}
	return a
}

// untold returns the figures of a comparison by turns that cannot be told, each with the
// trials that would tell.
func untold(t *turns.Turns) (all []Open) {
	if t == nil {
		return nil
	}
	for _, s := range t.Sides {
		for i := range s.Cells {
			c := &s.Cells[i]
			for k := range c.Figures {
				if f := &c.Figures[k]; f.Open() {
					all = append(all, Open{
						Question: Comparison, About: join(t.Title(s), c.Short()), Metric: f.Metric,
						Why: join(f.Metric, f.Words()), Cells: cellsOf(c.Base, c.Head), Repeats: f.Repeats,
					})
				}
			}
		}
	}
	return all
}

// cellsOf returns the cells of some rows, each once.
func cellsOf(rows ...[]rundir.Key) []string {
	all := []string{}
	for _, r := range slices.Concat(rows...) {
		if !slices.Contains(all, r.Cell) {
			all = append(all, r.Cell)
		}
	}
	return all
}

// Write writes the answer of a run as JSON.
func Write(w io.Writer, run *report.Run) error {
	enc := json.NewEncoder(plaintext.JSON(w))
	enc.SetIndent("", "  ")
	return enc.Encode(Of(run))
}

func join(side, why string) string {
	if side == "" {
		return why
	}
	return side + ": " + why
}

// count counts trials by status and cells by verdict, and the simulated ones.
func (a *Answer) count(v *view.View) {
	for _, t := range v.Trials {
		status := "pending"
		if t.Outcome != nil {
			status, _ = t.Outcome.Row[col.Status].(string)
		}
		a.Trials[status]++
	}
	switch n := v.Tally(); n.Simulated {
	case 0:
		a.Simulated = "none"
	case n.Done:
		a.Simulated = "all"
	default:
		a.Simulated = "some"
	}
	for _, p := range v.Set.Points {
		a.Cells[string(p.Verdict)]++
	}
}

func claim(said view.Said) Claim {
	c := Claim{
		Question: string(said.Question), About: said.About, Answer: string(said.Answer), Text: said.Text,
		Measure: said.Measure.ID(), Loads: append([]float64{}, said.Loads...), Places: []Place{}, Left: []Left{},
	}
	for _, p := range said.Places {
		place := Place{Side: p.Side, Cell: p.Cell, Label: p.Point.Cell.Label, Verdict: string(p.Verdict), Rows: p.Rows}
		if c.Measure != "" {
			place.Value = &p.Value
		}
		if p.Ratio > 0 {
			place.Ratio = &p.Ratio
		}
		c.Places = append(c.Places, place)
	}
	for _, l := range said.Left {
		c.Left = append(c.Left, Left{Side: l.Side, Why: l.Why, Open: l.Hole, Cells: append([]string{}, l.Cells()...)})
	}
	return c
}

func money(run *report.Run) Money {
	m := Money{Spent: run.State.SpentUSD}
	for _, o := range run.State.Owed {
		m.Rate += o.USDPerHour
	}
	var plan struct {
		Budget struct {
			MaxCost float64 `json:"max_cost"`
		} `json:"budget"`
	}
	// A plan of another version has no budget that is known here.
	if json.Unmarshal(run.Resolved.Plan, &plan) == nil && plan.Budget.MaxCost > 0 {
		left := plan.Budget.MaxCost - m.Spent
		m.Budget, m.Left = &plan.Budget.MaxCost, &left
	}
	return m
}

package conclude

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

// A Cell is one cell of the plan.
type Cell struct {
	ID         string    `json:"id"`
	Index      int       `json:"index,omitempty"` // place in the whole plan's order, from 0
	Deployment string    `json:"deployment"`
	Digest     string    `json:"spec_digest"`
	Label      string    `json:"label"`
	Settings   []Setting `json:"settings"`
	// Predicted is the prediction for the cell's server; nil if there is none.
	Predicted *Prediction `json:"predicted,omitempty"`
}

// A Setting is the value of one axis in one cell.
type Setting struct {
	Column string `json:"column"`
	Server bool   `json:"server,omitempty"` // the axis changes the server
	Amount bool   `json:"amount,omitempty"` // the axis is an amount of load; a plan has one at most
	Text   string `json:"text"`             // the value as the cell's label has it
	Value  any    `json:"value"`
}

// A Trial is one trial of the plan with its outcome, or without one.
type Trial struct {
	rundir.Key
	Cell    Cell
	Commit  rundir.Commit
	Outcome *result.Outcome // nil: no outcome yet
}

// Trusted returns the trial with its INVALID figures left out.
func (t Trial) Trusted() Trial {
	if t.Outcome == nil || t.Outcome.Row[col.InvalidFigures] == nil {
		return t
	}
	o := *t.Outcome
	o.Row = o.Row.Trusted()
	t.Outcome = &o
	return t
}

// inPart reports whether the trial is INVALID in some figures alone.
func (t Trial) inPart() bool {
	return t.Outcome != nil && t.Outcome.Row.InPart()
}

// unneeded reports whether the trial was not run because those before it are enough: the
// cell has no fewer trials than it needs.
func (t Trial) unneeded() bool {
	return t.Outcome != nil && slices.ContainsFunc(t.Outcome.Findings, func(f result.Finding) bool { return f.Code == finding.TrialsEnough })
}

// A Prediction is what the arithmetic of the simulated engine says of a server
// before it is started.
type Prediction struct {
	Starts   bool   `json:"starts"`
	Class    string `json:"class,omitempty"` // of the failure, as error_class
	Text     string `json:"text,omitempty"`  // of the failure
	KVTokens int64  `json:"kv_cache_tokens,omitempty"`
}

// Outcome returns "starts", or the class of the failure.
func (p *Prediction) Outcome() string {
	if p.Starts {
		return "starts"
	}
	return p.Class
}

func (p *Prediction) String() string {
	switch {
	case p == nil:
		return "-"
	case p.Starts && p.KVTokens > 0:
		return fmt.Sprintf("starts %d", p.KVTokens)
	}
	return p.Outcome()
}

// Value returns a cell's value of an axis; nil if it has none.
func (c Cell) Value(column string) any {
	for _, s := range c.Settings {
		if s.Column == column {
			return s.Value
		}
	}
	return nil
}

// Text returns those of a cell's settings that are wanted, in the words of its label.
func (c Cell) Text(want func(Setting) bool) string {
	var parts []string
	for _, s := range c.Settings {
		if want(s) {
			parts = append(parts, s.Text)
		}
	}
	return strings.Join(parts, " ")
}

// ServerText returns what a cell's label has of its server.
func (c Cell) ServerText() string { return c.Text(func(s Setting) bool { return s.Server }) }

// Load returns a cell's amount of load; 0 if the plan does not vary it.
func Load(c Cell) float64 {
	for _, s := range c.Settings {
		if v, ok := s.Value.(float64); ok && s.Amount {
			return v
		}
	}
	return 0
}

// LoadText returns a cell's amount of load in words; "" if the plan does not vary
// it.
func LoadText(c Cell) string { return c.Text(func(s Setting) bool { return s.Amount }) }

// amounts returns several amounts of load in words: "concurrency 1, 4, 16".
func amounts(points []*Point) string {
	var values []string
	name := ""
	for _, p := range points {
		for _, s := range p.Cell.Settings {
			if s.Amount {
				name = s.Column
				values = append(values, fmt.Sprint(s.Value))
			}
		}
	}
	if name == "" {
		return ""
	}
	return name + " " + strings.Join(values, ", ")
}

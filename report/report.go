// Package report says what a run found, from its directory alone: nothing here
// knows how the numbers came about.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A Resolved is the content of [layout.Resolved].
type Resolved struct {
	Sweep   string          `json:"sweep"` // version
	Plan    json.RawMessage `json:"plan"`
	Repeats int             `json:"repeats"`
	// RecordStarts: servers that do not start are results of this plan.
	RecordStarts bool            `json:"record_start_failures,omitempty"`
	Columns      []result.Column `json:"columns"`
	Cells        []Cell          `json:"cells"` // in the plan's order
	// Skipped are cells that are not run because their server was predicted not
	// to fit.
	Skipped []Cell `json:"skipped,omitempty"`
}

// A Cell is one cell of the plan.
type Cell struct {
	ID         string    `json:"id"`
	Deployment string    `json:"deployment"`
	Digest     string    `json:"spec_digest"`
	Label      string    `json:"label"`
	Settings   []Setting `json:"settings"`
	// Predicted is what was expected of the cell's server; nil where nobody knows.
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

// A Run is a run directory, read.
type Run struct {
	Dir      string
	State    *rundir.State
	Resolved Resolved
	Trials   []Trial // every planned trial: cells in the plan's order, trials within
	// Running says that a process is at work in the directory, which uses the pods
	// that are owed. Open does not look; its caller may know.
	Running bool
	// Calibration is what was found out about the measuring client, in lines for
	// the summary; nil where nobody looked.
	Calibration []string
}

// Open reads a run directory, also while a run is writing it.
func Open(dir string) (*Run, error) {
	state, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir, State: state}
	b, err := os.ReadFile(filepath.Join(dir, layout.Resolved))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &r.Resolved); err != nil {
		return nil, fmt.Errorf("%s: %w", layout.Resolved, err)
	}
	r.Resolved.modern()
	for _, c := range r.Resolved.Cells {
		for n := 1; n <= max(1, r.Resolved.Repeats); n++ {
			t := Trial{Key: rundir.Key{Cell: c.ID, Trial: n}, Cell: c}
			if commit, ok := state.Committed[t.Key]; ok {
				t.Commit = commit
				if t.Outcome, err = rundir.Outcome(dir, commit); err != nil {
					return nil, err
				}
			}
			r.Trials = append(r.Trials, t)
		}
	}
	return r, nil
}

// Rows are the rows of the cells table, in the plan's order.
func (r *Run) Rows() []result.Row {
	var rows []result.Row
	for _, t := range r.Trials {
		if t.Outcome != nil {
			rows = append(rows, t.Outcome.Row)
		}
	}
	return rows
}

// Attempts are the folders of the committed attempts, in the order of Rows.
func (r *Run) Attempts() []string {
	var dirs []string
	for _, t := range r.Trials {
		if t.Outcome != nil {
			dirs = append(dirs, rundir.AttemptDir(r.Dir, t.Commit))
		}
	}
	return dirs
}

// RowsOf are the rows of one trial: one, or none yet.
func RowsOf(t Trial) []result.Row {
	if t.Outcome == nil {
		return nil
	}
	return []result.Row{t.Outcome.Row}
}

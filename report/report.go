// Package report reads a run directory for those who say what the run found: nothing
// here knows how the numbers came about.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A Resolved is the content of [layout.Resolved].
type Resolved struct {
	Sweep   string          `json:"sweep"` // version
	Plan    json.RawMessage `json:"plan"`
	Repeats int             `json:"repeats"` // at most
	// RepeatsUpTo: a cell may have fewer trials, where its mean is known well enough.
	RepeatsUpTo bool `json:"repeats_up_to,omitempty"`
	// RecordStarts: servers that do not start are results of this plan.
	RecordStarts bool            `json:"record_start_failures,omitempty"`
	Columns      []result.Column `json:"columns"`
	Cells        []compare.Cell  `json:"cells"` // in the plan's order
	// Skipped are cells that are not run because their server was predicted not
	// to fit.
	Skipped []compare.Cell `json:"skipped,omitempty"`
}

// A Run is a run directory, read.
type Run struct {
	Dir      string
	State    *rundir.State
	Resolved Resolved
	Trials   []compare.Trial // every planned trial: cells in the plan's order, trials within
	// Running says that a process is at work in the directory, which uses the pods
	// that are owed. Open does not look; its caller may know.
	Running bool
	// Calibration is what was found out about the measuring client, in lines for
	// the summary; nil if nobody looked.
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
	r.Resolved.modern(state.Manifest.Method)
	for _, c := range r.Resolved.Cells {
		for n := 1; n <= max(1, r.Resolved.Repeats); n++ {
			t := compare.Trial{Key: rundir.Key{Cell: c.ID, Trial: n}, Cell: c}
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

// Outcomes are those of the trials that have one, in the order of Rows.
func (r *Run) Outcomes() []*result.Outcome {
	var outcomes []*result.Outcome
	for _, t := range r.Trials {
		if t.Outcome != nil {
			outcomes = append(outcomes, t.Outcome)
		}
	}
	return outcomes
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
func RowsOf(t compare.Trial) []result.Row {
	if t.Outcome == nil {
		return nil
	}
	return []result.Row{t.Outcome.Row}
}

// Conclude judges every cell of the run and makes all claims about it.
func (r *Run) Conclude() *compare.Set {
	return compare.Conclude(compare.Input{
		Trials: r.Trials, Skipped: r.Resolved.Skipped, Columns: r.Resolved.Columns, RecordStarts: r.Resolved.RecordStarts, Fixed: r.Fixed(),
	})
}

// Fixed is what the plan says of the load outside of its axes.
func (r *Run) Fixed() map[string]any {
	var p struct {
		Load map[string]any `json:"load"`
	}
	if json.Unmarshal(r.Resolved.Plan, &p) != nil {
		return nil // a plan of another version: its axes are in the cells
	}
	return p.Load
}

// Label is a trial in a person's words.
func (r *Run) Label(t compare.Trial) string {
	if r.Resolved.Repeats > 1 {
		return fmt.Sprintf("%s, trial %d", t.Cell.Label, t.Trial)
	}
	return t.Cell.Label
}

// Cells and trials, as a run directory has them.
type (
	// Cell is [compare.Cell].
	Cell = compare.Cell
	// Setting is [compare.Setting].
	Setting = compare.Setting
	// Trial is [compare.Trial].
	Trial = compare.Trial
	// Prediction is [compare.Prediction].
	Prediction = compare.Prediction
)

// Package report reads the results of a run directory for the packages that show them.
// It knows nothing of how they were measured.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
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
	Cells        []conclude.Cell `json:"cells"` // in the plan's order
	// Skipped are cells that are not run because their server was predicted not
	// to fit.
	Skipped []conclude.Cell `json:"skipped,omitempty"`
	// Searches choose the trials of a plan with find: each cell has as many as they ask for.
	Searches []Search `json:"searches,omitempty"`
}

// A Run is a run directory, read.
type Run struct {
	Dir      string
	State    *rundir.State
	Resolved Resolved
	Trials   []conclude.Trial // every planned trial: cells in the plan's order, trials within; of searches those that they asked for
	// Running says that a process is at work in the directory, which uses the pods
	// that are owed. Open does not look; its caller may know.
	Running bool
	// Calibration describes the measuring client, in lines for the summary; nil if
	// it was not calibrated.
	Calibration []string
	// Rehearsal is what the simulator predicted before the run; nil if it was not asked.
	Rehearsal *Rehearsal

	packed *result.Packed // all rows; nil if the trials have them
	bare   bool           // the rows of the trials have a status alone

	concluded *conclude.Set // nil before the first Conclude
	searched  []Searched    // nil before the first Searches
}

// ErrMethod says that the figures of a run were made by a method that is no longer read.
var ErrMethod = errors.New("whose columns had other names")

// Open reads a run directory, also while a run is writing it.
func Open(dir string) (*Run, error) { return open(dir, nil) }

// OpenLean is [Open] for runs of thousands of cells: a row of a trial has the columns
// that reports conclude from. Whole has the others too.
func OpenLean(dir string) (*Run, error) {
	r, err := OpenPacked(dir)
	if err == nil {
		r.Unpack()
	}
	return r, err
}

// OpenPacked is [OpenLean] for who needs Whole and objectives before anything is
// concluded: until Unpack is called, a row of a trial has its status alone.
func OpenPacked(dir string) (*Run, error) { return open(dir, &result.Packed{}) }

// open reads a run directory. If packed is not nil, the rows go into it, and those of the
// trials are bare.
func open(dir string, packed *result.Packed) (*Run, error) {
	state, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	if m := result.MethodOf(state.Manifest.Method); m < result.FirstMethod {
		return nil, fmt.Errorf("%s is of method %d, %w: measure again", dir, m, ErrMethod)
	}
	r := &Run{Dir: dir, State: state, packed: packed, bare: packed != nil}
	if r.Resolved, err = ReadResolved(dir); err != nil {
		return nil, err
	}
	if r.Rehearsal, err = readRehearsal(dir, state); err != nil {
		return nil, err
	}
	if len(r.Resolved.Searches) > 0 { // which are looked at at once, and have few trials
		r.packed, r.bare = nil, false
		r.committed()
		if err := r.read(); err != nil {
			return nil, err
		}
		r.asked()
		return r, nil
	}
	for _, c := range r.Resolved.Cells {
		for n := 1; n <= max(1, r.Resolved.Repeats); n++ {
			t := conclude.Trial{Key: rundir.Key{Cell: c.ID, Trial: n}, Cell: c}
			t.Commit = state.Committed[t.Key]
			r.Trials = append(r.Trials, t)
		}
		for _, n := range state.AddedTo(c.ID) {
			key := rundir.Key{Cell: c.ID, Trial: n}
			r.Trials = append(r.Trials, conclude.Trial{Key: key, Cell: c, Commit: state.Committed[key]})
		}
	}
	return r, r.read()
}

// chunk is how many outcomes are read before they are packed.
const chunk = 64

// read reads the outcomes of the trials that have one, several at a time.
func (r *Run) read() error {
	results, err := rundir.OpenResults(r.Dir)
	if err != nil {
		return err
	}
	defer results.Close() // read only
	for trials := range slices.Chunk(r.Trials, chunk) {
		var g errgroup.Group
		g.SetLimit(runtime.GOMAXPROCS(0))
		for i := range trials {
			if t := &trials[i]; t.Commit.Attempt > 0 {
				g.Go(func() (err error) {
					t.Outcome, err = results.Outcome(t.Commit)
					return err
				})
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if r.packed == nil {
			continue
		}
		for _, t := range trials {
			if t.Outcome != nil {
				r.packed.Add(t.Outcome.Row)
				t.Outcome.Row = result.Row{col.Status: t.Outcome.Row[col.Status]}
			}
		}
	}
	return nil
}

// Whole yields the rows of the cells table with all their columns, in the order of Rows.
func (r *Run) Whole() iter.Seq[result.Row] {
	if r.packed != nil {
		return r.packed.All()
	}
	return slices.Values(r.Rows())
}

// Rows returns the rows of the cells table, in the plan's order.
func (r *Run) Rows() []result.Row {
	var rows []result.Row
	for _, t := range r.Trials {
		if t.Outcome != nil {
			rows = append(rows, t.Outcome.Row)
		}
	}
	return rows
}

// Outcomes returns those of the trials that have one, in the order of Rows.
func (r *Run) Outcomes() []*result.Outcome {
	var outcomes []*result.Outcome
	for _, t := range r.Trials {
		if t.Outcome != nil {
			outcomes = append(outcomes, t.Outcome)
		}
	}
	return outcomes
}

// Attempts returns the folders of the committed attempts, in the order of Rows.
func (r *Run) Attempts() []string {
	var dirs []string
	for _, t := range r.Trials {
		if t.Outcome != nil {
			dirs = append(dirs, rundir.AttemptDir(r.Dir, t.Commit))
		}
	}
	return dirs
}

// RowsOf returns the rows of one trial: one, or none yet.
func RowsOf(t conclude.Trial) []result.Row {
	if t.Outcome == nil {
		return nil
	}
	return []result.Row{t.Outcome.Row}
}

// Conclude judges every cell of the run and makes all claims about it, once: Trials do not
// change after it.
func (r *Run) Conclude() *conclude.Set {
	if r.concluded == nil {
		r.concluded = conclude.Conclude(conclude.Input{
			Trials: r.Trials, Skipped: r.Resolved.Skipped, Columns: r.Resolved.Columns, RecordStarts: r.Resolved.RecordStarts, Fixed: r.Fixed(),
		})
	}
	return r.concluded
}

// Fixed returns what the plan says of its loads outside of the axes.
func (r *Run) Fixed() conclude.Fixed {
	var p struct {
		Load  map[string]any   `json:"load"`
		Loads []map[string]any `json:"loads"`
	}
	if json.Unmarshal(r.Resolved.Plan, &p) != nil {
		return nil // a plan of another version: its axes are in the cells
	}
	fixed := conclude.Fixed{"": p.Load}
	for _, l := range p.Loads {
		name, _ := l["name"].(string)
		fixed[name] = l
	}
	return fixed
}

// Repeated reports whether a cell may have several trials.
func (r *Run) Repeated() bool { return r.Resolved.Repeats > 1 || len(r.State.Added) > 0 }

// Label returns a trial in a person's words.
func (r *Run) Label(t conclude.Trial) string {
	if r.Repeated() {
		return fmt.Sprintf("%s, trial %d", t.Cell.Label, t.Trial)
	}
	return t.Cell.Label
}

// Cells and trials, as a run directory has them.
type (
	// Cell is [conclude.Cell].
	Cell = conclude.Cell
	// Setting is [conclude.Setting].
	Setting = conclude.Setting
	// Trial is [conclude.Trial].
	Trial = conclude.Trial
	// Prediction is [conclude.Prediction].
	Prediction = conclude.Prediction
)

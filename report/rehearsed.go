package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// Made returns a run without a directory: the resolved plan and the outcomes of its trials, as
// a rehearsal makes them.
func Made(name string, resolved []byte, trials map[rundir.Key]*result.Outcome) (*Run, error) {
	r := &Run{State: &rundir.State{Manifest: rundir.Manifest{Plan: name, Method: result.Method}}}
	var err error
	if r.Resolved, err = ParseResolved(resolved); err != nil {
		return nil, fmt.Errorf("%s: %w", layout.Resolved, err)
	}
	for _, c := range r.Resolved.Cells {
		for n := 1; n <= max(1, r.Resolved.Repeats); n++ {
			t := conclude.Trial{Key: rundir.Key{Cell: c.ID, Trial: n}, Cell: c}
			t.Outcome = trials[t.Key]
			if t.Outcome != nil || len(r.Resolved.Searches) == 0 {
				r.Trials = append(r.Trials, t)
			}
		}
	}
	return r, nil
}

// RehearsalVersion is that of the form of rehearsal.json.
const RehearsalVersion = 1

// A Rehearsal is what the simulator predicted of a run before it: [layout.Rehearsal].
type Rehearsal struct {
	Version   int              `json:"version"`
	Plan      string           `json:"plan"`
	Simulator Simulator        `json:"simulator"`
	Seed      uint64           `json:"seed"`
	Trials    int              `json:"trials"`
	Hours     float64          `json:"hours"`    // of all servers one after another, their starts included
	USD       *float64         `json:"cost_usd"` // null if a price is unknown
	Searches  []Predicted      `json:"searches"` // empty without find
	Cells     []PredictedCell  `json:"cells"`    // empty with find
	Missing   []PredictedNever `json:"not_rehearsed"`
	Ignored   []string         `json:"ignored,omitempty"` // keys of the plan that a run follows and the rehearsal did not
}

// readRehearsal reads what was predicted of a run; nil if nothing was, or if the file is gone,
// damaged or of another version: what was measured does not rest on it.
func readRehearsal(dir string, state *rundir.State) (*Rehearsal, error) {
	if !state.Manifest.Rehearsed {
		return nil, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, layout.Rehearsal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Rehearsal
	if json.Unmarshal(b, &r) == nil && r.Version == RehearsalVersion {
		return &r, nil
	}
	return nil, nil
}

// Search returns what was predicted of a search for one objective; nil if nothing was.
func (r *Rehearsal) Search(about, objective string) *Predicted {
	if r == nil {
		return nil
	}
	for i, p := range r.Searches {
		if p.About == about && p.Objective == objective {
			return &r.Searches[i]
		}
	}
	return nil
}

// Cell returns what was predicted of a cell; nil if nothing was.
func (r *Rehearsal) Cell(id string) *PredictedCell {
	if r == nil {
		return nil
	}
	for i, c := range r.Cells {
		if c.Cell == id {
			return &r.Cells[i]
		}
	}
	return nil
}

// Simulator holds the constants of the arithmetic that made a prediction.
type Simulator struct {
	Sweep             string      `json:"sweep"`              // version
	MemoryEfficiency  float64     `json:"memory_efficiency"`  // share of the data sheet's bandwidth
	ComputeEfficiency float64     `json:"compute_efficiency"` // share of its operations
	StepOverhead      float64     `json:"step_overhead_ms"`
	Turn              float64     `json:"turn_ms"`           // from a server's last token to its client's next request
	Jitter            float64     `json:"jitter"`            // standard deviation of the logarithm of a step's time
	Devices           []float64   `json:"devices,omitempty"` // how fast the GPUs are that launches get by turns; all are alike without
	Fitted            []FittedFor `json:"fitted,omitempty"`  // servers with measured rates in place of the first three
}

// A FittedFor is a file of sweep sim fit, whose rates the servers of an engine on a GPU have.
type FittedFor struct {
	File   string `json:"file"`
	Engine string `json:"engine"`
	GPU    string `json:"gpu"`
	Model  string `json:"model"`  // that was measured
	RunID  string `json:"run_id"` // that measured it
}

// A Predicted is what one search is expected to find for one objective.
type Predicted struct {
	About      string   `json:"about"` // the combination of the other axes
	Axis       string   `json:"axis"`
	Objective  string   `json:"objective"`
	Expr       string   `json:"expr"`
	Reason     *string  `json:"reason"` // null if it was not rehearsed to its end
	Capacity   *float64 `json:"capacity"`
	Point      *float64 `json:"capacity_point"`
	FailsAt    *float64 `json:"fails_at"`
	Throughput *float64 `json:"throughput_tok_s"` // at the capacity
	Price      *float64 `json:"usd_per_1m_output_tokens"`
	Probes     int      `json:"probes"` // of the search; its objectives share them
	Requests   int      `json:"requests"`
	Hours      float64  `json:"hours"` // of its trials
	USD        *float64 `json:"cost_usd"`
}

// A PredictedCell is what one cell is expected to deliver: means over its trials.
type PredictedCell struct {
	Cell       string   `json:"cell"`
	Label      string   `json:"label"`
	Throughput *float64 `json:"throughput_tok_s"`
	TTFT       *float64 `json:"p95_ttft_ms"`
	E2E        *float64 `json:"p95_e2e_ms"`
}

// A PredictedNever is a deployment of which the simulator says nothing.
type PredictedNever struct {
	Deployment string `json:"deployment"`
	Why        string `json:"why"`
}

// Package reuse takes trials over from another run directory: those that the run
// of a changed plan would measure again in the same way.
//
// A trial is taken over where the other directory has committed it as VALID, of a
// cell with the same cell_id, spec_digest and conditions_digest, and where the
// plan judges it by the same bounds. What a plan concludes from the figures of a
// row, its objectives and its price, is concluded again. Of a plan whose trials have
// a launch each, the trials of a cell must be of different launches there too.
package reuse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/rundir"
)

// ErrUnusable is a directory of which nothing can be taken over: it is no run
// directory, or it is damaged. One that a run is writing is a
// [*rundir.LockedError].
var ErrUnusable = errors.New("cannot be reused")

// A Source is a run directory, read, and what of it a plan can take over.
type Source struct {
	Dir      string // absolute
	Manifest rundir.Manifest

	plan   *plan.Plan
	trials []trial // that are equal, in the plan's order
	// left counts the trials of the plan that are not taken over, by why.
	left map[string]int
}

// A trial is one that the other directory has committed.
type trial struct {
	rundir.Commit
	cell plan.Cell
}

// Why a trial is not taken over, in the order in which that is said.
const (
	absent     = "not measured there"
	different  = "measured otherwise there"
	unreliable = "not VALID there"
	skipped    = "not run there"
	shared     = "not known to be of a launch of its own there"
)

// Open reads a run directory without changing it, and finds the trials of the
// plan's cells that it has. only chooses cells, nil is all; client is who sends in
// place of the plan's choice, or "". Every file of every trial that is to be taken
// over is held against its digest.
func Open(dir string, p *plan.Plan, only func(plan.Cell) (bool, error), client string) (*Source, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st, err := rundir.Read(dir)
	if err != nil {
		return nil, fmt.Errorf("%s %w: %w", dir, ErrUnusable, err)
	}
	if st.Warning != "" {
		return nil, fmt.Errorf("%s %w: it is damaged: %s", dir, ErrUnusable, st.Warning)
	}
	if holder, err := rundir.LockHolder(dir); err != nil {
		return nil, err
	} else if holder != nil {
		return nil, &rundir.LockedError{Dir: dir, Holder: *holder}
	}
	same, err := judgedAlike(dir, p)
	if err != nil {
		return nil, fmt.Errorf("%s %w: %w", dir, ErrUnusable, err)
	}
	s := &Source{Dir: abs, Manifest: st.Manifest, plan: p, left: map[string]int{}}
	for _, cell := range p.Cells() {
		if only != nil {
			if ok, err := only(cell); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		launches := map[[2]any]bool{} // of the trials of the cell that are taken over
		for n := 1; n <= p.Repeats.Most(); n++ {
			c, ok := st.Committed[rundir.Key{Cell: cell.ID, Trial: n}]
			switch {
			case !ok:
				s.left[absent]++
				continue
			case c.Status == result.StatusSkipped:
				s.left[skipped]++
				continue
			case c.Status != result.StatusOK:
				s.left[unreliable]++
				continue
			case c.Digest != p.SpecDigest(cell) || !same:
				s.left[different]++
				continue
			}
			o, err := rundir.Outcome(abs, c)
			if err == nil && o.Row[col.ConditionsDigest] != p.ConditionsDigest(cell, client) {
				s.left[different]++
				continue
			}
			if err == nil {
				err = rundir.Verify(abs, c)
			}
			if err != nil {
				return nil, fmt.Errorf("%s %w: it is damaged: %w", dir, ErrUnusable, err)
			}
			launch := [2]any{o.Row[col.RunID], o.Row[col.Launch]}
			if p.Repeats.Each() && (o.Row[col.Launch] == nil || launches[launch]) {
				s.left[shared]++
				continue
			}
			launches[launch] = true
			s.trials = append(s.trials, trial{c, cell})
		}
	}
	return s, nil
}

// judgedAlike reports whether a run's trials were judged as the plan judges: by the
// bounds of a valid measurement and of a good request, which need more than a row.
func judgedAlike(dir string, p *plan.Plan) (bool, error) {
	type judged struct{ Validity, Goodput json.RawMessage }
	var theirs struct{ Plan judged }
	var ours judged
	if err := rundir.ReadFile(dir, layout.Resolved, func(b []byte) error { return json.Unmarshal(b, &theirs) }); err != nil {
		return false, err
	}
	resolved, err := p.Resolved()
	if err == nil {
		err = json.Unmarshal(resolved, &ours)
	}
	return alike(theirs.Plan.Validity, ours.Validity) && alike(theirs.Plan.Goodput, ours.Goodput), err
}

// alike reports whether two JSON texts of sorted keys differ in their spaces alone.
func alike(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Before returns the state of a run directory that has everything taken over and
// nothing else.
func (s *Source) Before() *rundir.State {
	st := &rundir.State{Committed: map[rundir.Key]rundir.Commit{}}
	for _, t := range s.trials {
		st.Committed[t.Key] = t.Commit
	}
	return st
}

// String returns what is taken over, and why the rest is not.
func (s *Source) String() string {
	total := len(s.trials)
	var why []string
	for _, reason := range []string{absent, different, unreliable, skipped, shared} {
		if n := s.left[reason]; n > 0 {
			total += n
			why = append(why, fmt.Sprintf("%d %s", n, reason))
		}
	}
	text := fmt.Sprintf("%d of %d trials are taken over from %s", len(s.trials), total, s.Dir)
	if len(why) > 0 {
		text += "; the others are measured: " + strings.Join(why, ", ")
	}
	return text
}

// Into takes over what the directory does not have yet, and journals when all of
// it is there: what was killed before goes on where it stopped.
func (s *Source) Into(ctx context.Context, d *rundir.Dir, st *rundir.State) error {
	for _, t := range s.trials {
		if _, done := st.Committed[t.Key]; done {
			continue
		}
		err := d.TakeOver(ctx, s.Dir, t.Commit, func(o *result.Outcome) error {
			decides, err := s.decides(st.Manifest, t, o)
			if err != nil {
				return err
			}
			return s.conclude(t.cell, o, decides)
		})
		if err != nil {
			return fmt.Errorf("reuse %s: %w", s.Dir, err)
		}
	}
	return d.Append(ctx, "reused", map[string]any{"dir": s.Dir, "run_id": s.Manifest.RunID, "trials": len(s.trials)})
}

// decides returns what of a trial decides the plan's objectives: its requests, which need not
// be those that decided the other plan's. It is nil in a run that decides by values
// alone.
func (s *Source) decides(into rundir.Manifest, t trial, o *result.Outcome) (*objective.Trial, error) {
	if into.Decide != rundir.DecideBound || len(s.plan.SLO) == 0 {
		return nil, nil
	}
	var requests []result.Request
	for r, err := range store.RequestsOf(filepath.Join(rundir.AttemptDir(s.Dir, t.Commit), layout.Requests)) {
		if err != nil {
			return nil, err
		}
		requests = append(requests, r.Request)
	}
	by, _ := o.Row[col.EndedBy].(string)
	return objective.Of(requests, summary.Options{
		Open: t.cell.Load.Open(), Goodput: s.plan.Goodput.Bounds(), EndedEarly: stopping.Cancels(by),
		Span: timeline.Assign(requests, t.cell.Load.Concurrency),
	}), nil
}

// conclude makes an outcome one of the plan: with the plan's price and objectives,
// and with the mark of where it is from.
func (s *Source) conclude(cell plan.Cell, o *result.Outcome, decides *objective.Trial) (err error) {
	row := maps.Clone(o.Row)
	row[col.ReusedFrom], row[col.Why] = filepath.Base(s.Dir), nil // this plan has not chosen it
	if row[col.PriceSource] != result.PriceProvider {
		for _, column := range []string{col.USDPerHour, col.PriceSource, col.CostUSD, col.USDPer1MOutputTokens, col.USDPer1MOutputTokensWhole} {
			row[column] = nil
		}
		if usd, source := s.plan.PriceOf(cell.Server); source != "" {
			row[col.USDPerHour], row[col.PriceSource] = usd, source
		}
		row.Derive()
	}
	columns := s.plan.Columns()
	for name, v := range row {
		// The objectives of the other plan, and the columns of engines that this
		// one does not have.
		_, ours := result.Lookup(columns, name)
		if strings.HasPrefix(name, col.OfSLO("")) || !ours && v == nil {
			delete(row, name)
		}
	}
	o.SLOs = s.plan.Objectives(row, decides)
	o.Row, err = row.Conform(columns)
	return err
}

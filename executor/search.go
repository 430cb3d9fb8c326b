package executor

import (
	"context"
	"fmt"
	"slices"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A Search is one search of a plan, for one combination of the axes that it does not
// search.
type Search struct {
	search.Settings
	Cells []plan.Cell // of its levels
}

// Searches returns those over some cells of a plan; nil for a plan without find.
func Searches(p *plan.Plan, cells []plan.Cell) []Search {
	var out []Search
	for _, cells := range p.Searches(cells) {
		s := Search{Cells: cells, Settings: search.Settings{
			Confidence: p.Find.Confidence, Trials: plan.FindTrials, MaxTrials: plan.FindMostTrials, MaxProbes: p.Find.MaxProbes, Seed: p.Seed, Devices: p.Find.Devices,
		}}
		for _, slo := range p.SLO {
			s.Objectives = append(s.Objectives, slo.Name)
		}
		s.Implied = p.Implied()
		for _, c := range cells {
			s.Levels = append(s.Levels, c.Level(p.Find.Axis))
		}
		out = append(out, s)
	}
	for i := range out {
		if share := float64(len(out)); p.Budget != nil { // of the run
			out[i].Seconds, out[i].USD = p.Budget.MaxTime.Seconds()/share, p.Budget.MaxCost/share
		}
	}
	return out
}

// Key returns the trial of a probe.
func (s *Search) Key(p search.Probe) rundir.Key {
	return rundir.Key{Cell: s.Cells[p.Level].ID, Trial: p.Trial}
}

// Load returns the load of a probe.
func (s *Search) Load(p search.Probe) plan.Load { return s.Cells[p.Level].Load.Longer(p.Times) }

// Server returns one to rehearse the search on.
func (s *Search) Server(edge int, hard bool) search.Server {
	return search.Server{Edge: edge, Hard: hard, Requests: s.Cells[0].Load.Requests}
}

// An activeSearch is a search in progress. It is rebuilt from the outcomes of committed
// trials, so a resumed search asks for the same next trial.
type activeSearch struct {
	Search
	ended map[rundir.Key]search.Outcome
}

// next returns the trial that the search asks for, and the devices that it must not run on; ok
// is false if it has ended.
func (h *activeSearch) next() (p search.Probe, taken []string, ok bool) {
	outcomes, p, ok := search.Replay(h.Settings, func(p search.Probe) (search.Outcome, bool) {
		o, ended := h.ended[h.Key(p)]
		return o, ended
	})
	if !ok {
		return search.Probe{}, nil, false
	}
	return p, search.Taken(h.Settings, outcomes, p), true
}

// begun makes the searches over the trials of the deployment, with what was
// committed of them.
func (d *deployment) begun() error {
	var cells []plan.Cell
	for _, t := range d.trials {
		if t.key.Trial == 1 {
			cells = append(cells, t.cell)
		}
	}
	for _, s := range Searches(d.config.Plan, cells) {
		d.searches = append(d.searches, &activeSearch{Search: s, ended: map[rundir.Key]search.Outcome{}})
	}
	if len(d.searches) == 0 {
		return nil
	}
	for _, t := range d.trials {
		if !t.done {
			continue
		}
		o, err := rundir.Outcome(d.config.Path, d.config.State.Committed[t.key])
		if err != nil {
			return fmt.Errorf("what is known of %s: %w", Label(t.cell), err)
		}
		d.noteOutcome(t.key, o)
	}
	return nil
}

// noteOutcome gives the searches the outcome of a trial.
func (d *deployment) noteOutcome(key rundir.Key, o *result.Outcome) {
	for _, h := range d.searches {
		if slices.ContainsFunc(h.Cells, func(c plan.Cell) bool { return c.ID == key.Cell }) {
			h.ended[key] = search.Of(o)
			if on := h.ended[key].On; d.up != nil && d.up.Server != nil && on != "" {
				d.up.Device = on
			}
		}
	}
}

// runSearches runs the trials that the deployment's searches ask for, one search after another;
// first all that the server may run that is up.
func (d *deployment) runSearches(ctx context.Context) error {
	for {
		h, p, ok := d.nextSearch()
		if !ok || d.over(ctx) {
			return nil
		}
		t, err := d.at(h.Key(p))
		if err != nil {
			return err
		}
		t.why, t.cell.Load = p.Why, h.Load(p)
		if err := d.trial(ctx, t); err != nil {
			return err
		}
		o, ended := h.ended[t.key]
		if !ended {
			return nil // the run was ended, or its server could not be
		}
		if o.State == search.Measured {
			d.servers.Progressed()
		}
	}
}

// nextSearch returns the next trial of the first search that has not ended, or of the first that
// may use the device that is up; ok is false if all have ended. It sets excluded.
func (d *deployment) nextSearch() (of *activeSearch, next search.Probe, ok bool) {
	for _, h := range d.searches {
		p, taken, more := h.next()
		if !more || ok && (slices.Contains(taken, d.up.Device) || !d.isTaken()) {
			continue
		}
		of, next, ok, d.excluded = h, p, true, taken
	}
	return of, next, ok
}

// left returns how many trials of the deployment have no outcome; of searches the next trial
// of each that has not ended.
func (d *deployment) left() int {
	n := 0
	for _, h := range d.searches {
		if _, _, ok := h.next(); ok {
			n++
		}
	}
	if d.searches != nil {
		return n
	}
	for _, t := range d.trials {
		if !t.done {
			n++
		}
	}
	return n
}

// left returns that of all deployments, as of their last outcomes.
func (r *run) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leftLocked()
}

func (r *run) leftLocked() int {
	n := 0
	for _, d := range r.all {
		n += d.remaining
	}
	return n
}

// expected returns about how many trials the searches of the run have; 0 for a plan without.
func (r *run) expected() int {
	n := 0
	for _, d := range r.all {
		for _, h := range d.searches {
			n += len(search.Rehearse(h.Settings, h.Server(len(h.Levels)/2, false)))
		}
	}
	return n
}

// at returns the trial with a key.
func (d *deployment) at(key rundir.Key) (*trial, error) {
	i := slices.IndexFunc(d.trials, func(t trial) bool { return t.key == key })
	if i < 0 {
		return nil, fmt.Errorf("%s is to run trial %d of cell %s, which is not there", d.label, key.Trial, key.Cell)
	}
	return &d.trials[i], nil
}

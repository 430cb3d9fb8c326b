package report

import (
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/rundir"
)

// A Search is one search of a plan with find, for one combination of the axes that it does
// not search.
type Search struct {
	search.Settings
	Axis  string   `json:"axis"`  // its column
	Label string   `json:"label"` // the combination, in words; "" if there is one alone
	Cells []string `json:"cells"` // of the levels
	// Servers is how many copies of the model a deployment has; 0 if the plan does not say it.
	Servers int `json:"servers,omitempty"`
}

// A Searched is a search with what is known of it.
type Searched struct {
	Search
	Outcomes []search.Outcome // in the order in which the search asked for them
	Trials   []Trial          // the same
	Next     rundir.Key       // the trial that it asks for next
	Ended    bool             // then there is none
	// OverBudget: the run ended by its budget before the search.
	OverBudget bool
}

// Answers returns those of the search, one for each objective. The reason of a search that has
// not ended is "", but for one that the budget has cut short.
func (s *Searched) Answers() []search.Answer {
	answers := search.Answers(s.Settings, s.Outcomes)
	for i := range answers {
		if !s.Ended && !s.OverBudget && answers[i].Reason == search.Budget {
			answers[i].Reason = ""
		}
	}
	return answers
}

// Searches returns those of the plan, over the trials that have an outcome. Nil for a plan
// without find. They are looked up once: Trials with an outcome do not change.
func (r *Run) Searches() []Searched {
	if r.searched != nil {
		return r.searched
	}
	byKey := make(map[rundir.Key]Trial, len(r.Trials))
	for _, t := range r.Trials {
		if t.Outcome != nil {
			byKey[t.Key] = t
		}
	}
	var all []Searched
	for _, s := range r.Resolved.Searches {
		one := Searched{Search: s}
		key := func(p search.Probe) rundir.Key { return rundir.Key{Cell: s.Cells[p.Level], Trial: p.Trial} }
		outcomes, next, more := search.Replay(s.Settings, func(p search.Probe) (search.Outcome, bool) {
			t, ok := byKey[key(p)]
			if !ok {
				return search.Outcome{}, false
			}
			return search.Of(t.Outcome), true
		})
		one.Outcomes, one.Ended = outcomes, !more
		if more {
			one.Next = key(next)
			one.OverBudget = r.State.Ending != nil && r.State.Ending.Class == rundir.ClassBudget
		}
		for _, o := range outcomes {
			one.Trials = append(one.Trials, byKey[key(o.Probe)])
		}
		all = append(all, one)
	}
	r.searched = all
	return all
}

// committed are the trials of the plan that have an outcome: of a search nobody knows the
// others before.
func (r *Run) committed() {
	for _, c := range r.Resolved.Cells {
		for n := 1; n <= max(1, r.Resolved.Repeats); n++ {
			key := rundir.Key{Cell: c.ID, Trial: n}
			if commit, ok := r.State.Committed[key]; ok {
				r.Trials = append(r.Trials, Trial{Key: key, Cell: c, Commit: commit})
			}
		}
	}
}

// asked leaves the cells whose trials the searches have asked for, and adds the trial
// that each wants next.
func (r *Run) asked() {
	wanted := map[rundir.Key]bool{}
	for _, s := range r.Searches() {
		if !s.Ended {
			wanted[s.Next] = true
		}
	}
	have := map[rundir.Key]Trial{}
	for _, t := range r.Trials {
		have[t.Key] = t
	}
	var cells []conclude.Cell
	r.Trials = nil
	for _, c := range r.Resolved.Cells {
		before := len(r.Trials)
		for n := 1; n <= max(1, r.Resolved.Repeats); n++ {
			key := rundir.Key{Cell: c.ID, Trial: n}
			if t, ok := have[key]; ok {
				r.Trials = append(r.Trials, t)
			} else if wanted[key] {
				r.Trials = append(r.Trials, Trial{Key: key, Cell: c})
			}
		}
		if len(r.Trials) > before {
			cells = append(cells, c)
		}
	}
	r.Resolved.Cells = cells
}

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/rundir"
)

// Next returns the command that is to be run next.
func (r *Run) Next() string {
	return cmp.Or(r.Unfinished(), "sweep report "+plaintext.Word(r.Dir))
}

// Unfinished returns the command that does what the run left; "" if it left nothing.
func (r *Run) Unfinished() string {
	if slices.ContainsFunc(r.State.Owed, func(o rundir.Owed) bool { return !o.Kept() }) { // first of all, and it may be enough
		return "sweep resume " + plaintext.Word(r.Dir)
	}
	return r.Resume(r.Trials)
}

// Resume returns the command that measures those of some trials that have no numbers
// to use, or if all have, more of those of undecided cells, where it is known how many decide
// them. It is "" if there are none, or if the run was made of others, which are to be resumed.
func (r *Run) Resume(trials []conclude.Trial) (command string) {
	if len(r.State.Manifest.Merged) > 0 {
		return ""
	}
	for _, t := range trials {
		switch v := conclude.Judge(t); {
		case v == conclude.Invalid, v == conclude.FailedRun, v == conclude.NoStart && !r.Resolved.RecordStarts:
			return "sweep resume --retry invalid,failed " + plaintext.Word(r.Dir)
		case v == conclude.Pending:
			command = "sweep resume " + plaintext.Word(r.Dir)
		}
	}
	if command == "" && slices.ContainsFunc(r.Short(), func(p *conclude.Point) bool {
		n := p.Further()
		return n > 0 && n <= conclude.MostFurther && slices.ContainsFunc(trials, func(t conclude.Trial) bool { return t.Key.Cell == p.Cell.ID })
	}) {
		command = "sweep resume --retry " + string(conclude.Undecided) + " " + plaintext.Word(r.Dir)
	}
	return command
}

// Short returns the cells that are undecided although all of their trials have been measured. A
// search has none, as it measures what it needs.
func (r *Run) Short() []*conclude.Point {
	if r.bare || len(r.Resolved.Searches) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Conclude().Points), func(p *conclude.Point) bool {
		return p.Verdict != conclude.Undecided || slices.ContainsFunc(p.Trials, func(t conclude.Trial) bool { return conclude.Judge(t) == conclude.Pending })
	})
}

// Ended returns why the run ended before its time; "" if it did not, goes on or
// was killed.
func (r *Run) Ended() string {
	if !r.State.Finished {
		return ""
	}
	for _, e := range slices.Backward(r.State.Events) {
		var end struct {
			Error string `json:"error"`
		}
		if e.Type == "run_finished" && json.Unmarshal(e.Data, &end) == nil {
			return end.Error
		}
	}
	return ""
}

// NextOf returns the command that is to be run next by somebody who looked at one cell.
func (r *Run) NextOf(p *conclude.Point) string {
	return cmp.Or(r.Resume(p.Trials), fmt.Sprintf("sweep logs %s %s", plaintext.Word(r.Dir), p.Cell.ID))
}

// SpecAdvice is what to do about a server that cannot be started as the plan says it.
const SpecAdvice = "install the engine where PATH finds it, or say how it starts with engines.NAME.command (sweep plan --commands PLAN shows every command)"

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

// maxNow is how many of the trials that are being run are listed.
const maxNow = 8

// A status is what a run has come to.
type status struct {
	RunID    string         `json:"run_id"`
	Plan     string         `json:"plan"`
	Started  time.Time      `json:"started"`
	Last     time.Time      `json:"last_event"`
	LastType string         `json:"last_event_type"`
	Running  bool           `json:"running"`
	Trials   int            `json:"trials"`
	Counts   map[string]int `json:"counts"`         // by status, with pending
	Now      []string       `json:"now"`            // trials that are being run
	Owed     []string       `json:"owed"`           // pods that are not known to be gone
	Kept     []string       `json:"kept,omitempty"` // pods that were left running on purpose
	Warning  string         `json:"warning,omitempty"`
}

func (a *app) status(c *cli.Command, dir string) error {
	run, holder, err := openRun(dir)
	if err != nil {
		return err
	}
	m := run.State.Manifest
	s := status{RunID: m.RunID, Plan: m.Plan, Started: m.CreatedAt, Trials: len(run.Trials), Counts: map[string]int{}, Now: []string{}, Owed: []string{}, Warning: run.State.Warning}
	for _, t := range run.Trials {
		if t.Outcome == nil {
			s.Counts["pending"]++
			continue
		}
		s.Counts[fmt.Sprint(t.Outcome.Row[col.Status])]++
	}
	if n := len(run.State.Events); n > 0 {
		s.Last, s.LastType = run.State.Events[n-1].Time, run.State.Events[n-1].Type
	}
	for _, o := range run.State.Owed {
		if o.Kept() {
			s.Kept = append(s.Kept, fmt.Sprintf("%s, until %s", cmp.Or(o.Name, o.Pod), o.Expires.Local().Format(time.DateTime)))
			continue
		}
		s.Owed = append(s.Owed, o.Pod)
	}
	if s.Running = run.Running; s.Running {
		s.Now = atWork(run)
	}
	if c.Bool("json") {
		return a.json().Encode(s)
	}
	return a.statusText(s, run, holder)
}

// statusText prints a status for people.
func (a *app) statusText(s status, run *report.Run, holder *rundir.Holder) error {
	state := "not running"
	if s.Running {
		state = fmt.Sprintf("running as process %d on %s", holder.PID, holder.Host)
	}
	var counts []string
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", s.Counts[name], name))
	}
	page := a.page()
	page.Parts(s.Plan, fmt.Sprintf("%d of %s", s.Trials-s.Counts["pending"], humanize.Plural(s.Trials, "trial")), strings.Join(counts, ", "), state)
	line := func(format string, args ...any) { page.Text("  " + fmt.Sprintf(format, args...)) }
	for i, text := range s.Now {
		if i == maxNow {
			line("now: %d more", len(s.Now)-i)
			break
		}
		line("now: %s", text)
	}
	if s.Warning != "" {
		line("warning: %s", s.Warning)
	}
	for _, pod := range s.Owed {
		if s.Running {
			line("in use: pod %s", pod)
			continue
		}
		line("owed: pod %s is not known to be gone", pod)
	}
	for _, pod := range s.Kept {
		line("kept: pod %s", pod)
	}
	line("run %s, started %s, last event %s at %s", s.RunID, s.Started.Local().Format(time.DateTime), s.LastType, s.Last.Local().Format(time.TimeOnly))
	if err := page.Err(); err != nil {
		return err
	}
	if s.Running {
		a.next("sweep runs --watch " + plaintext.Word(run.Dir))
		return nil
	}
	a.next(run.Next())
	return nil
}

// atWork returns the trials that a run is at, in words.
func atWork(run *report.Run) []string {
	labels := map[rundir.Key]string{}
	for _, t := range run.Trials {
		labels[t.Key] = t.Cell.Label
	}
	list := []string{}
	for _, p := range run.State.Pending {
		text := labels[p.Key]
		if run.Repeated() {
			text += fmt.Sprintf(", trial %d", p.Trial)
		}
		if p.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", p.Attempt)
		}
		list = append(list, text)
	}
	return list
}

package main

import (
	"cmp"
	"context"
	"errors"
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

func (a *app) statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "says how far a run is, also while it runs",
		ArgsUsage: "[DIR]",
		Description: `Reads the journal of DIR, or of the latest run under runs/; it needs no lock and
changes nothing.

  $ sweep status runs/quickstart-20261121T101500Z-3f2a
  $ sweep status --watch                   # until the run ends, from another terminal` + exitHelp(exitOK, exitUsage, exitInt),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "go on showing it until the run ends"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			dir, err := a.runDir(c)
			if err != nil {
				return err
			}
			if c.Bool("watch") {
				if c.Bool("json") {
					return &usage{errors.New("--watch is for people; sweep run --events FILE has what happens as JSON lines")}
				}
				if err := a.watch(ctx, dir); err != nil {
					return err
				}
			}
			return a.status(c, dir)
		},
	}
}

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
	state := "not running"
	if s.Running {
		state = fmt.Sprintf("running as process %d on %s", holder.PID, holder.Host)
	}
	var counts []string
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", s.Counts[name], name))
	}
	fmt.Fprintf(a.out, "%s   %d of %s   %s   %s\n", s.Plan, s.Trials-s.Counts["pending"], humanize.Plural(s.Trials, "trial"), strings.Join(counts, ", "), state)
	fmt.Fprintf(a.out, "  run %s, started %s\n", s.RunID, s.Started.Local().Format(time.DateTime))
	fmt.Fprintf(a.out, "  last event: %s at %s\n", s.LastType, s.Last.Local().Format(time.DateTime))
	for i, text := range s.Now {
		if i == maxNow {
			fmt.Fprintf(a.out, "  now: %d more\n", len(s.Now)-i)
			break
		}
		fmt.Fprintf(a.out, "  now: %s\n", text)
	}
	if s.Warning != "" {
		fmt.Fprintf(a.out, "  warning: %s\n", plaintext.Line(s.Warning))
	}
	for _, pod := range s.Owed {
		if s.Running {
			fmt.Fprintf(a.out, "  in use: pod %s\n", pod)
			continue
		}
		fmt.Fprintf(a.out, "  owed: pod %s is not known to be gone\n", pod)
	}
	for _, pod := range s.Kept {
		fmt.Fprintf(a.out, "  kept: pod %s\n", pod)
	}
	if !s.Running {
		a.next(run.Next())
	}
	return nil
}

// atWork are the trials that a run is at, in words.
func atWork(run *report.Run) []string {
	labels := map[rundir.Key]string{}
	for _, t := range run.Trials {
		labels[t.Key] = t.Cell.Label
	}
	list := []string{}
	for _, p := range run.State.Pending {
		text := labels[p.Key]
		if run.Resolved.Repeats > 1 {
			text += fmt.Sprintf(", trial %d", p.Trial)
		}
		if p.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", p.Attempt)
		}
		list = append(list, text)
	}
	return list
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/rundir"
)

func (a *app) statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "says how far a run is, also while it runs",
		ArgsUsage: "DIR",
		Description: `Reads the journal of DIR; it needs no lock and changes nothing.

  $ sweep status runs/quickstart-20261121T101500Z-3f2a` + exitHelp(exitOK, exitUsage),
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print as JSON"}},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			dir, err := oneArg(c, "run directory")
			if err != nil {
				return err
			}
			return a.status(c, dir)
		},
	}
}

// A status is what a run has come to.
type status struct {
	RunID    string         `json:"run_id"`
	Plan     string         `json:"plan"`
	Started  time.Time      `json:"started"`
	Last     time.Time      `json:"last_event"`
	LastType string         `json:"last_event_type"`
	Running  bool           `json:"running"`
	Trials   int            `json:"trials"`
	Counts   map[string]int `json:"counts"` // by status, with pending
	Owed     []string       `json:"owed"`   // pods that are not known to be gone
}

func (a *app) status(c *cli.Command, dir string) error {
	run, err := report.Open(dir)
	if err != nil {
		return &usage{err}
	}
	m := run.State.Manifest
	s := status{RunID: m.RunID, Plan: m.Plan, Started: m.CreatedAt, Trials: len(run.Trials), Counts: map[string]int{}, Owed: []string{}}
	for _, t := range run.Trials {
		if t.Outcome == nil {
			s.Counts["pending"]++
			continue
		}
		s.Counts[fmt.Sprint(t.Outcome.Row["status"])]++
	}
	if n := len(run.State.Events); n > 0 {
		s.Last, s.LastType = run.State.Events[n-1].Time, run.State.Events[n-1].Type
	}
	for _, o := range run.State.Owed {
		s.Owed = append(s.Owed, o.Pod)
	}
	holder, err := rundir.LockHolder(dir)
	if err != nil {
		return err
	}
	s.Running = holder != nil
	if c.Bool("json") {
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	state := "not running"
	if s.Running {
		state = fmt.Sprintf("running as process %d on %s", holder.PID, holder.Host)
	}
	fmt.Fprintf(a.out, "%s  run %s, started %s, %s\n", s.Plan, s.RunID, s.Started.Local().Format(time.DateTime), state)
	fmt.Fprintf(a.out, "last event: %s at %s\n", s.LastType, s.Last.Local().Format(time.DateTime))
	names := make([]string, 0, len(s.Counts))
	for name := range s.Counts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(a.out, "%6d %s\n", s.Counts[name], name)
	}
	for _, pod := range s.Owed {
		fmt.Fprintf(a.out, "  owed: pod %s is not known to be gone\n", pod)
	}
	if !s.Running && (s.Counts["pending"] > 0 || len(s.Owed) > 0) {
		a.next("sweep resume " + dir)
	}
	return nil
}

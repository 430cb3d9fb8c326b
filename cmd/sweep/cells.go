package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/reconcile"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

func (a *app) cellsCommand() *cli.Command {
	return &cli.Command{
		Name:      "cells",
		Usage:     "shows the grid of a run, or everything about one cell",
		ArgsUsage: "[DIR [CELL]]",
		Description: `Without DIR it is the latest run under runs/.

  $ sweep cells
  $ sweep cells runs/quickstart-20261121T101500Z-3f2a
  $ sweep cells --status invalid,failed runs/quickstart-20261121T101500Z-3f2a
  $ sweep cells runs/quickstart-20261121T101500Z-3f2a 4be1   # an id's first digits do` + exitHelp(exitOK, exitUsage),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "status", Usage: "list trials with these `STATUSES` (" + strings.Join(cellStatuses, ",") + ") instead of the summary"},
			&cli.BoolFlag{Name: "json", Usage: "print rows as JSON lines"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			dir, err := a.runDir(c, "a cell")
			if err != nil {
				return err
			}
			run, _, err := openRun(dir)
			if err != nil {
				return err
			}
			if want := c.Args().Get(1); want != "" {
				return a.oneCell(c, run, want)
			}
			if want := c.String("status"); want != "" {
				return a.cellsByStatus(c, run, want)
			}
			return a.show(c, run, nil)
		},
	}
}

// cellStatuses are what --status takes.
var cellStatuses = []string{result.StatusOK, result.StatusInvalid, result.StatusFailed, result.StatusSkipped, "pending"}

func (a *app) cellsByStatus(c *cli.Command, run *report.Run, want string) error {
	wanted := strings.Split(want, ",")
	for _, w := range wanted {
		if !slices.Contains(cellStatuses, w) {
			return &usage{fmt.Errorf("--status %s: there is no status %q, want some of %s", want, w, strings.Join(cellStatuses, ","))}
		}
	}
	for _, t := range run.Trials {
		status := "pending"
		if t.Outcome != nil {
			status = fmt.Sprint(t.Outcome.Row[col.Status])
		}
		if !slices.Contains(wanted, status) {
			continue
		}
		var err error
		if c.Bool("json") {
			err = writeRows(a.out, report.RowsOf(t))
		} else {
			_, err = fmt.Fprintf(a.out, "%s  trial %d  %-13s  %s%s\n", t.Key.Cell, t.Trial, compare.Judge(t), plaintext.Line(t.Cell.Label), because(t))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// because is why a trial has no numbers to use, in codes.
func because(t report.Trial) string {
	if t.Outcome == nil {
		return ""
	}
	for _, column := range []string{col.InvalidReasons, col.ErrorClass} {
		if code, ok := t.Outcome.Row[column].(string); ok {
			return "  (" + plaintext.Line(code) + ")"
		}
	}
	return ""
}

// oneCell prints every column of a cell's trials that was measured.
func (a *app) oneCell(c *cli.Command, run *report.Run, want string) error {
	found := false
	for _, t := range run.Trials {
		if !strings.HasPrefix(t.Key.Cell, want) {
			continue
		}
		found = true
		if t.Outcome == nil {
			fmt.Fprintf(a.out, "%s  trial %d  %s: no outcome yet\n", t.Key.Cell, t.Trial, plaintext.Line(t.Cell.Label))
			continue
		}
		if c.Bool("json") {
			if err := writeRows(a.out, report.RowsOf(t)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.out, "%s  trial %d  attempt %d  %s\n", t.Key.Cell, t.Trial, t.Commit.Attempt, plaintext.Line(t.Cell.Label))
		bounds := t.Outcome.Row.Bounds()
		for _, c := range run.Resolved.Columns {
			text := bounds[c.Name] // of a percentile that is not known
			if v := t.Outcome.Row[c.Name]; v != nil {
				text = humanize.Figure(v)
			}
			if text != "" && !strings.HasSuffix(c.Name, col.ServerPercentileBounds) {
				fmt.Fprintln(a.out, strings.TrimRight(fmt.Sprintf("  %-28s %s %s", c.Name, plaintext.Line(text), c.Unit), " "))
			}
		}
		course, err := run.Course(t)
		if err != nil {
			return err
		}
		for _, line := range course {
			fmt.Fprintln(a.out, "  "+line)
		}
		a.sideBySide(t.Outcome.Row)
		for _, f := range append(t.Outcome.Invalid, t.Outcome.Findings...) {
			fmt.Fprintf(a.out, "  %s: %s\n", f.Code, plaintext.Line(f.Text))
		}
		for _, line := range t.Outcome.LogTail {
			fmt.Fprintf(a.out, "  | %s\n", plaintext.Line(line))
		}
		fmt.Fprintf(a.out, "  files: %s\n\n", rundir.AttemptDir(run.Dir, t.Commit))
	}
	if !found {
		return &usage{fmt.Errorf("no cell of %s begins with %q (see: sweep cells %s)", run.Dir, want, run.Dir)}
	}
	return nil
}

// sideBySide prints what client and engine say of the same thing.
func (a *app) sideBySide(row result.Row) {
	figures := reconcile.Compare(row)
	if len(figures) == 0 {
		return
	}
	fmt.Fprintf(a.out, "\n  %-28s %12s %12s\n", "the same by both sides", "client", "engine")
	for _, f := range figures {
		mark := ""
		if f.Code != (finding.Code{}) {
			mark = "  <- " + f.Code.String()
		}
		fmt.Fprintf(a.out, "  %-28s %12s %12s %s%s\n", f.Name, humanize.Figure(f.Client), humanize.Figure(f.Server), f.Unit, mark)
	}
	fmt.Fprintln(a.out)
}

// logPaths are the engine logs of a run, or of one cell's trials.
func logPaths(run *report.Run, cell string) ([]string, error) {
	if cell == "" {
		paths, err := launchLogs(run.Dir)
		if err != nil || len(paths) == 0 {
			return nil, fmt.Errorf("%s has no engine logs yet", run.Dir)
		}
		return paths, nil
	}
	var paths []string
	for _, t := range run.Trials {
		if t.Outcome == nil || !strings.HasPrefix(t.Key.Cell, cell) {
			continue
		}
		path := filepath.Join(rundir.AttemptDir(run.Dir, t.Commit), layout.EngineLog)
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no committed trial of a cell %q* has an engine log", cell)
	}
	return paths, nil
}

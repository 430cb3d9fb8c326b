package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/pick"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/onecell"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

func (a *app) cellsCommand() *cli.Command {
	return &cli.Command{
		Name:      "cells",
		Usage:     "shows the grid of a run, or everything about one cell",
		ArgsUsage: "[DIR] [CELL]",
		Description: `Without DIR it reads the latest run under runs/. CELL is an id or its
beginning, a label, values of axes, or an expression as --only takes. An
engine, model or GPU needs no name. The short forms of axes are:

  ` + strings.ReplaceAll(wrap(shortForms(), 74), "\n    ", "\n  ") + `

  $ sweep cells                               # the grid of the latest run
  $ sweep cells 'l4 c=8'                      # one cell, its trials side by side
  $ sweep cells runs/monday 'concurrency == 8 and max_tokens < 64'
  $ sweep cells --columns 'p9?_ttft_ms' 4be1  # other columns; all for all
  $ sweep cells --status invalid,failed` + exitHelp(exitOK, exitUsage),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "status", Usage: "list trials with these `STATUSES` (" + strings.Join(cellStatuses, ",") + ") instead of the summary"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "every detail of the run; of one cell: every trial by itself, all columns, and what client and server say of the same"},
			&cli.StringFlag{Name: "columns", Usage: "of one cell: the columns that `PATTERN` names (see: sweep list columns), or all"},
			&cli.BoolFlag{Name: "json", Usage: "print rows as JSON lines"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			dir, cell, err := a.runAndCell(c)
			if err != nil {
				return err
			}
			run, _, err := openRun(dir)
			if err != nil {
				return err
			}
			switch {
			case cell != "" && c.String("status") != "":
				return &usage{errors.New("--status lists trials of all cells: remove the cell or the flag")}
			case cell != "":
				return a.oneCell(c, run, cell)
			case c.String("columns") != "":
				return &usage{errors.New("--columns is about one cell: name it")}
			}
			if want := c.String("status"); want != "" {
				return a.cellsByStatus(c, run, want)
			}
			if err := a.show(c, run, nil); err != nil || c.Bool("json") {
				return err
			}
			_, err = fmt.Fprintf(a.out, "next: %s\n", run.Next())
			return err
		},
	}
}

// shortForms says which axes have a short form.
func shortForms() string {
	names, forms := axes.Shorts()
	for i, form := range forms {
		names[i] = form + " for " + names[i]
	}
	return strings.Join(names, ", ")
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
			err = writeRows(a.out, slices.Values(report.RowsOf(t)))
		} else {
			_, err = fmt.Fprintf(a.out, "%s  trial %d  %-13s  %s%s\n", t.Key.Cell, t.Trial, conclude.Judge(t), plaintext.Line(t.Cell.Label), because(t))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// because returns why a trial has no numbers to use, in codes.
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

// oneCell prints the cell that want stands for, or if it stands for several, which.
func (a *app) oneCell(c *cli.Command, run *report.Run, want string) error {
	columns, err := chosen(run, c.String("columns"))
	if err != nil {
		return err
	}
	found, err := pickCells(run, want)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		for _, p := range found {
			for _, t := range p.Trials {
				if err := writeRows(a.out, slices.Values(report.RowsOf(t))); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if len(found) > 1 {
		return a.severalCells(run, want, found)
	}
	o := onecell.Options{Style: a.style(), Verbose: c.Bool("verbose"), Columns: columns}
	if err := onecell.Write(a.out, run, found[0], o); err != nil {
		return err
	}
	a.next(run.NextOf(found[0]))
	return nil
}

// chosen returns the columns that --columns asks for; nil for the usual figures.
func chosen(run *report.Run, pattern string) ([]result.Column, error) {
	switch pattern {
	case "":
		return nil, nil
	case "all":
		return run.Resolved.Columns, nil
	}
	return matching(run.Resolved.Columns, pattern)
}

// mostCells bounds the cells that are listed for a text that many have.
const mostCells = 20

// severalCells lists cells that a text stands for.
func (a *app) severalCells(run *report.Run, want string, found []*conclude.Point) error {
	for i, p := range found {
		if i == mostCells {
			fmt.Fprintf(a.out, "... and %d more\n", len(found)-i)
			break
		}
		if _, err := fmt.Fprintf(a.out, "%s  %s %-13s  %s\n", p.Cell.ID, p.Verdict.Mark(), p.Outcome(), plaintext.Line(p.Cell.Label)); err != nil {
			return err
		}
	}
	a.say("%q is %d cells: name more of its axes, or an id", want, len(found))
	a.next(fmt.Sprintf("sweep cells %s %s", plaintext.Word(run.Dir), found[0].Cell.ID))
	return nil
}

// pickCells returns the cells of a run that a text stands for, at least one.
func pickCells(run *report.Run, want string) ([]*conclude.Point, error) {
	points := run.Conclude().Points
	cells := make([]pick.Cell, len(points))
	for i, p := range points {
		cells[i] = pick.Cell{ID: p.Cell.ID, Label: p.Cell.Label}
		for _, s := range p.Cell.Settings {
			cells[i].Settings = append(cells[i].Settings, pick.Setting{Column: s.Column, Value: s.Value})
		}
	}
	at, err := pick.Cells(want, cells)
	if err != nil {
		return nil, &usage{&hinted{err, "sweep cells " + plaintext.Word(run.Dir) + " shows the grid; an id, or axes like 'l4 c=8', or an expression as --only takes"}}
	}
	found := make([]*conclude.Point, len(at))
	for i, n := range at {
		found[i] = points[n]
	}
	return found, nil
}

// logPaths returns the engine logs of a run, or of one cell's trials.
func logPaths(run *report.Run, cell string) ([]string, error) {
	if cell == "" {
		paths, err := launchLogs(run.Dir)
		if err != nil || len(paths) == 0 {
			return nil, fmt.Errorf("%s has no engine logs yet", run.Dir)
		}
		return paths, nil
	}
	found, err := pickCells(run, cell)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, p := range found {
		for _, t := range p.Trials {
			if t.Outcome == nil {
				continue
			}
			dir := rundir.AttemptDir(run.Dir, t.Commit)
			path := filepath.Join(dir, layout.EngineLog)
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
			found, err := fs.Glob(os.DirFS(dir), layout.FoundLogs)
			if err != nil {
				return nil, err
			}
			for _, name := range found {
				paths = append(paths, filepath.Join(dir, name))
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no committed trial of %q has an engine log", cell)
	}
	return paths, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/report/derive"
	"sweep.dev/sweep/report/merge"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sinks"
	allsinks "sweep.dev/sweep/sinks/all"
)

func (a *app) mergeCommand() *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "makes one run directory of runs of one plan",
		ArgsUsage: "DIR DIR...",
		Description: `Makes a run directory of several of one plan, as of a grid that --only split over two
machines. Every other command reads it like any run. The directories are only read; the
new one appears once it is whole.

Runs of different plans, methods or versions are refused (exit 7), and so are a run
that owes a pod, and a cell that two runs have measured.

  $ sweep run --only 'gpu == "h100"' -o h100 plan.yaml  # on one machine
  $ sweep run --only 'gpu == "h200"' -o h200 plan.yaml  # on another
  $ sweep runs merge h100 h200 -o both` + exitHelp(exitOK, exitInternal, exitUsage, exitLocked, exitResume, exitInt, exitTerm),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "make the run `DIRECTORY`, which must not exist", Required: true},
			&cli.BoolFlag{Name: "share", Usage: "let all users of this machine read the run's files (0644, folders 0755) instead of its owner alone"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if n := c.Args().Len(); n < 2 {
				return &usage{fmt.Errorf("merge takes two run directories or more, got %d (see: %s --help)", n, c.FullName())}
			}
			return a.merge(ctx, c, c.Args().Slice(), c.String("output"))
		},
	}
}

func (a *app) merge(ctx context.Context, c *cli.Command, dirs []string, out string) error {
	if out == "" || out == "-" {
		return &usage{errors.New("-o wants the name of a directory")}
	}
	for _, dir := range dirs {
		if _, err := rundir.Read(dir); err != nil {
			return unreadable(dir, err)
		}
	}
	set, err := merge.Open(dirs)
	if refused, ok := errors.AsType[*merge.Refused](err); ok {
		return &statusError{exitResume, &hinted{fmt.Errorf("merge refused: %w", err), refused.Hint}}
	}
	if err != nil {
		return unreadable(dirs[0], err)
	}
	fx, err := a.effects(shared(c)...)
	if err != nil {
		return err
	}
	ctx, _, stop := signals(ctx, a.say)
	defer stop()
	if err := set.Into(ctx, fx, out); errors.Is(err, rundir.ErrExists) {
		return &usage{&hinted{fmt.Errorf("%s exists: a merge makes a new directory", plaintext.Word(out)), "-o names another one, or remove it first"}}
	} else if err != nil {
		return unusable(out, err)
	}
	for _, note := range set.Notes() {
		a.say("sweep: %s", plaintext.Line(note))
	}
	d, state, err := rundir.Open(fx, out)
	if err != nil {
		return err
	}
	_, err = derive.All(ctx, d, out, a.tables(out, state.Manifest, set), calibrations(set.Dirs()))
	if err := errors.Join(err, d.Close()); err != nil {
		return &hinted{err, plaintext.Word(out) + " is whole but for its tables: remove it and merge again"}
	}
	done, planned := set.Trials()
	a.say("run directory %s: %d runs, %d of %d trials", plaintext.Word(out), len(dirs), done, planned)
	a.next("sweep report " + plaintext.Word(out))
	return nil
}

// planOf returns the plan of a run directory, as it was run.
func (a *app) planOf(dir string, m rundir.Manifest) (*plan.Plan, error) {
	var text []byte
	if err := rundir.ReadFile(dir, layout.Plan, func(b []byte) error { text = b; return nil }); err != nil {
		return nil, err
	}
	return planfile.Parse(filepath.Join(dir, layout.Plan), m.PlanDir, text, planfile.Options{
		Vocabulary: vocabulary.All(), Set: m.Set, AllowEnv: m.AllowEnv, SendEnv: m.SendEnv, MaxCells: m.MaxCells, LookupEnv: a.env, Config: a.configFile(),
		EngineTexts: given[plan.EngineFile](m.Engines), Manifests: given[manifest.File](m.Manifests),
	})
}

// tables returns those that the plan of a run asks for, or all if the plan cannot be read
// here, as its files are on another machine.
func (a *app) tables(dir string, m rundir.Manifest, set *merge.Set) (list []sinks.Sink) {
	p, err := a.planOf(dir, m)
	if err == nil {
		made, err := build(p, nil)
		if err == nil {
			return made.sinks
		}
	}
	a.say("sweep: the plan cannot be opened here, so all tables are written as they are by default")
	for _, f := range allsinks.Factories() {
		if s, err := f.New(nil, set.Resolved().Columns); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// calibrations says of each run how exact its client was.
func calibrations(dirs []string) (lines []string) {
	for _, dir := range dirs {
		found, err := calibrationOf(dir)
		switch {
		case err != nil:
			lines = append(lines, err.Error())
		case found != nil:
			for _, line := range found.Lines() {
				lines = append(lines, dir+": "+line)
			}
		}
	}
	return lines
}

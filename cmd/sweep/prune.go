package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/rundir/retention"
)

func (a *app) pruneCommand() *cli.Command {
	return &cli.Command{
		Name:      "prune",
		Usage:     "removes old run directories",
		ArgsUsage: "[FOLDER]",
		Description: `Removes from FOLDER, or from runs/, all run directories but the latest N of each plan.
A run that is at work, that owes a pod or that cannot be read stays, and so does one
that --baseline names. Everything is listed first; nothing is removed without --yes or
somebody who agrees. The history of nights is another file and stays.

  $ sweep runs prune --keep 30
  $ sweep runs prune --keep 30 --baseline runs/v0.32 --yes
  $ sweep runs prune --keep 30 --dry-run --json` + exitHelp(exitOK, exitInternal, exitUsage),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "keep", Usage: "keep the latest `N` runs of each plan", Required: true, Validator: positive[int]},
			&cli.StringSliceFlag{Name: "baseline", Usage: "keep the run `DIRECTORY` too; may be repeated"},
			&cli.BoolFlag{Name: "dry-run", Usage: "remove nothing"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "remove without asking"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			folder, err := folderArg(c)
			if err != nil {
				return err
			}
			return a.prune(c, folder)
		},
	}
}

func (a *app) prune(c *cli.Command, folder string) error {
	runs, err := retention.Decide(folder, c.Int("keep"), c.StringSlice("baseline"))
	if errors.Is(err, fs.ErrNotExist) && folder == runsFolder && len(c.StringSlice("baseline")) == 0 {
		a.say("no runs in %s", folder)
		return nil
	}
	if err != nil {
		return &usage{err}
	}
	due, bytes := 0, int64(0)
	var text strings.Builder
	for _, r := range runs {
		word := "keep"
		if r.Remove {
			word = "remove"
			due++
			bytes += r.Bytes
		}
		started := "-"
		if !r.Started.IsZero() {
			started = r.Started.Local().Format(time.DateTime)
		}
		fmt.Fprintf(&text, "%-6s  %s  %s  %s\n", word, started, plaintext.Word(r.Dir), plaintext.Line(r.Why))
	}
	list := func() {
		if !c.Bool("json") {
			_, _ = io.WriteString(a.out, text.String()) // main tells what is not written
		}
	}
	// As gc does: a person reads it to answer, and --yes does not wait for a reader.
	if !c.Bool("yes") {
		list()
	}
	yes := false
	if due > 0 && !c.Bool("dry-run") {
		if yes, err = a.ask(c.Bool("yes"), fmt.Sprintf("remove %s, %.1f MB?", humanize.Plural(due, "run"), float64(bytes)/1e6)); err != nil {
			a.say("sweep: nothing was removed: %s would be; --yes removes without asking", humanize.Plural(due, "run"))
			return &usage{err}
		}
	}
	var failed error
	if yes {
		fx, err := a.effects()
		if err != nil {
			return err
		}
		for i := range runs {
			if r := &runs[i]; r.Remove {
				if err := retention.Remove(fx, *r); err != nil {
					r.Error = err.Error()
					failed = errors.Join(failed, fmt.Errorf("%s: %w", plaintext.Word(r.Dir), err))
					continue
				}
				r.Removed = true
			}
		}
	}
	if c.Bool("yes") {
		list()
	}
	if c.Bool("json") {
		if err := a.json().Encode(runs); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	switch {
	case due == 0:
		a.say("nothing to remove")
	case !yes:
		a.say("nothing was removed: %s would be", humanize.Plural(due, "run"))
	}
	return failed
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/rundir"
)

func (a *app) logsCommand() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "prints what the engines of a run wrote",
		ArgsUsage: "DIR [CELL]",
		Description: `Prints the log of every launch of DIR, or the part of it that belongs to one
cell's trials. Control characters are taken out.

  $ sweep logs runs/quickstart-20261121T101500Z-3f2a
  $ sweep logs -f runs/quickstart-20261121T101500Z-3f2a      # the newest launch, as it grows` + exitHelp(exitOK, exitUsage, exitInt),
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on printing until the run ends"}},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if n := c.Args().Len(); n < 1 || n > 2 {
				return &usage{fmt.Errorf("logs wants a run directory and perhaps a cell, got %d arguments", n)}
			}
			run, err := report.Open(c.Args().Get(0))
			if err != nil {
				return &usage{err}
			}
			paths, err := logPaths(run, c.Args().Get(1))
			if err != nil {
				return &usage{err}
			}
			if c.Bool("follow") {
				return a.follow(ctx, run.Dir, newest(paths))
			}
			for _, path := range paths {
				fmt.Fprintf(a.out, "==> %s <==\n", path)
				if err := a.copyLog(path); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newest(paths []string) string {
	var best string
	var when time.Time
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && !st.ModTime().Before(when) {
			best, when = p, st.ModTime()
		}
	}
	return best
}

func (a *app) copyLog(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.printLines(bufio.NewReader(f))
}

// printLines prints whole lines until the end of what is there.
func (a *app) printLines(r *bufio.Reader) error {
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if _, werr := fmt.Fprintln(a.out, report.Printable(line)); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// followEvery is how often a growing log is looked at.
const followEvery = 250 * time.Millisecond

func (a *app) follow(ctx context.Context, dir, path string) error {
	ctx, _, stop := signals(ctx, a.say)
	defer stop()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		holder, err := rundir.LockHolder(dir)
		if err != nil {
			return err
		}
		if err := a.printLines(r); err != nil || holder == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return &statusError{exitInt, nil}
		case <-time.After(followEvery):
		}
	}
}

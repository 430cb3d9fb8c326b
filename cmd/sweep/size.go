package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/size"
)

func (a *app) sizeCommand() *cli.Command {
	return &cli.Command{
		Name:      "size",
		Usage:     "says how many servers carry a load, from certified capacities",
		ArgsUsage: "[DIR...]",
		Description: `Takes the loads that the searches of runs (find in a plan) have certified, and says how
many servers of each kind carry a load together, with how many GPUs, at what price. No
server gets more than its certified load, so the answer holds if requests are spread
evenly over the servers; leave room for what you do not know, such as a server that fails.
A point estimate is never used. The cheapest kind is named if it is the cheapest also with
its slowest device and all others with their fastest (find.devices).

  $ sweep size --load 40/s runs/find-chat-20261121T101500Z-3f2a
  $ sweep size --load 90/min --objective interactive runs/l4 runs/h100
  $ sweep size --load 40/s --json` + exitHelp(exitOK, exitUsage, exitIncomplete),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "load", Required: true, Usage: "requests per second or minute: `RATE` such as 40/s or 90/min"},
			&cli.StringFlag{Name: "objective", Usage: "the objective of the plan with this `NAME`", DefaultText: "all"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			dirs := c.Args().Slice()
			if len(dirs) == 0 {
				dir, err := a.runDir(c)
				if err != nil {
					return err
				}
				dirs = []string{dir}
			}
			return a.size(c, dirs)
		},
	}
}

func (a *app) size(c *cli.Command, dirs []string) error {
	load, err := rateOf(c.String("load"))
	if err != nil {
		return &usage{fmt.Errorf("--load %w", err)}
	}
	var runs []*report.Run
	for _, dir := range dirs {
		run, _, err := openRun(dir)
		if err != nil {
			return err
		}
		if len(run.Resolved.Searches) == 0 {
			return &usage{&hinted{fmt.Errorf("%s: its plan has no find, so no load is certified", dir), "docs/capacity.md says how a plan searches for a load"}}
		}
		runs = append(runs, run)
	}
	answers := size.Of(runs, load, c.String("objective"))
	if len(answers) == 0 {
		return &usage{fmt.Errorf("--objective: no plan has an objective %q", c.String("objective"))}
	}
	sized := false
	for i := range answers {
		sized = sized || len(answers[i].Servers) > 0
	}
	if c.Bool("json") {
		err = a.json().Encode(answers)
	} else {
		page := a.page()
		sizes(page, answers)
		err = page.Err()
	}
	if err != nil {
		return gone(err)
	}
	if !sized {
		return &statusError{exitIncomplete, nil}
	}
	return nil
}

func sizes(page *draw.Document, answers []size.Answer) {
	for i := range answers {
		answer := &answers[i]
		if i > 0 {
			page.Blank()
		}
		page.Text(answer.Title())
		if len(answer.Servers) > 0 {
			page.Rows(answer.Rows()...)
			page.Text(answer.Conclusion())
		}
		for _, l := range answer.Left {
			page.Text(fmt.Sprintf("%s: %s", l.Name, l.Why))
		}
	}
}

// rateOf reads requests per second.
func rateOf(text string) (float64, error) {
	number, unit, ok := strings.Cut(strings.TrimSpace(text), "/")
	per := map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour}[strings.TrimSpace(unit)]
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || per == 0 || err != nil || !(v > 0 && v < 1e9) {
		return 0, errors.New(strconv.Quote(text) + ": want a rate above 0, such as 40/s, 90/min or 5000/h")
	}
	return v / per.Seconds(), nil
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/nightly"
)

func (a *app) trendCommand() *cli.Command {
	return &cli.Command{
		Name:  "trend",
		Usage: "shows the nights of a history, and when figures changed",
		Description: `Prints each series with its last 76 nights as bars, the band of sweep night gate, and the
nights with which its level changed for good, with what changed of the software then.
It sees all nights at once, so it finds steps that are too small for the gate.

With -o it writes a page: each series as a chart, with its nights as a table.

  $ sweep night trend --history chat.jsonl
  $ sweep night trend --history chat.jsonl -o trend.html
  $ sweep night trend --history chat.jsonl --plan chat-capacity --metric p95_ttft_ms` + exitHelp(exitOK, exitInternal, exitUsage),
		Flags: []cli.Flag{
			historyFlag(),
			&cli.StringFlag{Name: "plan", Usage: "show the cells of the plan `NAME`", DefaultText: "all plans"},
			metricFlag("show the column `METRIC`; may be repeated", gatedNames()),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the page to `FILE`, - for the standard output"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return &usage{fmt.Errorf("trend takes no arguments, got %q (--history FILE names the history)", c.Args().First())}
			}
			if c.Bool("json") && c.IsSet("output") {
				return &usage{errors.New("--json prints data and -o writes a page: choose one")}
			}
			metrics, err := metricsAsked(c)
			if err != nil {
				return err
			}
			f, err := readHistory(c.String("history"))
			if err != nil {
				return err
			}
			board, err := nightly.Ask(f, nightly.Question{Plan: c.String("plan"), Metrics: metrics})
			if err != nil {
				return &usage{err}
			}
			switch {
			case c.IsSet("output"):
				return a.writeTo(c, "", board.Page)
			case c.Bool("json"):
				return a.json().Encode(board.Trend())
			}
			return board.WriteTrend(a.out)
		},
	}
}

package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/nightly"
)

func (a *app) trendCommand() *cli.Command {
	return &cli.Command{
		Name:  "trend",
		Usage: "shows the nights of a history, and when figures changed",
		Description: `Prints each series with its last 76 nights as bars, the band of sweep gate, and the
nights with which its level changed for good, with what changed of the software then.
It sees all nights at once, so it finds steps that are too small for the gate.

  $ sweep trend --history chat.jsonl
  $ sweep trend --history chat.jsonl --plan chat-capacity --metric p95_ttft_ms` + exitHelp(exitOK, exitInternal, exitUsage),
		Flags: []cli.Flag{
			historyFlag(),
			&cli.StringFlag{Name: "plan", Usage: "show the cells of the plan `NAME`", DefaultText: "all plans"},
			metricFlag("show the column `METRIC`; may be repeated", gatedNames()),
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return &usage{fmt.Errorf("trend takes no arguments, got %q (--history FILE names the history)", c.Args().First())}
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
			return gone(board.WriteTrend(a.out))
		},
	}
}

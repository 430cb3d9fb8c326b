package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/sim"
)

func (a *app) simCommand() *cli.Command {
	return &cli.Command{
		Name:      "sim",
		Usage:     "serves a simulated engine on a simulated GPU",
		ArgsUsage: "FLAGS",
		Description: `The simulated engine takes the flags of the engine it plays.

  $ sweep sim --model Qwen/Qwen2.5-1.5B-Instruct --gpu l4 --port 8000
  $ sweep sim --help                        # all of its flags` + exitHelp(exitOK, exitInternal, exitUsage),
		// Its flags are an engine's, parsed as that engine parses them.
		SkipFlagParsing: true,
		Commands:        []*cli.Command{a.fitCommand()},
		Action: func(ctx context.Context, c *cli.Command) error {
			say := a.say
			if !a.errTTY {
				say = func(string, ...any) {} // stderr is an engine's log, which says it itself
			}
			ctx, _, stop := signals(ctx, say)
			defer stop()
			if code := sim.Main(ctx, c.Args().Slice(), a.out, a.err); code != exitOK {
				return &statusError{code, nil}
			}
			return nil
		},
	}
}

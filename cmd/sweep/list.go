package main

import (
	"context"

	"github.com/urfave/cli/v3"
)

// listCommand returns what sweep knows without a run: each of its lists is a command below.
func (a *app) listCommand() *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "lists engines, GPUs and columns, and prints the schemas of files",
		Description: `  $ sweep list engines
  $ sweep list gpus
  $ sweep list columns ttft
  $ sweep list schema > plan.schema.json` + exitHelp(exitOK, exitUsage),
		OnUsageError: usageError,
		Action:       onlyBelow,
		Commands:     []*cli.Command{a.enginesCommand(), a.gpusCommand(), a.columnsCommand(), a.schemaCommand()},
	}
}

// onlyBelow acts for a command that has commands below it and does nothing itself.
func onlyBelow(_ context.Context, c *cli.Command) error {
	if name := c.Args().First(); name != "" {
		return unknownCommand(c, name)
	}
	return cli.ShowSubcommandHelp(c)
}

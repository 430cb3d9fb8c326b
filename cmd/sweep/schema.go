package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/schemas"
)

func (a *app) schemaCommand() *cli.Command {
	return &cli.Command{
		Name:  "schema",
		Usage: "prints the JSON Schema of the plan language",
		Description: `Editors that speak yaml-language-server complete and check plans with it.

  $ sweep schema > plan.schema.json` + exitHelp(exitOK, exitUsage),
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Len() > 0 {
				return &usage{fmt.Errorf("schema takes no argument, got %q", c.Args().First())}
			}
			_, err := a.out.Write(schemas.Plan)
			return err
		},
	}
}

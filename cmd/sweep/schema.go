package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/schemas"
)

func (a *app) schemaCommand() *cli.Command {
	return &cli.Command{
		Name:      "schema",
		Usage:     "prints the JSON Schema of plans and other files",
		ArgsUsage: "[plan|engine|provider|answer|compare|noise]",
		Description: `An editor with yaml-language-server completes, explains and checks a plan
whose first line names the schema:

  # yaml-language-server: $schema=plan.schema.json

  $ sweep schema > plan.schema.json
  $ sweep schema engine > engine.schema.json
  $ sweep schema provider > provider.schema.json
  $ sweep schema answer > answer.schema.json
  $ sweep schema compare > compare.schema.json
  $ sweep schema noise > noise.schema.json` + exitHelp(exitOK, exitUsage),
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			text, ok := map[string][]byte{"": schemas.Plan, "plan": schemas.Plan, "engine": schemas.Engine, "provider": schemas.Provider, "answer": schemas.Answer, "compare": schemas.Compare, "noise": schemas.Noise}[c.Args().First()]
			if !ok || c.Args().Len() > 1 {
				return &usage{fmt.Errorf("schema takes plan, engine, provider, answer, compare or noise, got %q", c.Args().Slice())}
			}
			_, err := a.out.Write(text)
			return err
		},
	}
}

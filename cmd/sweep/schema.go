package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/schemas"
)

// schemaOf are the schemas by their names, in the order of the help.
var schemaOf = []struct {
	name string
	text []byte
}{
	{"plan", schemas.Plan},
	{"engine", schemas.Engine},
	{"provider", schemas.Provider},
	{"answer", schemas.Answer},
	{"compare", schemas.Compare},
	{"noise", schemas.Noise},
	{"gate", schemas.Gate},
	{"trend", schemas.Trend},
}

func schemaNames() (names []string) {
	for _, s := range schemaOf {
		names = append(names, s.name)
	}
	return names
}

func (a *app) schemaCommand() *cli.Command {
	return &cli.Command{
		Name:      "schema",
		Usage:     "prints the JSON Schema of plans and other files",
		ArgsUsage: "[" + strings.Join(schemaNames(), "|") + "]",
		Description: `An editor with yaml-language-server completes, explains and checks a plan
whose first line names the schema:

  # yaml-language-server: $schema=plan.schema.json

  $ sweep list schema > plan.schema.json
  $ sweep list schema engine > engine.schema.json
  $ sweep list schema provider > provider.schema.json
  $ sweep list schema answer > answer.schema.json
  $ sweep list schema compare > compare.schema.json
  $ sweep list schema noise > noise.schema.json
  $ sweep list schema gate > gate.schema.json
  $ sweep list schema trend > trend.schema.json` + exitHelp(exitOK, exitUsage),
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			name := cmp.Or(c.Args().First(), "plan")
			for _, one := range schemaOf {
				if one.name == name && c.Args().Len() <= 1 {
					_, err := a.out.Write(one.text)
					return err
				}
			}
			return &usage{fmt.Errorf("schema takes one of %s, got %q", strings.Join(schemaNames(), ", "), c.Args().Slice())}
		},
	}
}

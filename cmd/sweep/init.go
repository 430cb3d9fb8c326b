package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/plaintext"
)

//go:embed templates
var templates embed.FS

// initPoint is that of the new plan: it has no fault points of its own.
const initPoint effect.Point = "init.plan"

// templateNames returns the plans that init can begin with.
func templateNames() ([]string, error) {
	entries, err := templates.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names, nil
}

func (a *app) initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "writes a first plan to edit",
		ArgsUsage: "[FILE]",
		Description: `Prints a plan with comments, or writes it to FILE, which must not be there
yet. A template runs on the simulator as it is; --from asks a running server
for its model and engine, as sweep bench does, and nothing is measured.

  $ sweep init chat.yaml                        # users of a chat
  $ sweep init --template compare engines.yaml  # two engines on two GPUs
  $ sweep init --from http://127.0.0.1:8000 server.yaml  # a running server` + exitHelp(exitOK, exitUsage, exitIncomplete, exitProvider),
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "template", Usage: "begin with `NAME`: batch, chat, compare, memory or rag", DefaultText: "chat"},
			&cli.StringFlag{Name: "from", Usage: "begin with the server at `URL`"},
			&cli.StringFlag{Name: "model", Usage: "with --from: ask for this `MODEL`; needed if the server has several"},
			&cli.BoolFlag{Name: "allow-link-local", Usage: "permit an address that is link-local or a cloud's metadata service"},
		}, keyFlags()...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return &usage{fmt.Errorf("init wants one FILE at most, got %d arguments", c.Args().Len())}
			}
			text, err := a.firstPlan(ctx, c)
			if err != nil {
				return err
			}
			path := c.Args().First()
			if path == "" {
				_, err := io.WriteString(a.out, text)
				return err
			}
			if err := a.writeNew(initPoint, path, text); err != nil {
				return err
			}
			a.next("sweep plan " + plaintext.Word(path))
			return nil
		},
	}
}

// firstPlan returns the text of a template, or a plan of the server that --from names.
func (a *app) firstPlan(ctx context.Context, c *cli.Command) (string, error) {
	if target := c.String("from"); target != "" {
		if c.IsSet("template") {
			return "", &usage{errors.New("--from and --template: only one of them")}
		}
		return a.planFrom(ctx, c, target)
	}
	names, err := templateNames()
	if err != nil {
		return "", err
	}
	name := cmp.Or(c.String("template"), "chat")
	if !slices.Contains(names, name) {
		return "", &usage{fmt.Errorf("--template: there is no %q: want one of %s", name, strings.Join(names, ", "))}
	}
	b, err := templates.ReadFile("templates/" + name + ".yaml")
	return string(b), err
}

// modeline lets an editor check a plan.
const modeline = "# yaml-language-server: $schema=plan.schema.json\n# The line above lets an editor check this plan: sweep list schema > plan.schema.json\n#\n"

// planFrom returns the plan that sweep bench would run, with an objective to edit.
func (a *app) planFrom(ctx context.Context, c *cli.Command, target string) (string, error) {
	u, err := serverURL(c, target)
	if err != nil {
		return "", err
	}
	b := &benchmark{
		Command: "Question: how much load does the server at " + u + " carry?", URL: u, LinkLocal: c.Bool("allow-link-local"), Model: c.String("model"),
		Concurrency: []int{1, 4, 16}, Requests: benchRequests, Duration: benchDuration, Input: "512", Output: "128", SLOs: []string{"p95_ttft_ms < 500"},
	}
	server, _, err := a.serverOf(ctx, c, b)
	if err != nil {
		return "", err
	}
	b.Engine, b.Model = server.engine, server.model
	return modeline + b.plan(), nil
}

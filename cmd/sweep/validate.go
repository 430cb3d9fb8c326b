package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/result/finding"
)

func (a *app) validateCommand() *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "lists every error in a plan",
		ArgsUsage: "PLAN...",
		Description: `Checks keys, types, units, names, expressions and the size of the matrix,
and prints every fault with its place. Nothing is started and no network is
used.

  $ sweep validate plans/*.yaml` + exitHelp(exitOK, exitUsage),
		Flags:        append(planFlags(), &cli.BoolFlag{Name: "json", Usage: "print the faults as JSON"}),
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Len() == 0 {
				return &usage{errors.New("validate wants at least one plan (see: sweep validate --help)")}
			}
			return a.validate(c)
		},
	}
}

func (a *app) validate(c *cli.Command) error {
	var good, bad []string
	first := "" // the place of the first fault
	faults := []plan.Diagnostic{}
	for _, path := range c.Args().Slice() {
		p, made, err := a.open(path, a.planOptions(c))
		if err == nil {
			_, _, err = filter(p, made, "", nil, "")
		}
		var diags *plan.Diagnostics
		var refused *usage
		switch {
		case err == nil:
			good = append(good, path)
			size := humanize.Plural(len(p.Cells()), "cell")
			if p.Find != nil {
				size = humanize.Plural(len(p.Searches(p.Cells())), "search")
			}
			if !c.Bool("json") {
				fmt.Fprintf(a.out, "%s: ok, %s in %s\n", path, size, humanize.Plural(len(p.Deployments()), "deployment"))
			}
			a.listSends(path, made.sends)
			a.warnOfContent(path, p)
			a.warnOfScale(path, made)
			a.warnOfFew(path, p)
			a.warnOfLimits(path, p)
		case errors.As(err, &diags):
			bad = append(bad, path)
			if d := diags.List; first == "" && len(d) > 0 {
				first = fmt.Sprintf("%s:%d:%d", plaintext.Line(d[0].File), d[0].Line, d[0].Col)
			}
			faults = append(faults, diags.List...)
			if !c.Bool("json") {
				a.complain(err)
			}
		case errors.As(err, &refused):
			bad = append(bad, path)
			faults = append(faults, plan.Diagnostic{File: path, Line: 1, Col: 1, EndCol: 1, Message: err.Error(), Rule: "refused"})
			if !c.Bool("json") {
				a.complain(fmt.Errorf("%s: %w", path, err))
			}
		default:
			return err
		}
	}
	if c.Bool("json") {
		enc := a.json()
		if err := enc.Encode(faults); err != nil {
			return err
		}
	} else {
		a.afterValidate(good, bad, first)
	}
	if len(bad) > 0 {
		return &statusError{exitUsage, nil}
	}
	return nil
}

// afterValidate says how many plans are right, if there are several, and on the last line
// what to do next. A plan of the standard input has no name to go on with.
func (a *app) afterValidate(good, bad []string, first string) {
	all := len(good) + len(bad)
	if len(bad) > 0 {
		if all > 1 {
			a.say("%d of %s ok", len(good), humanize.Plural(all, "plan"))
		}
		again := make([]string, len(bad))
		for i, path := range bad {
			again[i] = plaintext.Word(path)
		}
		if first == "" {
			first = bad[0]
		}
		a.say("next: correct %s, then sweep validate %s", first, strings.Join(again, " "))
		return
	}
	if all > 1 {
		fmt.Fprintf(a.out, "%d of %d plans ok\n", all, all)
	}
	if good[0] != planfile.Stdin {
		fmt.Fprintf(a.out, "next: sweep plan %s\n", plaintext.Word(good[0]))
	}
}

// warnOfScale warns that every trial of a plan will be INVALID, since its servers do
// not run at their own speed.
func (a *app) warnOfScale(path string, made *plugins) {
	if scale := made.traits().scale; scale != 1 {
		a.say("%s: warning: backend.time_scale is %v: every trial will be INVALID; leave it out, and shorten the load [%s]", path, scale, finding.TimeScaled)
	}
}

// warnOfContent says of which engines a plan measures with content that cannot
// answer how fast they are.
func (a *app) warnOfContent(path string, p *plan.Plan) {
	said := map[string]bool{}
	for _, d := range p.Deployments() {
		for _, cell := range d.Cells {
			why := p.Unrepresentative(cell)
			if text := cell.Server.Engine + ": " + why; why != "" && !said[text] {
				said[text] = true
				a.say("%s: warning: engine %s [%s]", path, text, finding.ContentUnrepresentative)
			}
		}
	}
}

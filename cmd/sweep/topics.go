package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/result"
)

// A topic is what sweep help explains besides commands. Each is made from the table
// that the program itself works by.
type topic struct {
	name, doc string
	write     func(io.Writer)
}

func topics() []topic {
	return []topic{
		{"expressions", "what exclude, --only, slo and a cell's expression may say", expressionsTopic},
		{"axes", "what the matrix of a plan may vary", axesTopic},
		{"columns", "what is known of a trial, and how columns are named", columnsTopic},
		{"plan", "the keys at the top of a plan", planTopic},
		{"exit", "what each exit status says", exitTopic},
	}
}

// described returns a list for a help text: a line for each thing, with its name and what it is.
func described[T any](things []T, of func(T) (name, doc string)) string {
	var list strings.Builder
	w := tabwriter.NewWriter(&list, 0, 0, 2, ' ', 0)
	for _, t := range things {
		name, doc := of(t)
		fmt.Fprintf(w, "\n  %s\t%s", name, doc)
	}
	_ = w.Flush() // to memory
	return list.String()
}

func (a *app) helpCommand() *cli.Command {
	list := described(topics(), func(t topic) (name, doc string) { return t.name, t.doc })
	return &cli.Command{
		Name:         "help",
		Aliases:      []string{"h"},
		Usage:        "explains a command or a topic",
		ArgsUsage:    "[COMMAND|TOPIC]",
		Description:  "The topics are:\n" + list + exitHelp(exitOK, exitUsage),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			name := c.Args().First()
			if name == "" {
				if err := cli.ShowRootCommandHelp(c.Root()); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.out, "\nTOPICS of sweep help TOPIC:%s\n", strings.ReplaceAll(list, "\n  ", "\n   "))
				return err
			}
			return a.help(ctx, c.Root(), c.Args().Slice())
		},
	}
}

// help explains a command, also one below another, or a topic.
func (a *app) help(ctx context.Context, root *cli.Command, path []string) error {
	names := make([]string, 0, 32)
	for _, t := range topics() {
		if t.name == path[0] && len(path) == 1 {
			t.write(a.out)
			return nil
		}
		names = append(names, t.name)
	}
	above, at := root, root
	for _, name := range path {
		above, at = at, at.Command(name)
		if at == nil || at.Hidden {
			for _, sub := range above.Commands {
				names = append(names, sub.Name)
			}
			err := fmt.Errorf("there is no command and no topic %q (see: sweep help)", strings.Join(path, " "))
			if near := syntax.Nearest(name, names); near != "" {
				err = fmt.Errorf("there is no command and no topic %q; did you mean %q?", strings.Join(path, " "), near)
			}
			return &usage{err}
		}
	}
	if len(at.VisibleCommands()) > 0 {
		return cli.ShowSubcommandHelp(at)
	}
	return cli.ShowCommandHelp(ctx, above, at.Name)
}

func expressionsTopic(w io.Writer) {
	fmt.Fprint(w, `An expression is true or false for a cell or a trial.

  where                      it reads
  exclude, --only            the axes of the matrix (sweep help axes)
  sweep cells DIR CELL       the axes of the run
  slo                        the columns of a trial (sweep help columns)

`)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  form\tmeaning\texample")
	for _, f := range plan.ExpressionForms() {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", f.Form, f.Doc, f.Example)
	}
	_ = t.Flush() // errors of w come back from what is written last
	fmt.Fprint(w, "\nA number may carry a unit that fits what it is compared with:\n")
	for _, kind := range plan.ExpressionUnits() {
		fmt.Fprintf(w, "  %s\n", strings.Join(kind, ", "))
	}
	fmt.Fprint(w, `
Text stands in quotes: in a shell, 'engine == "vllm"'. A column that was not measured
leaves an objective unchecked, never passed.
`)
}

func axesTopic(w io.Writer) {
	fmt.Fprint(w, "An axis has one value or a list of them; cells are the product of all axes.\n\n")
	names, forms := axes.Shorts()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  axis\tshort\tvalues\tmeaning")
	for _, d := range axes.Docs() {
		short := "-"
		if i := slices.Index(names, d.Name); i >= 0 {
			short = forms[i]
		}
		values := "any"
		switch {
		case d.Text:
			values = "text"
		case d.Whole:
			values = "whole numbers"
		case d.Number:
			values = "numbers"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", d.Name, short, values, d.Field.Doc)
	}
	_ = t.Flush()
	fmt.Fprint(w, `
Lists: [1, 2, 4], 1-32, or {from: 1, to: 32, factor: 2} for numbers. The short form
serves where a cell is named: sweep cells 'l4 c=8'.
`)
}

func columnsTopic(w io.Writer) {
	fmt.Fprint(w, `A column's name is STATISTIC_QUANTITY_UNIT: p95_ttft_ms, max_kv_cache_usage. Latencies
and rates are of the plateau; the same with _whole is of the whole trial. A value that
was not measured is null. These are the columns of the tier core, which cells.csv has;
sweep list columns [PATTERN] lists all.

`)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  column\tunit\tmeaning")
	for _, c := range result.Columns(result.Extra{}) {
		if c.Tier == result.Core {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", c.Name, cmp.Or(c.Unit, "-"), c.Doc)
		}
	}
	_ = t.Flush()
}

func planTopic(w io.Writer) {
	fmt.Fprint(w, "The keys at the top of a plan; sweep list schema has all of them for an editor.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  key\tdefault\tmeaning")
	for _, f := range fieldtag.Of(reflect.TypeFor[plan.Plan]()) {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", f.Key, cmp.Or(f.Default, "-"), f.Doc)
	}
	_ = t.Flush()
}

func exitTopic(w io.Writer) {
	fmt.Fprintf(w, "If several hold, the exit status is the first of %s.\n\n", joined(exitOrder[:len(exitOrder)-1])) // without 0
	for _, e := range exitDocs {
		fmt.Fprintf(w, "  %3d  %s\n", e.code, wrapExit(e.doc))
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/judge/published"
)

func (a *app) judgeCommand() *cli.Command {
	list := described(published.Checks(), func(c published.Check) (name, doc string) { return c.Code, c.Meaning })
	return &cli.Command{
		Name:      "judge",
		Usage:     "says which figures of another tool's files can be trusted",
		ArgsUsage: "FILE...",
		Description: `Reads result files of vllm bench, aiperf, guidellm and InferenceX, by their content,
and says which of their figures must not be used, and why. What a file does not tell
enough for is said to be undecided, which is no praise. - is the standard input. It
looks for:
` + list + `

  $ vllm bench serve ... --save-result --save-detailed --result-filename vllm.json
  $ sweep judge vllm.json
  $ sweep judge --figure p95 benchmarks.json   # only these decide the exit status
  $ sweep judge profile_export_aiperf.json benchmarks.json --json` +
			exitHelp(exitOK, exitUsage, exitIncomplete),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "figure", Usage: "judge the figures with `TEXT` in their names alone, such as p95"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			return a.judgeFiles(c)
		},
	}
}

// A judgedFile is what is to be thought of one file.
type judgedFile struct {
	File  string              `json:"file"`
	Loads []published.Verdict `json:"loads"`
}

func (a *app) judgeFiles(c *cli.Command) error {
	if c.Args().Len() == 0 {
		return &usage{fmt.Errorf("judge wants a FILE (see: %s --help)", c.FullName())}
	}
	files := make([]judgedFile, 0, c.Args().Len())
	for _, name := range c.Args().Slice() {
		data, err := a.readResult(name)
		if err != nil {
			return &usage{err}
		}
		loads, err := published.Of(data, published.Options{Figure: c.String("figure")})
		if unknown, ok := errors.AsType[*published.UnknownError](err); ok {
			return &usage{&hinted{fmt.Errorf("%s: %w", name, err), unknown.Hint()}}
		}
		if err != nil {
			return &usage{fmt.Errorf("%s: %w", name, err)}
		}
		files = append(files, judgedFile{name, loads})
	}
	if c.Bool("json") {
		if err := a.beside(a.json().Encode(files)); err != nil {
			return err
		}
	} else {
		for i, f := range files {
			if i > 0 {
				fmt.Fprintln(a.out)
			}
			if err := a.beside(printJudged(a.out, f)); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		for _, v := range f.Loads {
			if !v.Trusted() {
				return &statusError{code: exitIncomplete}
			}
		}
	}
	return nil
}

func (a *app) readResult(name string) ([]byte, error) {
	if name == "-" {
		return input.ReadStream("standard input", a.in, published.MaxBytes)
	}
	return input.ReadNamed(name, published.MaxBytes)
}

// printJudged prints what is to be thought of a file, for people.
func printJudged(out io.Writer, f judgedFile) error {
	for _, v := range f.Loads {
		fmt.Fprintf(out, "%s   %s   %s\n", plaintext.Line(f.File), plaintext.Line(strings.TrimSpace(v.Tool+" "+v.Version)), v.Load)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, g := range v.Findings {
			text := g.Text
			if g.State == published.Undecided {
				text = "cannot be told from this file: " + text
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", g.State, g.Code, text)
			if g.Advice != "" {
				fmt.Fprintf(w, "  \t\t-> %s\n", g.Advice)
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, g := range grouped(v.Bad) {
			fmt.Fprintf(out, "  do not use (%s)  %s\n", g[0], plaintext.Line(g[1]))
		}
		if len(v.Left) > 0 {
			fmt.Fprintf(out, "  nothing found against  %s\n", plaintext.Line(strings.Join(v.Left, ", ")))
		}
	}
	return nil
}

// grouped returns the reasons not to use figures, each once, with the figures.
func grouped(bad []published.BadFigure) (groups [][2]string) {
	for _, b := range bad {
		codes := strings.Join(b.Codes, ", ")
		i := slices.IndexFunc(groups, func(g [2]string) bool { return g[0] == codes })
		if i < 0 {
			groups = append(groups, [2]string{codes, b.Figure})
			continue
		}
		groups[i][1] += ", " + b.Figure
	}
	return groups
}

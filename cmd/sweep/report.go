package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/answer"
	"sweep.dev/sweep/report/junit"
	"sweep.dev/sweep/report/summary"
	"sweep.dev/sweep/report/webpage"
)

// Where sweep report writes in the first run directory if -o names no other file: the report
// of that run alone, and one of several runs.
const (
	reportFile  = "report.html"
	reportsFile = "reports.html"
)

func (a *app) reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "writes a report of one or several runs as a single HTML file",
		ArgsUsage: "[DIR...]",
		Description: `The file needs no network and no other file, and can be read without
JavaScript. Without DIR it reads the latest run under runs/.

  $ sweep report                              # DIR/report.html, latest run
  $ sweep report runs/monday runs/tuesday     # of both: runs/monday/reports.html
  $ sweep report --charts charts runs/monday  # each chart as an SVG file too
  $ sweep report --format md >>$GITHUB_STEP_SUMMARY # the summary, at most 900 KiB
  $ sweep report --format junit -o sweep.xml  # cells and objectives
  $ sweep report --format json                # answer.json of each run

With --load RATE it writes nothing: it takes the loads that the searches of the runs (find
in a plan) have certified, and says how many servers of each kind carry RATE together, with
how many GPUs, at what price. No server gets more than its certified load, so the answer
holds if requests are spread evenly over the servers; leave room for what you do not know,
such as a server that fails. A point estimate is never used. The cheapest kind is named if
it is the cheapest also with its slowest device and all others with their fastest
(find.devices).

  $ sweep report --load 40/s runs/find-chat-20261121T101500Z-3f2a
  $ sweep report --load 90/min --objective interactive runs/l4 runs/h100` + exitHelp(exitOK, exitUsage, exitIncomplete),
		Flags: append(sizeFlags(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`; - is the standard output", DefaultText: "DIR/" + reportFile + ", of several runs " + reportsFile},
			&cli.StringFlag{Name: "format", Value: "html", Usage: "write html, md, junit or json; all but html go to the standard output unless -o names a file"},
			&cli.StringFlag{Name: "charts", Usage: "write each chart as an SVG file into `DIR`"},
		),
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.IsSet("load") {
				for _, file := range []string{"output", "format", "charts"} {
					if c.IsSet(file) {
						return &usage{fmt.Errorf("--%s: with --load no report is written; --json prints the answer as JSON", file)}
					}
				}
				return a.size(c)
			}
			if c.IsSet("objective") || c.IsSet("json") {
				return &usage{errors.New("--objective and --json are of --load RATE; --format json has answer.json of each run")}
			}
			runs, err := a.runsNamed(c)
			if err != nil {
				return err
			}
			return a.report(c, runs)
		},
	}
}

// runsNamed returns the runs that a command line names, or the latest.
func (a *app) runsNamed(c *cli.Command) ([]*report.Run, error) {
	dirs := c.Args().Slice()
	if len(dirs) == 0 {
		dir, err := a.runDir(c)
		if err != nil {
			return nil, err
		}
		dirs = []string{dir}
	}
	var runs []*report.Run
	for _, dir := range dirs {
		run, _, err := openRunWith(report.OpenLean, dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func (a *app) report(c *cli.Command, runs []*report.Run) error {
	if dir := c.String("charts"); dir != "" {
		if err := a.charts(dir, webpage.Drawings(runs)); err != nil {
			return err
		}
	}
	switch format := c.String("format"); format {
	case "html":
		file := reportFile
		if len(runs) > 1 {
			file = reportsFile
		}
		return a.writeTo(c, filepath.Join(runs[0].Dir, file), func(w io.Writer) error { return webpage.Write(w, runs) })
	case "md":
		return a.writeTo(c, "-", func(w io.Writer) error { return summary.Markdown(w, runs) })
	case "junit":
		return a.writeTo(c, "-", func(w io.Writer) error { return junit.Write(w, runs) })
	case "json":
		return a.writeTo(c, "-", func(w io.Writer) error {
			for _, run := range runs {
				if err := answer.Write(w, run); err != nil {
					return err
				}
			}
			return nil
		})
	default:
		return &usage{fmt.Errorf("--format %s: want one of html, md, junit, json", plaintext.Line(format))}
	}
}

// writeTo writes a file that only its owner may read, whole or not at all; or to the
// standard output.
func (a *app) writeTo(c *cli.Command, path string, write func(io.Writer) error) error {
	if c.IsSet("output") {
		path = c.String("output")
	}
	switch path {
	case "":
		return &usage{errors.New("-o wants the name of a file")}
	case "-":
		return write(a.out)
	}
	fx, err := a.effects()
	if err != nil {
		return err
	}
	if err := fx.WriteFileAtomic(effect.DeriveCreate, path, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	a.say("%s", plaintext.Word(path))
	return nil
}

// charts writes each chart of runs into a folder.
func (a *app) charts(dir string, drawings []webpage.Drawing) error {
	fx, err := a.effects()
	if err != nil {
		return err
	}
	if err := fx.MkdirAll(effect.DeriveCreate, dir); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	for _, d := range drawings {
		path := filepath.Join(dir, d.Name+".svg")
		err := fx.WriteFileAtomic(effect.DeriveCreate, path, func(w io.Writer) error {
			_, err := io.WriteString(w, d.SVG)
			return err
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	a.say("%d charts in %s", len(drawings), plaintext.Word(dir))
	return nil
}

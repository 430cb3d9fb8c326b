package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/result/noise"
	"sweep.dev/sweep/sinks/csv"
)

func (a *app) compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "says which cells of a run are faster or slower than before",
		ArgsUsage: "BASE HEAD",
		Description: `Holds each cell of the run directory HEAD against the same cell of BASE: what
differs between the two runs, the ratio of each figure with its 95 % interval, and
a verdict: faster, slower, same (within 2 %) or cannot tell. Both directories are
only read. Of all verdicts faster and slower at most 5 % are wrong on average
(Benjamini-Hochberg). If both runs asked the same quality prompts, it also says
whether a deployment of HEAD answers worse.

  $ sweep compare runs/v0.31 runs/v0.32
  $ sweep compare --max-regression 10% -v runs/v0.31 runs/v0.32    # every cell and figure
  $ sweep compare --noise noise.json --strict runs/base runs/head  # see: sweep compare noise
  $ sweep compare --csv compare.csv --json runs/base runs/head` + exitHelp(exitOK, exitInternal, exitUsage, exitIncomplete, exitRegression),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "max-regression", Value: "5%", Usage: "exit 98 if a figure is certainly worse by more than this `SHARE`: 5% or 0.05; 0 for no bound"},
			noiseFlag(),
			&cli.BoolFlag{Name: "strict", Usage: "a cell that is too noisy to tell is exit 3 and not 0"},
			allowMissing(),
			&cli.StringFlag{Name: "csv", Usage: "write each figure, with the rows of both sides, as a line to `FILE`"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "every cell with every figure"},
		},
		Commands:     []*cli.Command{a.noiseCommand()},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() != 2 {
				return &usage{fmt.Errorf("compare takes two run directories, got %d arguments (see: %s --help)", c.Args().Len(), c.FullName())}
			}
			return a.compare(ctx, c, c.Args().Get(0), c.Args().Get(1))
		},
	}
}

// allowMissing returns the flag of the commands that judge the cells of two runs or more.
func allowMissing() cli.Flag {
	return &cli.BoolFlag{Name: "allow-missing", Usage: "a cell that cannot be judged (INVALID, failed, no outcome) is no reason for exit 3, if others can"}
}

// noiseFlag returns that of the commands that hold differences against the noise.
func noiseFlag() cli.Flag {
	return &cli.StringFlag{Name: "noise", Usage: "the noise between runs, as sweep compare noise wrote it to `FILE`; without it the intervals are within one launch of each side"}
}

func (a *app) compare(ctx context.Context, c *cli.Command, base, head string) error {
	most, err := shareOf(c.String("max-regression"))
	if err != nil {
		return &usage{fmt.Errorf("--max-regression %w", err)}
	}
	known, err := openNoise(c.String("noise"))
	if err != nil {
		return err
	}
	var sides [2]compare.Side
	for i, dir := range []string{base, head} {
		run, _, err := openRun(dir)
		if err != nil {
			return err
		}
		sides[i] = compare.Of(run)
		if sides[i].Answers, err = paired.Read(run.Dir); err != nil {
			return err
		}
	}
	found := compare.Compare(sides[0], sides[1], compare.Options{MaxRegression: most, Noise: known})
	if path := c.String("csv"); path != "" {
		fx, err := a.effects()
		if err == nil {
			err = fx.WriteFileAtomic(effect.DeriveCreate, path, func(w io.Writer) error {
				return csv.Write(ctx, w, compare.Columns(), found.Rows())
			})
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	if c.Bool("json") {
		err = a.json().Encode(found)
	} else {
		err = found.Write(a.out, c.Bool("verbose"))
	}
	if err = a.beside(err); err != nil {
		return err
	}
	var codes []int
	if len(found.Cells) == 0 || found.Holes() > 0 && !c.Bool("allow-missing") || c.Bool("strict") && found.TooNoisy() {
		codes = append(codes, exitIncomplete)
	}
	if found.Worse() {
		codes = append(codes, exitRegression)
	}
	if !c.Bool("verbose") && len(found.Cells) > 0 {
		a.next(fmt.Sprintf("sweep compare -v %s %s", plaintext.Word(base), plaintext.Word(head)))
	}
	return exitWith(worstJudged(codes...))
}

// openNoise reads a noise file; nil without a path.
func openNoise(path string) (*noise.File, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err == nil {
		var f *noise.File
		if f, err = noise.Parse(text); err == nil {
			return f, nil
		}
	}
	return nil, &usage{&hinted{fmt.Errorf("--noise %s: %w", path, err), "sweep compare noise PLAN -o FILE writes such a file"}}
}

// shareOf reads a share from 0 on, below 1: 5%, 0.05.
func shareOf(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, errors.New(strconv.Quote(text) + ": want a share from 0 on and below 100%, such as 5% or 0.05")
	}
	return v, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/rundir"
)

// noiseFile is where sweep compare noise writes if -o names no other file.
const noiseFile = "noise.json"

func (a *app) noiseCommand() *cli.Command {
	return &cli.Command{
		Name:      "noise",
		Usage:     "keeps how far runs of a plan differ with nothing changed",
		ArgsUsage: "PLAN|DIR DIR...",
		Description: `Runs PLAN as many times as --times says, each on fresh launches, and writes for each
cell and figure how far trials of one run differ, and runs. sweep compare --noise
holds a difference between two runs against that. Each is an ordinary run, which
shows what it costs and asks. The runs are in a folder beside the file; the same
command after a kill goes on with them. With run directories in place of PLAN it
measures nothing: it takes runs that are there, of one plan.

  $ sweep compare noise plans/chat-capacity.yaml --times 10 -o noise.json
  $ sweep compare noise runs/monday runs/tuesday runs/friday -o noise.json
  $ sweep compare --noise noise.json runs/base runs/head` + exitHelp(),
		Flags: append(append(planFlags(),
			&cli.IntFlag{Name: "times", Usage: "make `N` runs; each more makes the noise between runs better known", Value: 10, Validator: atLeastTwo},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`; the runs are in the folder of this name with -runs in place of .json", Value: noiseFile},
			&cli.StringFlag{Name: "only", Usage: "run the cells for which `EXPR` over the axes is true"},
		), flagsWithout(runFlags(), "json", "keep-pod", "verbose", "events")...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if areDirs(c.Args().Slice()) {
				return a.noiseFrom(c, c.Args().Slice())
			}
			path, err := oneArg(c, "plan")
			if err != nil {
				return err
			}
			return a.noise(ctx, c, path)
		},
	}
}

func atLeastTwo(n int) error {
	if n < 2 {
		return fmt.Errorf("want at least 2 runs, got %d", n)
	}
	return nil
}

// flagsWithout returns flags but for those of some names.
func flagsWithout(flags []cli.Flag, names ...string) []cli.Flag {
	return slices.DeleteFunc(flags, func(f cli.Flag) bool { return slices.Contains(names, f.Names()[0]) })
}

func (a *app) noise(ctx context.Context, c *cli.Command, path string) error {
	out := c.String("output")
	if out == "" || out == "-" || path == planfile.Stdin {
		return &usage{errors.New("noise wants the names of files for the plan and for -o: it goes on with them after a kill")}
	}
	options := a.planOptions(c)
	p, _, err := a.open(path, options)
	if err != nil {
		return err
	}
	folder := strings.TrimSuffix(out, ".json") + "-runs"
	var runs []*report.Run
	for n := 1; n <= c.Int("times"); n++ {
		dir := filepath.Join(folder, fmt.Sprintf("%02d", n))
		run, err := a.noiseRun(ctx, c, p, path, dir, fmt.Sprintf("noise: run %d of %d", n, c.Int("times")))
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return a.keepNoise(c, out, runs)
}

// areDirs reports whether arguments name run directories and no plan.
func areDirs(args []string) bool {
	if len(args) == 0 {
		return false
	}
	info, err := os.Stat(args[0])
	return err == nil && info.IsDir()
}

// noiseFrom prints the noise of runs that are there.
func (a *app) noiseFrom(c *cli.Command, dirs []string) error {
	if c.IsSet("times") {
		return &usage{errors.New("--times says how often a plan is run: run directories are taken as they are")}
	}
	var runs []*report.Run
	for _, dir := range dirs {
		run, holder, err := openRun(dir)
		if err != nil {
			return err
		}
		if holder != nil {
			return &rundir.LockedError{Dir: dir, Holder: *holder}
		}
		if err := sameMethod("noise", run.State.Manifest); err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return a.keepNoise(c, c.String("output"), runs)
}

// keepNoise writes the noise of runs to a file.
func (a *app) keepNoise(c *cli.Command, out string, runs []*report.Run) error {
	file, err := compare.NoiseFile(runs)
	if err != nil {
		return &usage{err}
	}
	if len(file.Cells) == 0 {
		return &statusError{exitIncomplete, &hinted{errors.New("no cell has a VALID trial in two runs: nothing was written"), "sweep cells " + plaintext.Word(runs[0].Dir) + " says why"}}
	}
	changed := 0
	for _, cell := range file.Cells {
		if len(cell.Subjects) > 1 {
			changed++
		}
	}
	if changed > 0 {
		a.say("sweep: the software differs between the runs of %s: that is in the noise too (subject_digests of the file)", humanize.Plural(changed, "cell"))
	}
	err = a.writeTo(c, out, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(file)
	})
	if err == nil {
		err = a.beside(compare.WriteNoise(a.out, file))
	}
	if err == nil {
		a.next(fmt.Sprintf("sweep compare --noise %s BASE HEAD", plaintext.Word(out)))
	}
	return err
}

// noiseRun returns one run of the plan, whole: one that is there, one that is gone on with, or
// a new one. What failed or is INVALID in it is no reason to stop.
func (a *app) noiseRun(ctx context.Context, c *cli.Command, p *plan.Plan, path, dir, name string) (*report.Run, error) {
	state, err := rundir.Read(dir)
	switch {
	case errors.Is(err, rundir.ErrNoRun):
		a.say("%s in %s", name, dir)
		_, made, opened := a.open(path, a.planOptions(c)) // plug-ins are of one run
		if opened != nil {
			return nil, opened
		}
		err = a.start(ctx, c, toRun{plan: p, plugins: made, path: path, options: a.planOptions(c), dir: dir, show: quiet})
	case err != nil:
		return nil, unreadable(dir, err)
	case state.Manifest.PlanDigest != p.Digest() || state.Manifest.Only != c.String("only"):
		return nil, &usage{&hinted{fmt.Errorf("%s is a run of another plan, or of other cells of it", dir), "-o names another file, or remove the folder of its runs"}}
	case sameMethod("noise", state.Manifest) != nil:
		return nil, sameMethod("noise", state.Manifest)
	case len(state.Committed) >= state.Planned():
		a.say("%s is in %s", name, dir)
	default:
		a.say("%s goes on in %s", name, dir)
		err = a.resume(ctx, c, dir, nil)
	}
	run, opened := measuredRun(dir, err)
	switch {
	case opened != nil:
		return nil, opened
	case len(run.State.Committed) < run.State.Planned():
		if err == nil {
			err = &statusError{exitIncomplete, fmt.Errorf("%s has %s without an outcome", dir, humanize.Plural(run.State.Planned()-len(run.State.Committed), "trial"))}
		}
		return nil, err
	}
	return run, nil
}

// measuredRun opens a run that has just ended with an error, or is there already. It fails
// if the run was cut short; cells that failed or missed an objective are results.
func measuredRun(dir string, ended error) (*report.Run, error) {
	if code := exitCode(ended); ended != nil && code != exitIncomplete && code != exitSLO {
		return nil, ended
	}
	run, holder, err := openRun(dir)
	switch {
	case err != nil:
		return nil, errors.Join(ended, err)
	case holder != nil:
		return nil, &rundir.LockedError{Dir: dir, Holder: *holder}
	}
	return run, nil
}

// quiet shows nothing: summary.md of each run has it.
func quiet(*report.Run, draw.Style) error { return nil }

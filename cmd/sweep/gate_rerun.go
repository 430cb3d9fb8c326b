package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly"
	"sweep.dev/sweep/nightly/history"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/rundir"
)

// rerunSuffix is what the directory of a second measurement has behind the run's name.
const rerunSuffix = "-rerun"

// rerun measures cells of a run again, adds that to the history as a second measurement of
// its night, and judges the night by both.
func (a *app) rerun(ctx context.Context, c *cli.Command, run *report.Run, q nightly.Question, cells []string) (*nightly.Board, []string, error) {
	dir := strings.TrimRight(run.Dir, string(filepath.Separator)) + rerunSuffix
	a.say("gate: %s worse for the first night: measuring again in %s", humanize.Plural(len(cells), "cell"), plaintext.Word(dir))
	second, err := a.rerunOf(ctx, c, run, dir, cells)
	if err != nil {
		return nil, nil, err
	}
	nights := history.Nights(second)
	for i := range nights {
		nights[i].Again = run.State.Manifest.RunID
	}
	fx, err := a.effects()
	if err != nil {
		return nil, nil, err
	}
	if _, err := history.Add(ctx, fx, c.String("history"), nights, history.SettingsOf(second)); err != nil {
		return nil, nil, unusableHistory(err)
	}
	board, holes, err := a.judge(c, run, q)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range board.Fresh() {
		for _, cell := range run.Resolved.Cells {
			if cell.ID == id {
				holes = append(holes, cell.Label+": the second measurement has no valid figure for what is worse ("+dir+")")
			}
		}
	}
	return board, holes, nil
}

// rerunOf runs the plan of a run again for some of its cells, or goes on with that. What
// failed or is INVALID in it is no reason to stop.
func (a *app) rerunOf(ctx context.Context, c *cli.Command, run *report.Run, dir string, cells []string) (*report.Run, error) {
	m := run.State.Manifest
	state, err := rundir.Read(dir)
	switch {
	case errors.Is(err, rundir.ErrNoRun):
		err = a.startAgain(ctx, c, run, dir, cells)
	case err != nil:
		return nil, unreadable(dir, err)
	case state.Manifest.PlanDigest != m.PlanDigest || state.Manifest.CreatedAt.Before(m.CreatedAt):
		return nil, &usage{&hinted{fmt.Errorf("%s is no second measurement of %s", plaintext.Word(dir), plaintext.Word(run.Dir)), "remove it, or move it away"}}
	case len(state.Committed) < state.Planned():
		err = a.resume(ctx, c, dir, nil)
	default:
		a.say("gate: %s is there already, and counts", plaintext.Word(dir))
	}
	return measuredRun(dir, err)
}

// startAgain begins the second measurement.
func (a *app) startAgain(ctx context.Context, c *cli.Command, run *report.Run, dir string, cells []string) error {
	m := run.State.Manifest
	p, err := a.samePlan("rerun", run.Dir, m)
	if err != nil {
		return err
	}
	fx, err := a.effects(shared(c)...)
	if err != nil {
		return err
	}
	made, err := build(p, fx)
	if err != nil {
		return err
	}
	options := planfile.Options{Set: m.Set, AllowEnv: m.AllowEnv, SendEnv: m.SendEnv, MaxCells: m.MaxCells}
	return a.start(ctx, c, toRun{
		plan: p, plugins: made, path: filepath.Join(run.Dir, layout.Plan), planDir: m.PlanDir, options: options, dir: dir, cells: cells, show: quiet,
	})
}

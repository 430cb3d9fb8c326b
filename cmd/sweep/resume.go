package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/reuse"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

func (a *app) resumeCommand() *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "continues a run that was stopped, killed or incomplete",
		ArgsUsage: "[DIR]",
		Description: fmt.Sprintf(`Ends what the earlier run may have left, then runs every trial of DIR that
has no outcome yet. What is committed is never measured again, unless
--retry says so. Resuming a complete run changes nothing. If pods must be
rented again, it shows their cost and asks, as sweep run does. Without DIR
it resumes the latest run under runs/.

--retry undecided adds trials to the cells whose objectives are undecided:
as many as would decide them, at most %d a cell. They count together with
those before, and a later resume goes on with them.

  $ sweep resume runs/quickstart-20261121T101500Z-3f2a
  $ sweep resume --retry invalid,failed runs/quickstart-20261121T101500Z-3f2a
  $ sweep resume --retry undecided runs/quickstart-20261121T101500Z-3f2a`, conclude.MostFurther) + exitHelp(),
		Flags: append([]cli.Flag{
			sendFlag(),
			&cli.StringFlag{Name: "retry", Usage: "run trials with these `STATUSES` again: invalid,failed; or add trials to cells that are undecided"},
		}, runFlags()...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			dir, err := a.runDir(c)
			if err != nil {
				return err
			}
			retry, err := statuses(c.String("retry"))
			if err != nil {
				return err
			}
			return a.resume(ctx, c, dir, retry)
		},
	}
}

// unreadable returns why dir cannot be read as a run, and what to do.
func unreadable(dir string, err error) error {
	info, statErr := os.Stat(dir)
	switch {
	case errors.Is(err, rundir.ErrNoRun), errors.Is(err, report.ErrMethod):
		return &usage{err}
	case errors.Is(err, rundir.ErrDamaged):
		return &usage{&hinted{err, "bring the file back from a copy of the directory, or measure again: sweep run with the plan"}}
	case statErr == nil && !info.IsDir():
		return &usage{&hinted{fmt.Errorf("%s is not a directory", dir), "name the run directory, which sweep run printed first"}}
	case errors.Is(err, fs.ErrPermission):
		return &usage{fmt.Errorf("%s: %w", dir, err)}
	}
	return err
}

func statuses(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	list := strings.Split(text, ",")
	for _, s := range list {
		if !slices.Contains([]string{result.StatusInvalid, result.StatusFailed, result.SLOUndecided}, s) {
			return nil, &usage{fmt.Errorf("--retry %s: want one or more of invalid, failed and undecided, got %q", text, s)}
		}
	}
	return list, nil
}

func (a *app) resume(ctx context.Context, c *cli.Command, dir string, retry []string) (err error) {
	// Refuse what can be refused before the lock changes anything.
	before, err := rundir.Read(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	if _, err := report.ReadResolved(dir); err != nil { // without it nothing could be derived at the end
		return unreadable(dir, err)
	}
	m := before.Manifest
	m.SendEnv = append(m.SendEnv, flagWords(c.StringSlice("send-env"))...)
	if n := len(m.Merged); n > 0 {
		return &statusError{exitResume, &hinted{
			fmt.Errorf("resume refused: %s was made of %s", dir, humanize.Plural(n, "run")),
			"resume those, or measure what is missing with sweep run --only, and merge again",
		}}
	}
	p, err := a.samePlan("resume", dir, m)
	if err != nil {
		return unreadable(dir, err)
	}
	// A run of an earlier version does not say it, and decided by points.
	if as, want := cmp.Or(m.Decide, rundir.DecidePoint), c.String("decide"); want != "" && want != as {
		return &usage{fmt.Errorf("--decide %s: the objectives of %s are decided by %s: a resume cannot change that", want, dir, as)}
	}
	fx, err := a.effects(shared(c)...)
	if err != nil {
		return err
	}
	made, err := build(p, fx)
	if err != nil {
		return err
	}
	_, only, err := filter(p, made, m.Only, m.OnlyCells, c.String("client"))
	if err != nil {
		return err
	}
	if _, err := a.agreeSends(c, dir, p, made.sends); err != nil {
		return err
	}
	notifyFinish, err := a.finishNotifier(ctx, c, p)
	if err != nil {
		return err
	}
	var source *reuse.Source
	if m.Reuse != "" && !before.Reused {
		source, err = a.openReuse(m.Reuse, p, only, c.String("client"), "the run has ended while it took trials over from there: put it back, or start a new run")
		if err != nil {
			return err
		}
	}
	d, state, err := rundir.Open(fx, dir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			return &usage{&hinted{fmt.Errorf("%s: %w", dir, err), "resume writes into the run directory; sweep cells and sweep runs only read it"}}
		}
		return err
	}
	a.say("run directory %s", dir)
	if state.Warning != "" {
		a.say("sweep: %s", state.Warning)
	}
	j := job{plan: p, plugins: made, dir: d, state: state, path: dir, only: only, retry: retry, strict: c.Bool("strict"), notifyFinish: notifyFinish}
	if err := j.takeOver(ctx, source); err != nil {
		return errors.Join(err, d.Close())
	}
	if err := a.prepare(ctx, c, &j); err != nil {
		return errors.Join(err, d.Close())
	}
	if len(j.more) > 0 {
		if err := d.AddTrials(j.more); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	return a.execute(ctx, c, j)
}

// further adds trials to the cells that are undecided, to the state of the job alone: they are
// written down once they are agreed to.
func (a *app) further(j *job) error {
	if !slices.Contains(j.retry, result.SLOUndecided) {
		return nil
	}
	if j.plan.Find != nil {
		return &usage{errors.New("--retry undecided: a search measures an undecided load longer by itself")}
	}
	run, err := report.Open(j.path)
	if err != nil {
		return err
	}
	cells := 0
	for _, p := range run.Short() {
		switch n := p.Further(); {
		case n == 0:
			a.say("%s: %s; no number of trials is known that decides it", p.Cell.Label, p.Why)
		case n > conclude.MostFurther:
			a.say("%s: %s; about %d more trials would decide it, which are too many (at most %d): a plan with longer ones does (load.requests, load.duration)", p.Cell.Label, p.Why, n, conclude.MostFurther)
		default:
			cells++
			j.more = append(j.more, added(run, p.Cell.ID, n)...)
		}
	}
	if len(j.more) == 0 {
		a.say("no cell has trials added")
		return nil
	}
	a.say("%s undecided: %s added", humanize.Plural(cells, "cell"), humanize.Plural(len(j.more), "trial"))
	j.state.Added = append(slices.Clone(j.state.Added), j.more...)
	if err := executor.Claim(j.plan, j.state, j.only); err != nil {
		return &usage{err}
	}
	return nil
}

// added returns the keys of so many more trials of a cell.
func added(run *report.Run, cell string, n int) []rundir.Key {
	last := 0
	for _, t := range run.Trials {
		if t.Key.Cell == cell {
			last = max(last, t.Key.Trial)
		}
	}
	keys := make([]rundir.Key, n)
	for i := range keys {
		keys[i] = rundir.Key{Cell: cell, Trial: last + 1 + i}
	}
	return keys
}

// samePlan returns the plan of a run that this program measures further: it refuses one that
// would now measure something else, or in another way. what is resume or rerun.
func (a *app) samePlan(what, dir string, m rundir.Manifest) (*plan.Plan, error) {
	if err := sameMethod(what, m); err != nil {
		return nil, err
	}
	p, err := a.planOf(dir, m)
	if err != nil {
		return nil, err
	}
	// Another version may have other defaults, and then the digest is another too.
	if err := sameEnvironment(what, m, p); err != nil {
		return nil, err
	}
	if got := p.Digest(); got != m.PlanDigest {
		return nil, &statusError{exitResume, &hinted{
			fmt.Errorf("%s refused: the plan of %s is not the one it was started with (digest %s, now %s)", what, plaintext.Word(dir), m.PlanDigest, got),
			"a prompt file, an environment variable or plan.yaml itself has changed; put it back, or start a new run",
		}}
	}
	return p, nil
}

// sameMethod refuses a run whose figures are made in another way than this program
// makes them. what is resume, rerun, reuse or noise.
func sameMethod(what string, m rundir.Manifest) error {
	method := result.MethodOf(m.Method)
	if method == result.Method {
		return nil
	}
	return &statusError{exitResume, &hinted{
		fmt.Errorf("%s refused: the figures of the run are made by method %d, this sweep makes them by method %d", what, method, result.Method),
		"figures of two methods must not stand in one grid; go on with the sweep that began, or start a new run",
	}}
}

// sameEnvironment says why what this process measures must not stand beside the
// trials of a run; nil if it may. what is resume, rerun or reuse.
func sameEnvironment(what string, m rundir.Manifest, p *plan.Plan) error {
	var why, hint string
	switch host, sweep := clientHost(), version(); {
	case m.Host != host:
		why = fmt.Sprintf("the run was started on %s, this is %s", m.Host, host)
		hint = "trials of two clients must not stand in one grid; start a new run here"
	case m.Version != sweep:
		why = fmt.Sprintf("the run was started by sweep %s, this is %s", m.Version, sweep)
		hint = "another version may measure differently; go on with the one that began, or start a new run"
	case m.Variables != p.Variables():
		why = "an environment variable that the plan reads (${NAME}) has another value than when the run was started"
		hint = "set it as it was, or start a new run"
	default:
		return nil
	}
	return &statusError{exitResume, &hinted{fmt.Errorf("%s refused: %s", what, why), hint}}
}

// prepare ends what the earlier run has left, since that may cost money; then it
// calibrates and asks for agreement.
func (a *app) prepare(ctx context.Context, c *cli.Command, j *job) error {
	if err := j.within(c.Int("max-gpus")); err != nil {
		return err
	}
	if err := a.reclaim(ctx, c, j); err != nil {
		return err
	}
	if err := a.further(j); err != nil {
		return err
	}
	calibration, fresh, err := a.calibrateResume(ctx, c, j)
	if err != nil {
		return err
	}
	if fresh {
		if err := j.dir.WriteCalibration(calibration); err != nil {
			return err
		}
	}
	j.calibration = calibration
	if err := a.quoteSearches(ctx, *j); err != nil {
		return err
	}
	return a.agree(ctx, c, *j)
}

// reclaim ends what the earlier run has left. Its error was already printed,
// with the next command.
func (a *app) reclaim(ctx context.Context, c *cli.Command, j *job) error {
	if len(j.state.Owed) == 0 {
		return nil
	}
	pods, err := a.openPodLedger(*j)
	if err != nil {
		return err
	}
	ui, err := a.newUI(c, *j)
	if err != nil {
		return err
	}
	ctx, teardown, stop := signals(ctx, ui.notice)
	defer stop()
	ui.start()
	rep, err := executor.Reclaim(ctx, a.config(teardown, c, *j, pods, ui))
	ui.stop()
	if err != nil || rep.Interrupted != nil {
		return a.verdict(*j, nil, rep, err)
	}
	j.state, err = rundir.Read(j.path)
	return err
}

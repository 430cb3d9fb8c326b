package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubelock"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly/history"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
)

// nightCommand returns all that is of nights.
func (a *app) nightCommand() *cli.Command {
	return &cli.Command{
		Name:  "night",
		Usage: "measures a plan each night, and judges it by those before",
		Description: `The nights of a plan are kept in its history, one file of JSON lines with a checksum
each, which is only appended to: a line for each cell and run, of the VALID trials alone.

  $ sweep night run plans/chat-capacity.yaml
  $ sweep night schedule --target systemd plans/chat-capacity.yaml
  $ sweep night trend --history chat-capacity.jsonl` + exitHelp(exitOK, exitUsage),
		OnUsageError: usageError,
		Action:       onlyBelow,
		Commands: []*cli.Command{
			a.nightRunCommand(), a.gateCommand(), a.trendCommand(), a.acceptCommand(), a.scheduleCommand(), a.fetchCommand(),
		},
	}
}

func (a *app) nightRunCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "measures a plan once more, and judges it by the nights before",
		ArgsUsage: "PLAN",
		Description: `Makes one night of PLAN in the working directory, as the files of sweep night schedule do, and
needs no shell: sweep run into runs/, then gate, report and prune. A night that was killed
less than ` + strconv.Itoa(resumeDays) + ` days ago is resumed in place of a new run, if the plan, the machine and the
version of sweep are still the same. One that was killed after its last trial is judged first.

It ends with the worse of the codes of the run and of the gate. A regression (98) wins over
cells without a result (3) and over an SLO that failed (99).
Another night of the plan in this directory is not joined (exit 6).

--pool NAMESPACE/LEASE holds a Lease of a Kubernetes cluster meanwhile: of all nights that
name it one is at work at any time. A night that loses it stops (exit 3).

  $ sweep night run plans/chat-capacity.yaml
  $ sweep night run --max-time 3h --keep 30 --pool bench/sweep-pool-h100 /plan/chat.yaml` + exitHelp(),
		Flags: append(append(planFlags(), webhookFlags()...),
			&cli.DurationFlag{Name: "max-time", Value: 4 * time.Hour, Usage: "measure for `DURATION` at most", Validator: positive[time.Duration]},
			&cli.FloatFlag{Name: "max-cost", Usage: "spend `USD` at most on pods", Validator: positive[float64], DefaultText: "the plan's budget"},
			&cli.IntFlag{Name: "keep", Value: 30, Usage: "keep the latest `N` run directories", Validator: positive[int]},
			&cli.StringFlag{Name: "history", Usage: "the history of nights is `FILE`", DefaultText: "NAME.jsonl"},
			&cli.StringFlag{Name: "pool", Usage: "hold the lock `NAMESPACE/LEASE` of a GPU pool"},
			waitFlag(),
			kubeContextFlag(),
		),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			path, err := oneArg(c, "plan")
			if err != nil {
				return err
			}
			return a.night(ctx, c, path)
		},
	}
}

// waitFlag returns how long a night waits for its pool.
func waitFlag() cli.Flag {
	return &cli.DurationFlag{Name: "wait", Value: 2 * time.Hour, Usage: "wait for the pool for `DURATION` at most (exit 6)", Validator: positive[time.Duration]}
}

// resumeDays bounds the age of a run that is resumed: one that ends each time in the same
// way is left behind.
const resumeDays = 3

// night runs one night, from the lock to what is left of it.
func (a *app) night(ctx context.Context, c *cli.Command, path string) error {
	p, _, err := a.open(path, a.planOptions(c))
	if err != nil {
		return err
	}
	if err := inTime(historyOf(c, p.Name), p.Name, time.Now()); err != nil {
		return err
	}
	fx, err := a.effects()
	if err != nil {
		return err
	}
	alone, err := lockNight(fx, p.Name)
	if err != nil {
		return err
	}
	defer func() { _ = alone.Close() }() // holds nothing that has to last
	if dir := unjudged(p, historyOf(c, p.Name), time.Now()); dir != "" {
		a.say("finishing the night that was killed, %s", plaintext.Word(dir))
		code := a.do(ctx, slices.Concat([]string{"sweep", "resume"}, nightBounds(c), []string{dir})) // which makes its tables
		a.judged(ctx, c, dir, p.Name, code)
	}
	var dir string
	var code int
	if pool, err := a.takePool(ctx, c); err != nil {
		return err
	} else if pool == nil {
		dir, code = a.measureNight(ctx, c, p, path)
	} else {
		work, stop := pool.Work(ctx)
		dir, code = a.measureNight(work, c, p, path)
		if err := context.Cause(work); err != nil {
			a.say("sweep: %v", err)
		}
		stop()
		if err := pool.Release(ctx); err != nil {
			a.say("sweep: %v: others wait until the lock has expired", err)
		}
	}
	code = a.judgeNight(ctx, c, dir, p.Name, code)
	return exitWith(code)
}

// historyOf returns the file of the nights of a plan.
func historyOf(c *cli.Command, name string) string {
	if c.IsSet("history") {
		return c.String("history")
	}
	return name + ".jsonl"
}

// inTime refuses a night before it is measured if its history cannot be read, or has a night
// of the plan that is later than the clock.
func inTime(path, plan string, now time.Time) error {
	f, err := history.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unusableHistory(err)
	}
	if newest, ok := f.After(plan, now); ok {
		return unusableHistory(&history.OrderError{Path: path, Date: now.UTC(), Newest: newest})
	}
	return nil
}

// lockNight refuses a second night of a plan in the working directory.
func lockNight(fx *effect.Effects, name string) (*effect.File, error) {
	file := ".sweep-" + name + ".lock"
	lock, err := fx.OpenAppend(effect.LockCreate, file)
	if err != nil {
		return nil, err
	}
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, errors.Join(err, lock.Close())
	case !ok:
		return nil, errors.Join(&statusError{exitLocked, fmt.Errorf("another night of %s is at work here: it has %s locked", name, file)}, lock.Close())
	}
	return lock, nil
}

// takePool waits for the lock of the pool; nil without an error is no pool.
func (a *app) takePool(ctx context.Context, c *cli.Command) (*kubelock.HeldLock, error) {
	if !c.IsSet("pool") {
		return nil, nil
	}
	namespace, lease, _ := strings.Cut(c.String("pool"), "/")
	if namespace == "" || lease == "" || strings.ContainsAny(lease, "/?#%") || strings.ContainsAny(namespace, "?#%") {
		return nil, &usage{fmt.Errorf("--pool %s: want NAMESPACE/LEASE", c.String("pool"))}
	}
	api, err := a.kubeAPI(c)
	if err != nil {
		return nil, err
	}
	var id [4]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // documented never to happen
	}
	lock := &kubelock.Lock{
		API: api, Namespace: namespace, Name: lease, Holder: hostname() + "/" + hex.EncodeToString(id[:]), Times: kubelock.Usual,
		Say: func(holder string) { a.say("the pool %s is in use by %s: waiting", lease, holder) },
	}
	// A signal ends the wait; later it is the run's.
	waiting, _, stop := signals(ctx, a.say)
	defer stop()
	late := fmt.Errorf("not free within %v", c.Duration("wait"))
	waiting, cancel := context.WithTimeoutCause(waiting, c.Duration("wait"), late)
	defer cancel()
	held, err := lock.Take(waiting)
	if sig, ok := errors.AsType[signalled](err); ok {
		return nil, &statusError{signalCode(sig.sig), err}
	}
	if errors.Is(err, late) {
		return nil, &statusError{exitLocked, err}
	}
	return held, refusedByKube(err, "probe", namespace)
}

// nightBounds returns the flags of what a night may take and cost.
func nightBounds(c *cli.Command) []string {
	bounds := []string{"--yes", "--max-time", c.Duration("max-time").String()}
	if c.IsSet("max-cost") {
		bounds = append(bounds, "--max-cost", strconv.FormatFloat(c.Float("max-cost"), 'g', -1, 64))
	}
	return bounds
}

// measureNight resumes the night that was killed, or makes a new one. It returns the run
// directory, in which there is nothing if the run was refused, and the exit code.
func (a *app) measureNight(ctx context.Context, c *cli.Command, p *plan.Plan, path string) (dir string, code int) {
	bounds := nightBounds(c)
	for _, flag := range []string{allowWebhook, allowPrivateWebhook} {
		if c.Bool(flag) {
			bounds = append(bounds, "--"+flag)
		}
	}
	if dir := killed(p, time.Now()); dir != "" {
		a.say("resuming the night that was killed, %s", plaintext.Word(dir))
		code := a.do(ctx, append([]string{"sweep", "resume"}, append(bounds, dir)...))
		if !slices.Contains([]int{exitInternal, exitUsage, exitResume}, code) {
			return dir, code
		}
		a.say("sweep: that night is left as it is, and a new one begins")
	}
	dir = filepath.Join(runsFolder, p.Name+"-"+time.Now().UTC().Format(dirTime))
	args := append([]string{"sweep", "run"}, bounds...)
	for _, flag := range []string{"set", "allow-env", "send-env", "engine-file"} {
		for _, v := range c.StringSlice(flag) {
			args = append(args, "--"+flag, v)
		}
	}
	if c.IsSet("max-cells") {
		args = append(args, "--max-cells", strconv.Itoa(c.Int("max-cells")))
	}
	code = a.do(ctx, append(args, "-o", dir, path))
	return dir, code
}

// judgeNight makes of a run what people look at, and returns the exit code of the night. A
// run that the next night resumes is not judged yet.
func (a *app) judgeNight(ctx context.Context, c *cli.Command, dir, name string, code int) int {
	if state, err := rundir.Read(dir); err == nil && !unfinished(state) {
		code = a.judged(ctx, c, dir, name, code)
	}
	if _, err := os.Stat(runsFolder); err == nil {
		a.do(ctx, []string{"sweep", "runs", "prune", "--keep", strconv.Itoa(c.Int("keep")), "--yes", runsFolder})
	}
	return code
}

// judged adds a run that ended with a code to the history, judges and draws it, and returns the
// exit code of its night.
func (a *app) judged(ctx context.Context, c *cli.Command, dir, name string, code int) int {
	judged := a.do(ctx, []string{"sweep", "night", "gate", "--history", historyOf(c, name), dir})
	if code != exitOK && judged != exitOK && code != judged {
		a.say("the run ended with %d (%s), and the gate with %d (%s)", code, exitName(code), judged, exitName(judged))
	}
	a.do(ctx, []string{"sweep", "report", dir})
	return worstJudged(code, judged)
}

// latest returns the directory of the latest run of the plan in the folder of runs, and what it
// says; nil if there is none, if it is too old or of a plan that has changed.
func latest(p *plan.Plan, now time.Time) (dir string, state *rundir.State) {
	list, err := runsOf(runsFolder)
	if err != nil {
		return "", nil
	}
	for _, r := range list { // the latest first
		if r.Error != "" || r.Plan != p.Name {
			continue
		}
		state, err := rundir.Read(r.Dir)
		if err == nil && now.Sub(r.Started) < resumeDays*24*time.Hour && state.Manifest.PlanDigest == p.Digest() {
			return r.Dir, state
		}
		return "", nil
	}
	return "", nil
}

// unjudged returns the run directory of the night before, if that was killed after its last
// trial and before it was judged; "" for none. One that its budget ended has trials left, which
// nothing may measure.
func unjudged(p *plan.Plan, path string, now time.Time) string {
	dir, state := latest(p, now)
	if state == nil || len(state.Committed) < state.Planned() || !madeByNight(dir, p.Name) {
		return ""
	}
	f, err := history.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir
	case err != nil, slices.ContainsFunc(f.Nights, func(n history.Night) bool { return n.Run == state.Manifest.RunID }):
		return ""
	}
	return dir
}

// madeByNight reports whether a run directory has the name of a night, and not one that sweep
// run chose.
func madeByNight(dir, name string) bool {
	_, err := time.Parse(dirTime, strings.TrimPrefix(filepath.Base(dir), name+"-"))
	return err == nil
}

// killed returns the run directory of the night before, if that did not come to its end: the
// latest run of the plan in the folder of runs, "" if that is whole, too old or of a plan
// that has changed.
func killed(p *plan.Plan, now time.Time) string {
	if dir, state := latest(p, now); state != nil && unfinished(state) {
		return dir
	}
	return ""
}

// unfinished reports whether a run has trials left that a resume would make, and was not ended
// by what it may cost or take.
func unfinished(state *rundir.State) bool {
	return len(state.Committed) < state.Planned() && (state.Ending == nil || state.Ending.Class != rundir.ClassBudget)
}

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/executor/reuse"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/nightly/notify"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/compare/turns"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/summary"
	"sweep.dev/sweep/report/terminal"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// runFlags returns those that run and resume share.
func runFlags() []cli.Flag {
	return append(append(measureFlags(),
		&cli.IntFlag{Name: "parallel", Usage: "run `N` deployments at once; they share this machine's client", Value: 1, Validator: positive[int]},
		&cli.IntFlag{Name: "max-gpus", Usage: "with --parallel, run deployments at once only while they have `N` GPUs together at most", DefaultText: "no bound", Validator: positive[int]},
	), append(webhookFlags(), rentFlags()...)...)
}

// measureFlags returns those of every command that measures.
func measureFlags() []cli.Flag {
	return []cli.Flag{
		calibrateFlag(),
		&cli.StringFlag{Name: "client", Usage: "which client sends: `KIND` is auto, std (net/http) or fast (plain HTTP/1.1)", DefaultText: "load.client of the plan", Validator: clientKind},
		&cli.StringFlag{Name: "decide", Usage: "how objectives are decided: by a `RULE` of bound (whether the requests leave no doubt) or point (the values alone); a resumed run goes on as it began", Validator: decideRule, DefaultText: rundir.DecideBound},
		&cli.BoolFlag{Name: "strict", Usage: "exit 3, not 0, if an objective is undecided"},
		&cli.BoolFlag{Name: "fail-fast", Usage: "stop at the first trial that failed or is INVALID"},
		&cli.DurationFlag{Name: "max-time", Usage: "stop measuring after `DURATION` and tear down (exit 5)", Validator: positive[time.Duration], DefaultText: "no bound"},
		&cli.StringFlag{Name: "events", Usage: "write every event as a JSON line to `FILE` (- is stdout)"},
		&cli.BoolFlag{Name: "share", Usage: "let all users of this machine read the run's files (0644, folders 0755) instead of its owner alone"},
		&cli.BoolFlag{Name: "json", Usage: "print the rows as JSON instead of the summary"},
		verboseFlag(),
	}
}

// verboseFlag returns that of the commands that show how a run ended.
func verboseFlag() cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print every detail of the run, as " + layout.Summary + " has it"}
}

func decideRule(rule string) error {
	if rule != rundir.DecideBound && rule != rundir.DecidePoint {
		return fmt.Errorf("want bound or point, got %q", rule)
	}
	return nil
}

func clientKind(kind string) error {
	if !slices.Contains([]string{client.Auto, client.Std, client.Fast}, kind) {
		return fmt.Errorf("want auto, std or fast, got %q", kind)
	}
	return nil
}

func (a *app) runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "runs a plan and stores the results",
		ArgsUsage: "PLAN",
		Description: `Runs every cell of PLAN and stores the results in a new directory under
runs/. You can kill it at any time: sweep resume continues where it stopped.
PLAN is a file, or - for the standard input; then its paths are relative to
the working directory.

  $ sweep run plans/quickstart.yaml
  $ sweep run --only 'concurrency <= 4' --set load.requests=32 plans/chat-capacity.yaml
  $ sweep run -o results/today plans/chat-capacity.yaml
  $ sweep run --reuse results/today plans/chat-capacity.yaml  # after an edit
  $ sweep run --rehearse plans/find-chat.yaml  # what is expected, then what is measured` + exitHelp(),
		Flags: append(append(planFlags(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "the run `DIRECTORY`; it must be new or empty"},
			&cli.StringFlag{Name: "only", Usage: "run the cells for which `EXPR` over the axes is true"},
			&cli.StringFlag{Name: "reuse", Usage: "copy the VALID trials of equal cells from the run `DIRECTORY`, and measure the others"},
		), append(rehearseFlags("predict the results on the simulator first, and keep that beside what is measured"), runFlags()...)...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			path, err := oneArg(c, "plan")
			if err != nil {
				return err
			}
			return a.run(ctx, c, path)
		},
	}
}

// A job is everything that run and resume hand to the executor.
type job struct {
	plan    *plan.Plan
	plugins *plugins
	dir     *rundir.Dir
	state   *rundir.State // empty before there is a run directory
	path    string
	only    func(plan.Cell) (bool, error)
	retry   []string
	more    []rundir.Key // trials that a resume adds
	strict  bool         // an undecided objective is no success
	// show prints the result for people; nil is the summary.
	show func(*report.Run, draw.Style) error
	// notifyFinish tells the plan's webhook how the run ended; nil without one.
	notifyFinish func(notify.Ended)

	calibration *calibrate.Result // of the client; nil if it was not calibrated
}

func (a *app) run(ctx context.Context, c *cli.Command, path string) error {
	p, made, options, err := a.openPriced(c, path)
	if err != nil {
		return err
	}
	return a.start(ctx, c, toRun{plan: p, plugins: made, path: path, options: options, dir: c.String("output")})
}

// A toRun is a plan that is to be run for the first time.
type toRun struct {
	plan    *plan.Plan
	plugins *plugins
	path    string // of its file
	options planfile.Options
	planDir string   // of its relative files; "" is that of path
	cells   []string // ids; nil is what --only says
	dir     string   // of the run; "" is a new one
	show    func(*report.Run, draw.Style) error
}

func (a *app) start(ctx context.Context, c *cli.Command, r toRun) error {
	p, made, path := r.plan, r.plugins, r.path
	asked, only, err := filter(p, made, c.String("only"), r.cells, c.String("client"))
	if err != nil {
		return err
	}
	a.warnOfScale(path, made)
	sends, err := a.agreeSends(c, path, p, made.sends)
	if err != nil {
		return err
	}
	notifyFinish, err := a.finishNotifier(ctx, c, p)
	if err != nil {
		return err
	}
	j := job{plan: p, plugins: made, state: &rundir.State{}, only: only, strict: c.Bool("strict"), show: r.show, notifyFinish: notifyFinish}
	var source *reuse.Source
	if from := c.String("reuse"); from != "" {
		source, err = a.openReuse(from, p, only, c.String("client"), "--reuse names a run directory, which sweep run printed first")
		if err != nil {
			return err
		}
		j.state = source.Before()
	}
	deployments, err := j.deployments()
	if err != nil {
		return err
	}
	if dir := r.dir; dir != "" {
		if err := rundir.Vacant(dir); err != nil {
			return unusable(dir, err)
		}
	}
	var predicted []rundir.File
	if rehearse, err := wantsRehearsal(c); err != nil {
		return err
	} else if rehearse {
		runs, err := selected(p, only)
		if err != nil {
			return err
		}
		if predicted, err = a.beforehand(ctx, c, planned{path: path, plan: p, plugins: made, deployments: runs}, asked, only); err != nil {
			return err
		}
	}
	if len(deployments) > 0 {
		// Before anything is rented: a pod costs money too if the client is too slow for it.
		if j.calibration, err = a.calibrateRun(ctx, c, p, deployments, made.traits()); err != nil {
			return err
		}
	}
	if err := j.within(c.Int("max-gpus")); err != nil {
		return err
	}
	if err := a.agree(ctx, c, j); err != nil {
		return err
	}
	fx, err := a.effects(shared(c)...)
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	planDir := cmp.Or(r.planDir, filepath.Dir(abs))
	if path == planfile.Stdin {
		abs = planfile.Stdin
	}
	if p.Find != nil && c.String("decide") == rundir.DecidePoint {
		return &usage{errors.New("--decide point certifies nothing, and the plan searches for a load that is certified (find): leave it out")}
	}
	m := rundir.Manifest{
		RunID: newRunID(), Plan: p.Name, PlanPath: abs, PlanDir: planDir, PlanDigest: p.Digest(),
		Set: r.options.Set, AllowEnv: r.options.AllowEnv, SendEnv: sends, MaxCells: r.options.MaxCells, Engines: kept(p.EngineTexts()), Manifests: kept(p.Manifests()),
		Only: c.String("only"), OnlyCells: r.cells, Owner: owner(), Version: version(), Method: result.Method, Host: clientHost(), CreatedAt: time.Now().UTC(), Variables: p.Variables(),
		Decide: cmp.Or(c.String("decide"), rundir.DecideBound), Rehearsed: predicted != nil,
	}
	if source != nil {
		m.Reuse = source.Dir
	}
	dir := r.dir
	if dir == "" {
		dir = filepath.Join(runsFolder, fmt.Sprintf("%s-%s-%s", p.Name, m.CreatedAt.Format(dirTime), m.RunID[:4]))
	}
	resolved, cells, searches, err := resolve(p, asked, only)
	if err != nil {
		return err
	}
	if m.Trials = cells * p.Repeats.Most(); p.Find != nil {
		m.Trials, m.Searches = 0, searches
	}
	d, err := rundir.Create(fx, dir, m, p.Source(), resolved, predicted...)
	if err != nil {
		return unusable(dir, err)
	}
	a.say("run directory %s", dir)
	j.dir, j.path = d, dir
	if j.state, err = rundir.Read(dir); err == nil && j.calibration != nil {
		err = d.WriteCalibration(j.calibration)
	}
	if err == nil {
		err = j.takeOver(ctx, source)
	}
	if err != nil {
		return errors.Join(err, d.Close())
	}
	return a.execute(ctx, c, j)
}

// left returns the numbers of the trials of a cell that have no outcome that counts.
func (j *job) left(cell plan.Cell) []int {
	return slices.DeleteFunc(executor.Numbers(j.plan, j.state, cell), func(n int) bool {
		return executor.Done(j.plan, j.state, j.retry, cell, n)
	})
}

// deployments returns those of the cells that have trials left.
func (j *job) deployments() ([]plan.Deployment, error) {
	if j.plan.Find != nil {
		return j.hunted()
	}
	return selected(j.plan, func(cell plan.Cell) (bool, error) {
		if j.only != nil {
			if ok, err := j.only(cell); !ok || err != nil {
				return false, err
			}
		}
		return len(j.left(cell)) > 0, nil
	})
}

// unusable says of an error of a new run directory how to choose another one.
func unusable(dir string, err error) error {
	switch {
	case errors.Is(err, rundir.ErrExists):
		hint := "-o DIRECTORY names a new or empty one"
		if _, unread := rundir.Read(dir); unread == nil {
			hint = fmt.Sprintf("sweep resume %s continues the run in that directory", plaintext.Word(dir))
		}
		return &usage{&hinted{err, hint}}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EROFS):
		return &usage{&hinted{err, "-o DIRECTORY names a folder that can be written"}}
	}
	return err
}

// filter chooses the cells that --only asks for, or those of some ids, and of those the ones that are
// run; nil stands for all. It refuses what the plan's own checks cannot see: prompts
// that are too few or not readable, loads that cannot be made or sent, commands that
// do not render, and servers that the backend cannot launch. client is the value of
// --client.
func filter(p *plan.Plan, made *plugins, expr string, cells []string, client string) (asked, only func(plan.Cell) (bool, error), err error) {
	if expr != "" {
		if asked, err = p.Filter(expr); err != nil {
			return nil, nil, &usage{fmt.Errorf("--only: %w", err)}
		}
		if some, err := selected(p, asked); err != nil {
			return nil, nil, &usage{fmt.Errorf("--only: %w", err)}
		} else if len(some) == 0 {
			return nil, nil, &usage{fmt.Errorf("--only %q selects no cell", expr)}
		}
	}
	if cells != nil {
		asked = func(c plan.Cell) (bool, error) { return slices.Contains(cells, c.ID), nil }
	}
	only = fitting(p, asked)
	if some, err := selected(p, only); err == nil && len(some) == 0 {
		return nil, nil, &usage{errors.New("every server is predicted not to fit its GPU, and the plan skips those (predicted: skip): sweep plan says why")}
	}
	if err := executor.Check(p, made.backend, made.servers(""), only, client); err != nil {
		return nil, nil, &usage{err}
	}
	return asked, only, nil
}

// within refuses a job with a deployment that has more GPUs than may be in use at once; 0
// is no bound.
func (j *job) within(gpus int) error {
	left, err := j.deployments()
	if gpus == 0 || err != nil {
		return err
	}
	for _, d := range left {
		if n := d.Server.GPUCount; n > gpus {
			return &usage{fmt.Errorf("--max-gpus %d: %s alone has %d", gpus, plaintext.Line(executor.ServerLabel(d)), n)}
		}
	}
	return nil
}

// execute runs a job and derives everything from what it left.
func (a *app) execute(ctx context.Context, c *cli.Command, j job) (err error) {
	defer func() {
		if closed := j.dir.Close(); closed != nil {
			a.complain(closed)
			err = &statusError{worst(exitCode(err), exitInternal), printable(err)}
		}
	}()
	pods, err := a.openPodLedger(j)
	if err != nil {
		return err
	}
	clients := a.crews(&j)
	ui, err := a.newUI(c, j)
	if err != nil {
		return err
	}
	ctx, teardown, stop := signals(ctx, ui.notice)
	defer stop()
	ui.start()
	if err := a.leftovers(ctx, j, ui.notice); err != nil {
		ui.stop()
		rep := executor.Report{Missing: 1, Interrupted: context.Cause(ctx)}
		if exitCode(err) == exitCleanup {
			rep.Left.Cleanup = err
		}
		return a.verdict(j, nil, rep, err)
	}
	config := a.config(teardown, c, j, pods, ui)
	config.Clients = clients
	rep, runErr := executor.Run(ctx, config)
	ui.stop()
	if rep.Left.Spending.USD > 0 {
		fmt.Fprintf(a.err, "pods of this run have cost about $%s until now; the provider's bill decides\n", humanize.Price(rep.Left.Spending.USD))
	}
	// A stack in a cluster has neither a key nor an address of the plan: its error says what to do.
	if f := &j.plugins.factory; errors.Is(runErr, executor.ErrUnreachable) && f.Given && !f.LoadPods {
		hint := "is the server up, and is backend.url its address? sweep probe URL shows what answers there"
		if errors.Is(runErr, backends.ErrRefused) {
			hint = "the server does not take the key: see backend.key and backend.headers of the plan"
		}
		runErr = &hinted{runErr, hint}
	}
	// An interrupted run still has its tables: then only a second signal ends them.
	deriving := ctx
	if ctx.Err() != nil {
		deriving = teardown
	}
	// Whatever fails from here on, how the run ended decides the exit code.
	run, err := derived(deriving, j)
	stop() // all is on disk: from here on a signal ends the process
	if sig, ok := errors.AsType[signalled](err); ok {
		a.say("sweep: %v: sweep resume builds the tables and the summary", err)
		rep.Interrupted = sig
		return a.verdict(j, nil, rep, runErr)
	}
	if err != nil {
		return a.verdict(j, nil, rep, errors.Join(runErr, err))
	}
	shown := a.beside(a.show(c, run, j.show))
	a.unwritten() // before the last line; main has its exit code
	if shown != nil {
		a.complain(shown)
	}
	err = a.verdict(j, run, rep, runErr)
	if shown != nil {
		err = exitWith(worst(exitCode(err), exitInternal))
	}
	return err
}

// config returns a job as the executor wants it.
func (a *app) config(teardown context.Context, c *cli.Command, j job, pods serving.PodLedger, ui *ui) executor.Config {
	collectors := make([]observe.Named, len(j.plugins.collectors))
	for i, n := range j.plugins.collectors {
		collectors[i] = observe.Named{Kind: n.kind, Collector: n.collector}
	}
	limits := budgetOf(c, j.plan)
	servers := j.plugins.servers(a.exe)
	servers.MaxCost, servers.Lifetime, servers.Keep, servers.PodLedger = limits.cost, lifetime(j), c.Duration("keep-pod"), pods
	return executor.Config{
		Plan: j.plan, Dir: j.dir, State: j.state, Path: j.path,
		Backend: j.plugins.backend, Servers: servers, Collectors: collectors,
		Only: j.only, Retry: j.retry, Parallel: c.Int("parallel"), MaxGPUs: c.Int("max-gpus"),
		FailFast: c.Bool("fail-fast"), MaxTime: limits.time,
		Client: c.String("client"), Calibration: j.calibration,
		Environ: os.Environ(), ClientHost: clientHost(), ClientProcess: a.clientProcess, Teardown: teardown, Events: ui.event,
	}
}

// show prints the result: rows for machines, the summary for people.
func (a *app) show(c *cli.Command, run *report.Run, write func(*report.Run, draw.Style) error) (err error) {
	defer serving.Recovered(&err)
	switch {
	case c.String("events") == "-": // stdout belongs to the events
	case c.Name == gateName: // its own words alone
	case c.Bool("json"):
		err = writeRows(a.out, run.Whole())
	default:
		switch {
		case c.Bool("verbose"):
			err = summary.Write(a.out, run, a.style())
		case write != nil:
			err = write(run, a.style())
		default:
			err = terminal.Write(a.out, run, a.style())
			if t := turns.Of(compare.Of(run)); t != nil && err == nil {
				err = t.Write(a.out, false)
			}
		}
	}
	return err
}

// style returns how documents look on stdout.
func (a *app) style() draw.Style {
	style := draw.Style{Paint: a.painter(a.outTTY)}
	if a.outTTY {
		style.Width = a.outWidth()
	}
	if style.Paint != nil {
		style.Dim = func(s string) string { return style.Paint(conclude.Pending, s) }
	}
	return style
}

// resolve returns plan.resolved.json: the plan with its defaults, and its cells: of
// those that were asked for the ones that are run, and the ones that are not.
func resolve(p *plan.Plan, asked, only func(plan.Cell) (bool, error)) (b []byte, cells, searches int, err error) {
	inner, err := p.Resolved()
	if err != nil {
		return nil, 0, 0, err
	}
	r := report.Resolved{
		Sweep: version(), Plan: inner, Repeats: p.Repeats.Most(), RepeatsUpTo: p.Repeats.Until != nil,
		RecordStarts: p.OnStartFailure == plan.RecordStartFailures, Columns: p.Columns(),
	}
	order := map[string]int{}
	deployments, err := selected(p, asked)
	if err != nil {
		return nil, 0, 0, err
	}
	var run []plan.Cell
	for _, d := range deployments {
		expected := predicted(d.Server)
		for _, cell := range d.Cells {
			rc := report.Cell{ID: cell.ID, Index: cell.Index, Deployment: d.ID, Digest: p.SpecDigest(cell), Label: executor.Label(cell), Predicted: expected}
			for _, s := range cell.Settings {
				rc.Settings = append(rc.Settings, report.Setting{Column: s.Axis.Column, Server: s.Axis.Server, Amount: s.Axis.Amount, Text: s.String(), Value: s.Value})
			}
			order[cell.ID] = cell.Index
			runs := true
			if only != nil {
				if runs, err = only(cell); err != nil {
					return nil, 0, 0, err
				}
			}
			if runs {
				r.Cells, run = append(r.Cells, rc), append(run, cell)
			} else {
				r.Skipped = append(r.Skipped, rc)
			}
		}
	}
	// The plan's order: a shuffled run reports like another.
	slices.SortStableFunc(r.Cells, func(a, b report.Cell) int { return order[a.ID] - order[b.ID] })
	r.Searches = searchesOf(p, run)
	b, err = json.MarshalIndent(r, "", " ")
	return append(b, '\n'), len(r.Cells), len(r.Searches), err
}

// effects carries the fault points of a rehearsed crash; without SWEEP_FAULT
// there are none.
func (a *app) effects(opts ...effect.Option) (*effect.Effects, error) {
	spec, _ := a.env("SWEEP_FAULT")
	fx, err := effect.New(spec, opts...)
	if err != nil {
		return nil, &usage{err}
	}
	return fx, nil
}

// shared returns the option of --share.
func shared(c *cli.Command) []effect.Option {
	if c.Bool("share") {
		return []effect.Option{effect.Shared()}
	}
	return nil
}

func newRunID() string {
	var b [5]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // documented never to happen
	}
	return hex.EncodeToString(b[:])
}

// owner scopes what this person's runs may list and reclaim.
func owner() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + "@" + hostname()
}

// hostVar names the machine that a container of sweep runs on: a pod's own host name is
// that of no machine.
const hostVar = "SWEEP_HOST"

// clientHost returns the machine that sends the load.
func clientHost() string { return cmp.Or(os.Getenv(hostVar), hostname()) }

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return h
}

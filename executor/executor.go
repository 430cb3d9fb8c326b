package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/attempt"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/budget"
	"sweep.dev/sweep/executor/workload"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/rundir"
)

// ErrUnreachable is a backend that does not answer, or does not let us in, so that
// nothing was started.
var ErrUnreachable = errors.New("not usable")

// Causes with which a run's context ends.
var (
	ErrMaxTime  = errors.New("the time for this run is over")
	ErrFailFast = errors.New("a trial failed and --fail-fast is set")
)

// A Config is one run: a plan, the plug-ins that it names, and the directory
// that holds what comes of it.
type Config struct {
	Plan       *plan.Plan
	Dir        *rundir.Dir
	State      *rundir.State // what an earlier run of this directory left
	Path       string        // of the run directory
	Backend    backends.Backend
	Servers    serving.Options // how servers are got and given back
	Collectors []observe.Named

	Only     func(plan.Cell) (bool, error) // nil: every cell
	Retry    []string                      // statuses of committed trials to run again
	Parallel int                           // deployments at once; 0 is 1
	MaxGPUs  int                           // of the deployments at once; 0 is no bound, and one with more runs alone
	FailFast bool
	MaxTime  time.Duration // 0: none

	// Client is which driver sends, in place of the plan's choice: auto, std or
	// fast; "" leaves it to the plan.
	Client string
	// ClientProcess is the command of one of several clients (load.clients); nil if there is
	// none.
	ClientProcess func() *exec.Cmd
	// Calibration is what the client is known to add on this machine; nil if it
	// was not calibrated.
	Calibration *calibrate.Result
	// Clients is how many clients send the loads of a deployment that leave it to the
	// calibration (load.clients: auto); nil is one.
	Clients func(plan.Deployment) int

	// Environ is the environment of this process, as name=value. What is a
	// credential of it is masked in all that is written, whether or not the plan
	// names it; nothing else is taken from it.
	Environ []string

	ClientHost string

	// Teardown outlives the run's context; its end gives up what is being ended.
	Teardown context.Context
	// Events is called by one goroutine at a time; it must not block for long.
	Events func(event.Event)
}

// A Report is how a run ended.
type Report struct {
	Planned   int // trials that this plan has, after Only; of searches those that they asked for
	Before    int // committed before this run
	Committed int // by this run
	// Missing counts trials without an outcome.
	Missing int
	// Interrupted is the cause with which the run was ended early, or nil.
	Interrupted error
	// Left is what the servers left: to clean up, to pay, and running on purpose.
	Left serving.Left
}

// A run is one [Run] in progress.
type run struct {
	config  Config
	eventMu sync.Mutex
	all     []*deployment
	measure *attempt.Config // what all attempts depend on
	stop    context.CancelCauseFunc
	quality *quality.Set                // what each deployment answers; nil for none
	samples map[string]*quality.Samples // what lm-eval has of deployments, by the path of the file
	manager *serving.Manager
	mask    secret.Mask // for all that servers and collectors say, where it comes in

	mu        sync.Mutex
	checked   map[string]bool // objectives of which a trial was VALID
	done      int
	total     int
	committed int
}

// Run executes what of the plan has no outcome yet. The error is sweep's own
// (a disk that is full, a provider that refuses); failed and invalid trials are
// outcomes, not errors. The Report is valid also beside an error.
func Run(ctx context.Context, c Config) (Report, error) {
	return start(ctx, c, func(ctx context.Context, r *run, rep Report) error {
		if err := r.manager.Reclaim(ctx); err != nil {
			return err
		}
		defer stamp.Keep(ctx)()
		return r.execute(ctx, rep)
	})
}

// Reclaim does the first part of Run alone: it ends what an earlier run of the
// directory left, and starts nothing. The caller must read the directory's state
// again before it runs it.
func Reclaim(ctx context.Context, c Config) (Report, error) {
	return start(ctx, c, func(ctx context.Context, r *run, _ Report) error { return r.manager.Reclaim(ctx) })
}

// start makes a run, does work with it, and reports how it ended.
func start(ctx context.Context, c Config, work func(context.Context, *run, Report) error) (Report, error) {
	r := &run{config: c, mask: secret.NewMask(slices.Concat(c.Plan.Secrets(), secret.FromEnviron(c.Environ)))}
	r.manager = serving.New(serving.Config{
		Options: c.Servers, Plan: c.Plan, State: c.State, Backend: c.Backend, Dir: c.Dir, Run: r,
		Mask: r.mask, Environ: c.Environ, Teardown: c.Teardown,
	})
	rep, err := r.plan()
	if err != nil {
		return rep, err
	}
	if c.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.MaxTime, fmt.Errorf("%w (%s)", ErrMaxTime, c.MaxTime))
		defer cancel()
	}
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)

	var watching sync.WaitGroup
	watching.Go(func() { r.manager.WatchCost(ctx) })
	defer func() {
		r.stop(nil)
		watching.Wait()
	}()
	// What could not be given back is told after a panic, too.
	err = guard(func() error { return work(ctx, r, rep) })
	rep.Committed = r.committed
	rep.Missing = r.left()
	rep.Planned = rep.Before + r.committed + rep.Missing
	rep.Left = r.manager.Left()
	if ctx.Err() != nil && rep.Missing > 0 {
		rep.Interrupted = context.Cause(ctx)
	}
	return rep, err
}

// Done reports whether the nth trial of a cell, from 1, has an outcome that counts: it is
// of the current plan, and its status is not in retry.
func Done(p *plan.Plan, st *rundir.State, retry []string, cell plan.Cell, n int) bool {
	commit, ok := st.Committed[rundir.Key{Cell: cell.ID, Trial: n}]
	return ok && commit.Digest == p.SpecDigest(cell) && !slices.Contains(retry, commit.Status)
}

// Numbers returns those of the trials of a cell: of the plan, and of those that were added.
func Numbers(p *plan.Plan, st *rundir.State, cell plan.Cell) []int {
	numbers := make([]int, p.Repeats.Most())
	for i := range numbers {
		numbers[i] = i + 1
	}
	return append(numbers, st.AddedTo(cell.ID)...)
}

// plan lists the trials of the run and which of them have an outcome already.
// Every trial of the plan is listed, so that each gets the same prompts whether
// or not the run is a resumed one.
func (r *run) plan() (Report, error) {
	var rep Report
	for _, d := range r.config.Plan.Deployments() {
		r.count(&d)
		left := newDeployment(r, d)
		r.all = append(r.all, left)
		for _, cell := range d.Cells {
			if r.config.Only != nil {
				ok, err := r.config.Only(cell)
				if err != nil {
					return rep, fmt.Errorf("--only: %w", err)
				}
				if !ok {
					continue
				}
			}
			for _, n := range Numbers(r.config.Plan, r.config.State, cell) {
				done := Done(r.config.Plan, r.config.State, r.config.Retry, cell, n)
				if done {
					rep.Before++
				}
				left.trials = append(left.trials, trial{key: rundir.Key{Cell: cell.ID, Trial: n}, cell: cell, done: done})
			}
		}
		slices.SortStableFunc(left.trials, func(a, b trial) int { return cmp.Compare(a.key.Trial, b.key.Trial) })
		if err := left.begun(); err != nil {
			return rep, err
		}
		left.remaining = left.left()
	}
	rep.Planned = rep.Before + r.left()
	r.total, r.done = rep.Planned, rep.Before
	if rep.Planned > rep.Before {
		r.total = max(r.total, r.expected())
	}
	r.measure = &attempt.Config{
		Plan: r.config.Plan, RunID: r.config.State.Manifest.RunID, Backend: r.config.Backend,
		Given: r.config.Servers.Given, Collectors: r.config.Collectors, Inputs: workload.New(r.config.Plan),
		Client: r.config.Client, Calibration: r.config.Calibration, ClientHost: r.config.ClientHost, ClientProcess: r.config.ClientProcess,
		Mask: r.mask, Emit: r.Emit, ByPoint: r.config.State.Manifest.Decide != rundir.DecideBound,
	}
	if err := r.readQuality(); err != nil {
		return rep, err
	}
	return rep, r.claim()
}

// count puts a number in the place of auto into the loads of a deployment. Their ids and
// digests are those of the plan, which says auto.
func (r *run) count(d *plan.Deployment) {
	auto := func(c plan.Cell) bool { return c.Load.Clients.Auto() }
	if !slices.ContainsFunc(d.Cells, auto) {
		return
	}
	n := 1
	if r.config.Clients != nil {
		n = r.config.Clients(*d)
	}
	d.Cells = slices.Clone(d.Cells)
	for i := range d.Cells {
		if c := &d.Cells[i].Load.Clients; c.Auto() {
			c.N = max(1, n)
		}
	}
}

// Claim refuses trials for which the plan has no prompts. It is not for searches.
func Claim(p *plan.Plan, st *rundir.State, only func(plan.Cell) (bool, error)) error {
	r := &run{config: Config{Plan: p, State: st, Only: only}}
	_, err := r.plan()
	return err
}

// claim gives every trial its part of what the plan's loads send: those that were added after
// all others, in their order, so that none gets another part than before.
func (r *run) claim() (err error) {
	more := make([]*trial, len(r.config.State.Added))
	for _, d := range r.all {
		for i := range d.trials {
			t := &d.trials[i]
			if at := slices.Index(r.config.State.Added, t.key); at >= 0 {
				more[at] = t
			} else if t.first, err = r.measure.Inputs.Claim(t.cell, t.key.Trial); err != nil {
				return err
			}
		}
	}
	for _, t := range more {
		if t == nil {
			continue // of a cell that is not of this run
		}
		if t.first, err = r.measure.Inputs.Claim(t.cell, t.key.Trial); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) execute(ctx context.Context, rep Report) error {
	started := event.Event{Type: event.RunStarted, Done: rep.Before, Total: r.total}
	if r.config.Plan.Find != nil {
		started.Text = "are expected; a search chooses them"
	}
	if r.config.Plan.Repeats.Until != nil {
		started.Text = "at most, repeats.until ends those of a cell once its mean is known"
	}
	if err := r.Record(ctx, started); err != nil {
		return err
	}
	r.announce()
	if p, ok := r.config.Backend.(backends.Prober); ok && rep.Before < rep.Planned {
		if err := p.Probe(ctx); err != nil {
			return fmt.Errorf("backend %s: %w: %w", r.config.Plan.Backend.Kind, ErrUnreachable, err)
		}
		if r.config.Servers.Given && !backends.Applies(r.config.Backend) {
			r.pending()[0].extra.Add(1, 0)
		}
	}
	err := r.measureAll(ctx)
	return errors.Join(err, r.finished(ctx))
}

// finished writes the last line, also when the run was cut short.
func (r *run) finished(ctx context.Context) error {
	last := event.Event{Type: event.RunFinished, Done: r.done, Total: r.done + r.left()}
	if cause := context.Cause(ctx); ctx.Err() != nil {
		last.Error = cause.Error()
		if errors.Is(cause, ErrMaxTime) || errors.Is(cause, budget.ErrMaxCost) || errors.Is(cause, budget.ErrLifetime) {
			last.Class = rundir.ClassBudget
		}
	}
	return r.Record(context.WithoutCancel(ctx), last)
}

// measureAll runs all deployments that have trials left, by turns if the plan compares
// them.
func (r *run) measureAll(ctx context.Context) error {
	if r.config.Plan.Compare != nil {
		return r.byTurns(ctx)
	}
	// Not errgroup.WithContext: one deployment's own error must not cut the
	// others' trials short, and each must be waited for.
	var g errgroup.Group
	g.SetLimit(max(1, r.config.Parallel))
	most := int64(cmp.Or(r.config.MaxGPUs, math.MaxInt32))
	gpus := semaphore.NewWeighted(most)
	for _, d := range r.pending() {
		g.Go(func() error {
			n := min(most, int64(d.of.Server.GPUCount))
			if gpus.Acquire(ctx, n) != nil {
				return nil // the run has ended
			}
			defer gpus.Release(n)
			var err error
			if ctx.Err() == nil {
				// The deployment's clean-up has run when a panic comes here, and the others
				// still have theirs before them.
				err = guard(func() error { return d.execute(ctx) })
			}
			if err != nil {
				r.stop(err) // our own fault: the disk, the journal. Nothing more can be kept.
			}
			return err
		})
	}
	return g.Wait()
}

// pending returns the deployments that have trials without an outcome.
func (r *run) pending() []*deployment {
	return slices.DeleteFunc(slices.Clone(r.all), func(d *deployment) bool {
		return d.remaining == 0
	})
}

// guard does something, with a panic as an error.
func guard(f func() error) (err error) {
	defer serving.Recovered(&err)
	return f()
}

// Emit tells people and --events. The journal has its own lines.
func (r *run) Emit(e event.Event) {
	if r.config.Events == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	r.eventMu.Lock()
	defer r.eventMu.Unlock()
	r.config.Events(e)
}

// Record emits e and writes it to the journal.
func (r *run) Record(ctx context.Context, e event.Event) error {
	e.Time = time.Now().UTC()
	r.Emit(e)
	return r.config.Dir.Append(context.WithoutCancel(ctx), string(e.Type), e)
}

// Stop ends the run.
func (r *run) Stop(cause error) { r.stop(cause) }

// warnOdd says of the first VALID trial that was held against an objective that no load is
// likely to meet it, or to miss it.
func (r *run) warnOdd(o *result.Outcome) {
	if o.Row[col.Valid] != true {
		return
	}
	for _, s := range o.SLOs {
		r.mu.Lock()
		first := !r.checked[s.Name]
		if r.checked == nil {
			r.checked = map[string]bool{}
		}
		r.checked[s.Name] = true
		r.mu.Unlock()
		if text := objective.Odd(s); first && text != "" {
			r.Emit(event.Event{Type: event.Notice, Text: "slo." + s.Name + ": " + text})
		}
	}
}

// committedOne counts an outcome and says so.
func (r *run) committedOne(d *deployment, t trial, o *result.Outcome) {
	left := d.left()
	r.mu.Lock()
	r.done++
	r.committed++
	done := r.done
	d.remaining = left
	r.total = max(r.total, done+r.leftLocked())
	total := r.total
	r.mu.Unlock()
	status, _ := o.Row[col.Status].(string)
	class, _ := o.Row[col.ErrorClass].(string)
	text, _ := o.Row[col.Error].(string)
	r.Emit(event.Event{
		Type: event.TrialCommitted, Deployment: d.of.ID, Cell: t.key.Cell, Trial: t.key.Trial, Attempt: o.Attempt,
		Label: Label(t.cell), Status: status, Class: class, Error: text, Row: o.Row, Outcome: o, Done: done, Total: total,
	})
	r.warnOdd(o)
	recorded := r.config.Plan.OnStartFailure == "record" && o.StartFailure
	if r.config.FailFast && status != result.StatusOK && status != result.StatusSkipped && !recorded {
		r.stop(ErrFailFast)
	}
}

package attempt

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"os/exec"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/executor/serverlog"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/executor/workload"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A Config is what all attempts of a run depend on.
type Config struct {
	Plan        *plan.Plan
	RunID       string
	Backend     backends.Backend
	Given       bool // the backend's servers run already, and outlive an attempt
	Collectors  []observe.Named
	Inputs      *workload.Inputs
	Client      string            // which driver sends, in place of the plan's choice; ""
	Calibration *calibrate.Result // nil: the client was not calibrated
	ByPoint     bool              // objectives are decided by their values alone
	ClientHost  string
	// ClientProcess is the command of one of several clients, which runs [worker.Main]; nil
	// if there is none.
	ClientProcess func() *exec.Cmd
	Mask          secret.Mask       // for all that servers and collectors say
	Emit          func(event.Event) // may be called by several goroutines
}

// A Subject is the server that attempts measure, one after another, and what they
// have learned of it.
type Subject struct {
	Of      plan.Deployment
	Profile *engine.Profile
	Server  *serving.Server // nil: none is up, and attempts at it can only be finished
	Device  string          // its GPUs, as gpu_uuid has them; "" if they are not known before a trial
	Extra   *Tally

	// Columns and Notes are of every trial of the subject that is run.
	Columns result.Row
	Notes   []result.Finding

	used     bool     // its prefix cache may hold prompts of this run
	paired   string   // the state of its servers whose pairs were warmed up
	counting counting // of its tokenizer
}

// Asked counts a question by its path.
func (s *Subject) Asked(path string) { s.Extra.Asked(path, &s.Profile.API) }

// A Trial is one run of one cell.
type Trial struct {
	Key   rundir.Key
	Cell  plan.Cell
	First int    // of the given prompts: where this trial's begin
	Label string // in a person's words
	Why   string // why it is run, if the plan has it chosen; else ""
}

// An Attempt is one at a trial. It is run, or not, and then finished or dropped.
type Attempt struct {
	config  *Config
	subject *Subject
	trial   Trial
	number  int
	files   *rundir.Attempt
	anchor  result.Anchor
	started time.Time

	logs     *serverlog.Logs // of the server; nil: none is up
	sink     *observe.Sink
	mu       sync.Mutex // of records and latest: the load and its probe end side by side
	records  records
	latest   latest
	requests []result.Request // what records held, once the attempt is over
	counted  *counted         // how the server counts prompts; nil: nothing has to be known
	// uncleared: the server's prefix cache holds what was asked before the trial.
	uncleared bool
	ramp      time.Duration // how long the load takes to be at work, as the warm-up told
	health    load.Health
	ended     stopping.Decision // why the load ended
	stolen    *float64          // share of the CPU time that a hypervisor gave to others; nil: not known
	columns   result.Row        // from the collectors
}

// New begins the nth attempt at a trial, of which nothing is known yet.
func New(c *Config, s *Subject, t Trial, n int, files *rundir.Attempt) *Attempt {
	a := &Attempt{
		config: c, subject: s, trial: t, number: n, files: files,
		anchor: result.NewAnchor(), started: time.Now().UTC(), sink: observe.NewSink(files, c.Mask),
		latest: latest{open: t.Cell.Load.Open()},
	}
	if s.Server != nil {
		a.logs = serverlog.New(s.Server, s.Profile)
	}
	return a
}

// event returns one of this attempt.
func (a *Attempt) event(t event.Type) event.Event {
	return event.Event{
		Type: t, Deployment: a.subject.Of.ID, Cell: a.trial.Key.Cell, Trial: a.trial.Key.Trial,
		Attempt: a.number, Label: a.trial.Label,
	}
}

// A recorder keeps requests whose number ends nothing.
type recorder func(result.Request) (full string)

// Record implements [load.Recorder].
func (r recorder) Record(q result.Request) { r(q) }

// keep records a request, see [records.add].
func (a *Attempt) keep(r result.Request) (full string) {
	r.Error = a.config.Mask.Text(r.Error)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.latest.add(&r)
	return a.records.add(r)
}

// Run takes the attempt through its steps. A server that dies ends it, and so does
// the plan's timeouts.trial. An error is why it was not measured to its end.
func (a *Attempt) Run(ctx context.Context) (err error) {
	a.logs.Mark(ctx)
	mctx, cancel := serving.WithLimit(ctx, "timeouts.trial", a.config.Plan.Timeouts.Trial)
	defer cancel()
	mctx, stop := backends.WhileUp(mctx, a.subject.Server.Deployment)
	defer stop()

	h := a.subject.Server.Host(a.subject.Profile.EntryRole(), 0)
	driver, err := a.sender(mctx, h)
	if err != nil {
		return err
	}
	defer driver.Close()
	defer func() {
		a.requests = a.records.take()
		if merr := together(a.requests, &a.health); err == nil {
			err = merr
		}
	}()
	defer a.watch(ctx)()
	defer a.logs.CatchUp(ctx)
	return a.steps(mctx, []step{
		{"count tokens", 0, func(ctx context.Context) (err error) {
			if err = a.countTokens(ctx, &a.subject.counting, h); err == nil {
				a.logs.Mark(ctx) // its questions are no requests of the trial
			}
			return err
		}},
		{"reset", 2 * ask.Timeout, a.reset},
		{"warm up pairs", 0, func(ctx context.Context) error { return a.warmPairs(ctx, driver) }},
		{"warm up", 0, func(ctx context.Context) error { return a.warmUp(ctx, driver) }},
		{"measure", 0, func(measuring context.Context) error {
			a.logs.Begin()
			return a.measure(measuring, ctx, driver)
		}},
	})
}

// How long the news of a server's death may take to come here. What broke
// arrives first, and a trial that ends on it must not be taken for a
// measurement: connections break a moment before the guard sees the exit, and
// vLLM's API server takes 3 s to follow an engine core that was killed, during
// which it answers with errors.
const (
	afterBroken = time.Second
	afterErrors = 5 * time.Second
)

// Died reports whether the server is gone. It waits for the news of that, at most 5 s,
// where the load ended on errors that a death may be behind; ctx cuts it short.
func (a *Attempt) Died(ctx context.Context) bool {
	completed := result.Never
	for _, r := range a.requests {
		if r.Status == result.Completed {
			completed = max(completed, r.End)
		}
	}
	wait := time.Duration(0)
	for _, r := range a.requests {
		if r.End < completed {
			continue // a request completed later, so the server lived
		}
		switch r.ErrorClass {
		case result.ErrConnect, result.ErrReset, result.ErrTruncated:
			wait = max(wait, afterBroken)
		case result.ErrServer:
			wait = max(wait, afterErrors)
		}
	}
	// Asked first and last: where both are ready a select takes either.
	if wait == 0 || a.subject.Server.Gone() {
		return a.subject.Server.Gone()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-a.subject.Server.Done():
	case <-ctx.Done():
	case <-t.C:
	}
	return a.subject.Server.Gone()
}

// measure runs the load between the collectors' first and last looks, and the
// plan's probes beside it. The last looks are taken also if the load ended before
// its time. Only the end of run cuts them short, since they are not needed then.
func (a *Attempt) measure(ctx, run context.Context, d sender) error {
	config := a.load()
	if f := a.config.Inputs.Skipped(a.trial.Cell.Load); f != nil {
		a.sink.Note(*f)
	}
	if f := a.counted.note(); f != nil {
		a.sink.Note(*f)
	}
	src, err := source.New(config)
	if err != nil {
		return err
	}
	loaded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := observe.Start(ctx, observe.Config{
		Collectors: a.config.Collectors, Server: a.subject.Server, Profile: a.subject.Profile, Backend: a.config.Backend,
		Given: a.config.Given, Columns: a.config.Plan.Columns(), Anchor: a.anchor,
		Asked: func() { a.subject.Extra.Add(1, 0) }, Sink: a.sink, Clients: d.processes(),
		Bounds: a.config.Plan.Validity,
	})
	probed, err := a.beside(loaded, config, d)
	if err != nil {
		a.columns = watch(run)
		return err
	}
	stolen := a.stealing()
	s := &supervisor{
		keep: a.keep, cancel: cancel, anchor: a.anchor, enough: make(chan struct{}),
		rule: ruleOf(a.trial.Cell.Load, source.Due(src), a.config.Plan.Watch(a.trial.Cell)),
	}
	a.health, err = d.send(loaded, sending{load: config, rec: s, watch: s}, a.options(func(p load.Progress) {
		s.updateRule(func(r *stopping.Rule) { r.InFlight(a.anchor.Since(), p.Sent, p.InFlight) })
		a.mu.Lock()
		p.TTFTP95MS = a.latest.p95()
		a.mu.Unlock()
		e := a.event(event.TrialProgress)
		e.Progress = &p
		a.config.Emit(e)
	}))
	stolen()
	probed()
	a.columns = watch(run)
	var early bool
	if a.ended, early = s.over(); early {
		a.sink.Note(ended(a.ended))
	} else {
		a.ended.By = capped(config, a.records.measured)
	}
	return errors.Join(err, config.Prompts.Err(), context.Cause(ctx))
}

func (a *Attempt) options(progress func(load.Progress)) load.Options {
	return load.Options{
		// A source ends by itself. The context ends only what will not be
		// used, so nothing in flight is worth waiting for.
		Anchor: a.anchor, Drain: 0, Progress: progress,
		RequestID: a.requestID(),
	}
}

// requestID returns what the ids of its requests begin with.
func (a *Attempt) requestID() string {
	return a.trial.Key.Cell + "-" + layout.Trial(a.trial.Key.Trial) + "-" + layout.Attempt(a.number)
}

// load returns the plan's load of this trial in the load package's terms.
func (a *Attempt) load() source.Config {
	c := a.config.Inputs.Source(a.trial.Cell, a.trial.Key.Trial, a.trial.First)
	c.Attempt = 1 // each is made on a server of its own, so all may ask the same
	if a.config.Given {
		c.Attempt = a.number
	}
	if a.subject.Server != nil && a.subject.Server.Foreign {
		c.Salt = saltOf(a.config.RunID)
	}
	c.Ramp = a.ramp
	c.Uncleared = a.uncleared
	c.WarmPrefixes = WarmsUntilFlat(a.config.Plan, a.subject.Profile, a.config.Given, a.trial.Cell.Load)
	c.Prompts.Tokens = a.counted.tokens()
	return c
}

// saltOf sets the markers of a run's prompts apart from those of other runs.
func saltOf(run string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, run)
	return h.Sum64()
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/event"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/executor/serverlog"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/serving"
	"sweep.dev/sweep/serving/ask"
	"sweep.dev/sweep/stopping"
)

// attempt makes one attempt at a trial on the server that is up, and commits
// it unless the server died and another attempt may follow. It returns how the
// server died, or nil. The error is ours.
//
// An attempt that the end of the run cuts short is discarded: half a measurement
// is no result. One that was measured to its end is kept.
func (d *deployment) attempt(ctx context.Context, t *trial, n int, last bool) (death *serving.Failure, err error) {
	m, err := d.begin(ctx, t, n)
	if err != nil {
		return nil, err
	}
	a := m.files
	d.run.Emit(event.Event{Type: event.TrialStarted, Deployment: d.of.ID, Cell: t.key.Cell, Trial: t.key.Trial, Attempt: n, Label: Label(t.cell)})
	m.logs.Mark(ctx)
	err = m.perform(ctx)

	needed := ctx
	if err == nil {
		needed = d.config.Teardown // it is all there: only an end at once gives it up
	}
	died := m.diedUnderLoad(needed)
	if needed.Err() != nil {
		return nil, d.discard(ctx, t, n, a, context.Cause(ctx).Error())
	}
	if died {
		death = d.death(ctx, t)
	}
	if death != nil && !last {
		d.extra.of(m.requests)
		return death, d.discard(ctx, t, n, a, "the server died: "+death.Text)
	}
	failed := death
	if failed == nil && err != nil {
		failed = &serving.Failure{Class: classOf(err), Text: err.Error()}
	}
	return death, m.commit(ctx, failed)
}

// commitFailure commits a failed row for a trial whose server never came up.
func (d *deployment) commitFailure(ctx context.Context, t *trial, n int, f *serving.Failure) error {
	m, err := d.begin(ctx, t, n)
	if err != nil {
		return err
	}
	return m.commit(ctx, f)
}

// begin makes an attempt that nothing is known of.
func (d *deployment) begin(ctx context.Context, t *trial, n int) (*measurement, error) {
	a, err := d.config.Dir.Begin(context.WithoutCancel(ctx), t.key, n)
	if err != nil {
		return nil, fmt.Errorf("begin attempt: %w", err)
	}
	m := newMeasurement(d, t)
	m.digest, m.attempt, m.files = d.config.Plan.SpecDigest(t.cell), n, a
	m.sink = observe.NewSink(a, d.run.mask)
	m.anchor, m.started = result.NewAnchor(), time.Now().UTC()
	return m, nil
}

// commit makes the attempt's outcome the trial's. A trial that was measured to
// its end is kept, whatever ends the run.
func (m *measurement) commit(ctx context.Context, failed *serving.Failure) error {
	ctx = context.WithoutCancel(ctx)
	o, err := m.finish(failed)
	if err == nil {
		err = m.files.Commit(ctx, o, m.digest)
	}
	if err != nil {
		// What of it is on disk must not be taken for a result later.
		return errors.Join(fmt.Errorf("commit %s trial %d: %w", m.trial.key.Cell, m.trial.key.Trial, err),
			m.files.Discard(ctx, "its commit failed"))
	}
	m.d.skipHigher(m.trial.cell, o.Row)
	m.d.remember(o.Row)
	m.run.committedOne(m.d, *m.trial, o)
	return nil
}

func (d *deployment) discard(ctx context.Context, t *trial, n int, a *rundir.Attempt, reason string) error {
	d.run.Emit(event.Event{Type: event.TrialDiscarded, Deployment: d.of.ID, Cell: t.key.Cell, Trial: t.key.Trial, Attempt: n, Text: reason, Label: Label(t.cell)})
	if err := a.Discard(context.WithoutCancel(ctx), reason); err != nil {
		return fmt.Errorf("discard attempt: %w", err)
	}
	return nil
}

// classOf is the class of what ended a trial other than its server.
func classOf(err error) string {
	if _, ok := errors.AsType[serving.Limit](err); ok {
		return "timeout"
	}
	return "load"
}

// A measurement is one attempt while it is being made.
type measurement struct {
	d       *deployment
	run     *run    // the deployment's
	config  *Config // the run's
	trial   *trial
	digest  string // of the cell, see [plan.Plan.SpecDigest]
	attempt int
	files   *rundir.Attempt
	anchor  result.Anchor
	started time.Time

	logs     *serverlog.Logs // of the server; nil: none is up
	sink     *observe.Sink
	mu       sync.Mutex // of records: the load and its probe end side by side
	records  records
	requests []result.Request // what records held, once the attempt is over
	counted  *counted         // how the server counts prompts; nil: nothing has to be known
	// uncleared: the server's prefix cache holds what was asked before the trial.
	uncleared bool
	health    load.Health
	ended     stopping.Decision // why the load ended
	stolen    *float64          // share of the CPU time that a hypervisor gave to others; nil: not known
	columns   result.Row        // from the collectors
}

func newMeasurement(d *deployment, t *trial) *measurement {
	m := &measurement{d: d, run: d.run, config: d.config, trial: t, sink: observe.NewSink(nil, d.run.mask)}
	if d.server != nil {
		m.logs = serverlog.New(d.server, d.profile)
	}
	return m
}

// Record implements [load.Recorder].
func (m *measurement) Record(r result.Request) { m.keep(r) }

// keep records a request, see [records.add].
func (m *measurement) keep(r result.Request) (full string) {
	r.Error = m.run.mask.Text(r.Error)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records.add(r)
}

// perform takes the attempt through its steps. A server that dies ends it.
func (m *measurement) perform(ctx context.Context) error {
	mctx, cancel := serving.WithLimit(ctx, "timeouts.trial", m.config.Plan.Timeouts.Trial)
	defer cancel()
	mctx, stop := backends.WhileUp(mctx, m.d.server.Deployment)
	defer stop()

	h := m.d.server.Host(m.d.profile.EntryRole(), 0)
	driver, err := m.driver(h)
	if err != nil {
		return err
	}
	defer driver.Close()
	defer func() { m.requests = m.records.take() }()
	defer m.logs.CatchUp(ctx)
	return m.d.steps(mctx, m.trial, m.attempt, []step{
		{"count tokens", 0, func(ctx context.Context) (err error) {
			if err = m.countTokens(ctx, &m.d.seen.counting, h); err == nil {
				m.logs.Mark(ctx) // its questions are no requests of the trial
			}
			return err
		}},
		{"reset", 2 * ask.Timeout, m.reset},
		{"warm up", 0, func(ctx context.Context) error { return m.warmUp(ctx, driver) }},
		{"measure", 0, func(measuring context.Context) error { return m.measure(measuring, ctx, driver) }},
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

// diedUnderLoad says whether the server is gone. It waits for the news of that
// where the load ended on errors that a death may be behind; ctx cuts it short.
func (m *measurement) diedUnderLoad(ctx context.Context) bool {
	completed := result.Never
	for _, r := range m.requests {
		if r.Status == result.Completed {
			completed = max(completed, r.End)
		}
	}
	wait := time.Duration(0)
	for _, r := range m.requests {
		if r.End < completed {
			continue // the dead complete nothing
		}
		switch r.ErrorClass {
		case result.ErrConnect, result.ErrReset, result.ErrTruncated:
			wait = max(wait, afterBroken)
		case result.ErrServer:
			wait = max(wait, afterErrors)
		}
	}
	// Asked first and last: where both are ready a select takes either.
	if wait == 0 || m.d.server.Gone() {
		return m.d.server.Gone()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-m.d.server.Done():
	case <-ctx.Done():
	case <-t.C:
	}
	return m.d.server.Gone()
}

// warmUp sends the warm-up's requests; they are recorded as such and never
// counted.
func (m *measurement) warmUp(ctx context.Context, d load.Driver) error {
	c := m.load()
	c.Phase = result.Warmup
	src, err := source.New(c)
	if err != nil {
		return err
	}
	_, err = d.Run(ctx, src, m, m.options(nil))
	m.learnFromWarmup(&m.d.seen.counting)
	return errors.Join(err, context.Cause(ctx))
}

// measure runs the load between the collectors' first and last looks, and the
// plan's probes beside it. The last looks are taken also where the load ended
// before its time; the end of run alone, after which nobody needs them, cuts
// them short.
func (m *measurement) measure(ctx, run context.Context, d load.Driver) error {
	config := m.load()
	if f := m.run.inputs.Skipped(m.trial.cell.Load); f != nil {
		m.sink.Note(*f)
	}
	if f := m.counted.note(); f != nil {
		m.sink.Note(*f)
	}
	src, err := source.New(config)
	if err != nil {
		return err
	}
	loaded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := observe.Start(ctx, observe.Config{
		Collectors: m.config.Collectors, Server: m.d.server, Profile: m.d.profile, Backend: m.config.Backend,
		Given: m.config.Servers.Given, Columns: m.config.Plan.Columns(), Anchor: m.anchor,
		Asked: func() { m.d.extra.add(1, 0) }, Sink: m.sink,
	})
	probed, err := m.beside(loaded, config)
	if err != nil {
		m.columns = watch(run)
		return err
	}
	stolen := m.stealing()
	s := &supervisor{Source: src, keep: m.keep, cancel: cancel, rule: ruleOf(m.trial.cell.Load)}
	m.health, err = d.Run(loaded, s, s, m.options(func(p load.Progress) {
		s.tell(func(r *stopping.Rule) { r.InFlight(m.anchor.Since(), p.Sent, p.InFlight) })
		m.run.Emit(event.Event{
			Type: event.TrialProgress, Deployment: m.d.of.ID, Cell: m.trial.key.Cell, Trial: m.trial.key.Trial,
			Attempt: m.attempt, Progress: &p, Label: Label(m.trial.cell),
		})
	}))
	stolen()
	probed()
	m.columns = watch(run)
	var early bool
	if m.ended, early = s.over(); early {
		m.sink.Note(ended(m.ended))
	} else {
		m.ended.By = capped(config, m.records.measured)
	}
	return errors.Join(err, context.Cause(ctx))
}

func (m *measurement) options(progress func(load.Progress)) load.Options {
	return load.Options{
		// A source ends by itself. The context ends only what will not be
		// used, so nothing in flight is worth waiting for.
		Anchor: m.anchor, Drain: 0, Progress: progress,
		RequestID: m.trial.key.Cell + "-" + layout.Trial(m.trial.key.Trial) + "-" + layout.Attempt(m.attempt),
	}
}

// load is the plan's load of this trial in the load package's terms.
func (m *measurement) load() source.Config {
	c := m.run.inputs.Source(m.trial.cell, m.trial.key.Trial, m.trial.first)
	c.Attempt = 1 // each is made on a server of its own, so all may ask the same
	if m.config.Servers.Given {
		c.Attempt = m.attempt
	}
	if m.d.server != nil && m.d.server.Foreign {
		c.Salt = saltOf(m.config.State.Manifest.RunID)
	}
	c.Uncleared = m.uncleared
	c.Prompts.Tokens = m.counted.tokens()
	return c
}

// saltOf sets the markers of a run's prompts apart from those of other runs.
func saltOf(run string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, run)
	return h.Sum64()
}

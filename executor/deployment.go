package executor

import (
	"context"
	"fmt"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/attempt"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// A deployment is one set of cells that share a server, and what is left to do
// for them.
type deployment struct {
	run      *run
	config   *Config // the run's
	of       plan.Deployment
	trials   []trial
	searches []*activeSearch // of a plan with find, which choose among the trials; else nil
	// remaining is the last count of left, which other goroutines read; guarded by run.mu.
	remaining int
	excluded  []string // devices that the next trial must not run on
	label     string

	profile        *engine.Profile
	extra          attempt.Tally
	servers        *serving.Servers
	up             *attempt.Subject   // its server is nil while none is up
	round          int                // the number of the trials that the server measures
	answers        *answers           // to the plan's quality prompts; nil: none yet
	fingerprintRow result.Row         // the fingerprint of the launch that is up
	known          known              // what software the committed trials measured
	stops          []stop             // of committed trials, in their order
	figures        map[string]figures // by cell

	objectives map[string]objectives // by cell that has trials added
}

func newDeployment(r *run, d plan.Deployment) *deployment {
	return &deployment{run: r, config: &r.config, of: d, label: ServerLabel(d)}
}

// use makes attempts measure a server, of which nothing is known yet; nil for none.
func (d *deployment) use(s *serving.Server) {
	d.up = &attempt.Subject{Of: d.of, Profile: d.profile, Server: s, Extra: &d.extra}
	d.fingerprintRow = nil
	d.described()
}

// Asked implements [serving.Measurer].
func (d *deployment) Asked(path string) { d.extra.Asked(path, &d.profile.API) }

// execute runs the deployment's trials one after another. The error is ours;
// what servers do wrong becomes rows.
func (d *deployment) execute(ctx context.Context) error {
	err := d.begin()
	if err != nil {
		return err
	}
	well := false // stays so by a panic, too
	defer func() { d.end(well && ctx.Err() == nil) }()
	switch {
	case d.searches != nil:
		err = d.runSearches(ctx)
	default:
		err = d.measure(ctx, func(*trial) bool { return true })
	}
	well = err == nil
	return err
}

// begin makes the deployment ready for its first launch. Its caller ends the deployment.
func (d *deployment) begin() error {
	profile, ok := d.config.Plan.Profile(d.of.Server.Profile)
	if !ok {
		return fmt.Errorf("engine profile %q does not exist", d.of.Server.Profile)
	}
	d.profile = profile
	d.use(nil)
	if err := d.recall(); err != nil {
		return err
	}
	d.servers = d.run.manager.Servers(d.of, profile, d.label, d)
	d.run.Emit(event.Event{Type: event.DeploymentStarted, Deployment: d.of.ID, Label: d.label})
	return nil
}

// end gives back what the deployment has; keep is of a server that is wanted by a later
// run.
func (d *deployment) end(keep bool) {
	stopped := event.Event{Type: event.DeploymentStopped, Deployment: d.of.ID}
	if d.servers.Close(keep) {
		stopped.Status = "kept"
	}
	d.run.Emit(stopped)
}

// measure runs those of the trials that are wanted.
func (d *deployment) measure(ctx context.Context, want func(*trial) bool) error {
	for i := range d.trials {
		if d.over(ctx) {
			return nil
		}
		if d.trials[i].done || !want(&d.trials[i]) {
			continue
		}
		if err := d.complete(ctx, &d.trials[i]); err != nil {
			return err
		}
	}
	return nil
}

// complete runs a trial, or commits that it was skipped.
func (d *deployment) complete(ctx context.Context, t *trial) error {
	if t.skip != nil {
		return d.commitSkipped(ctx, t)
	}
	return d.trial(ctx, t)
}

// trial brings one trial to its outcome: attempts until one is committed, each
// on a server that is up.
func (d *deployment) trial(ctx context.Context, t *trial) error {
	retries := 1
	if d.config.Plan.Retries != nil {
		retries = *d.config.Plan.Retries
	}
	d.turn(t)
	d.leave()
	n := d.config.State.Attempts[t.key]
	for try := 0; ; try++ {
		if d.up.Server != nil && d.up.Server.Gone() {
			// Between two trials: neither of them is to blame.
			d.giveUpServer(d.death(ctx, t))
			if d.servers.GivenUp() {
				return nil
			}
		}
		if d.over(ctx) {
			return nil
		}
		if d.up.Server == nil {
			failure, err := d.servers.Launch(ctx)
			if err != nil {
				return err
			}
			if d.over(ctx) {
				return nil
			}
			if failure != nil {
				return d.commitUnmeasured(ctx, t, n+1, outcome.End{Failure: failure})
			}
			d.use(d.servers.Up())
			d.identify(ctx)
			if d.over(ctx) {
				return nil
			}
			if d.isTaken() {
				return d.commitSeen(ctx, t, n+1)
			}
			if d.fingerprint(ctx); d.up.Server.Gone() {
				try-- // as between two trials
				continue
			}
		}
		if answered, err := d.answer(ctx); err != nil {
			return err
		} else if !answered {
			try-- // as between two trials
			continue
		}
		n++
		last := try >= retries || d.servers.LastLaunch()
		death, err := d.attempt(ctx, t, n, last)
		if err != nil || death == nil {
			return err
		}
		d.giveUpServer(death)
		if last || d.over(ctx) {
			return nil
		}
	}
}

// turn gives back the server of the trials with another number, where each has a
// launch of its own.
func (d *deployment) turn(t *trial) {
	if d.config.Plan.Repeats.Each() && d.round != t.key.Trial {
		d.servers.Renew()
		d.use(nil)
	}
	d.round = t.key.Trial
}

// death reports the end of the server that was up.
func (d *deployment) death(ctx context.Context, t *trial) *serving.Failure {
	f := d.servers.Death(ctx)
	d.run.Emit(event.Event{
		Type: event.ServerDied, Deployment: d.of.ID, Launch: d.up.Server.Launch, Cell: t.key.Cell,
		Class: f.Class, Error: f.Text, Label: Label(t.cell),
	})
	return f
}

func (d *deployment) giveUpServer(death *serving.Failure) {
	d.servers.Discard(death)
	d.use(nil)
}

// over reports whether nothing more may be done for this deployment: the run was
// ended, or a server of it could not be.
func (d *deployment) over(ctx context.Context) bool { return ctx.Err() != nil || d.servers.GivenUp() }

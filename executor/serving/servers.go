package serving

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/plan"
)

// maxRelaunches bounds how often a deployment is launched again after its
// server died, for every value of the plan's retries; of a search since its last trial
// that was measured, see [Servers.Progressed].
const maxRelaunches = 2

// A Measurer is whom the servers of a deployment are for.
type Measurer interface {
	// Accept says whether a server that is ready may be measured; its error ends
	// the run.
	Accept(*Server) error
	// Asked is called with the path of each question that was put to a server.
	Asked(path string)
}

// Servers are those of one deployment: each a launch of it, of which at most one
// is up. They are used by one goroutine.
type Servers struct {
	m        *Manager
	config   *Config // the manager's
	of       plan.Deployment
	profile  *engine.Profile
	label    string
	measurer Measurer

	undo     cleanup
	up       *Server // nil while none is
	launches int     // in this run
	deaths   int     // servers that died under a trial
	ready    bool    // a launch of this run came so far
	failed   *Failure
	givenUp  atomic.Bool // a server could not be stopped: nothing more may start
}

// Up returns the server that is up, which may have ended by itself; nil if none is.
func (d *Servers) Up() *Server { return d.up }

// GivenUp reports whether a server could not be stopped: nothing more may start.
func (d *Servers) GivenUp() bool { return d.givenUp.Load() }

// LastLaunch reports whether a server which dies now is not launched again.
func (d *Servers) LastLaunch() bool { return d.deaths >= maxRelaunches }

// Progressed notes that a trial was measured that a search had asked for, so that deaths
// before it do not count: under loads that are too high, servers die.
func (d *Servers) Progressed() { d.deaths = 0 }

// Death says why the server that was up ended.
func (d *Servers) Death(ctx context.Context) *Failure {
	return d.failureOf(ctx, backends.End(d.up.Deployment), d.up.Deployment, d.up.Roles)
}

// Hung says why the server that is up answers nothing in time, as far as its logs
// tell.
func (d *Servers) Hung() failure.Diagnosis {
	found, _ := classify(d.profile, d.logs(d.up.Roles), nil, failure.End{Hung: true, Engine: d.of.Server.Engine})
	return found
}

// Discard stops what is left of a dead server before anything else, so that a
// relaunch finds its port and its memory free.
func (d *Servers) Discard(death *Failure) {
	d.release()
	d.deaths++
	if d.deaths > maxRelaunches {
		d.failed = death.giveUp(d.deaths)
	}
}

// Renew gives back the server that is up, so that the next Launch starts another. A
// server that did not start is tried again then if one of the deployment has
// started in this run: what is wrong need not be the plan.
func (d *Servers) Renew() {
	if d.up != nil {
		d.release()
	}
	if d.ready && d.failed != nil && d.failed.Start {
		d.failed = nil
	}
}

// Close gives back everything, but for a server that is kept for a later run: if
// keep is true and that is asked for. It says whether one was kept.
func (d *Servers) Close(keep bool) (kept bool) {
	ctx, cancel := d.m.teardown("the deployment did not stop in time")
	defer cancel()
	defer func() { // a panic in keep ends the server, too
		d.m.addCleanup(d.undo.run(ctx))
		kept = d.up != nil && d.up.kept
	}()
	if keep {
		d.keep(ctx)
	}
	return kept
}

// over reports whether nothing more may be done for this deployment: the run was
// ended, or a server of it could not be.
func (d *Servers) over(ctx context.Context) bool { return d.givenUp.Load() || ctx.Err() != nil }

// emit reports an event of this deployment.
func (d *Servers) emit(e event.Event) {
	e.Deployment = d.of.ID
	d.config.Run.Emit(e)
}

// notice reports something about the deployment.
func (d *Servers) notice(format string, args ...any) {
	d.emit(event.Event{Type: event.Notice, Label: d.label, Text: fmt.Sprintf(format, args...)})
}

// release stops the server that is up.
func (d *Servers) release() {
	ctx, cancel := d.m.teardown("the server did not stop in time")
	defer cancel()
	d.up.release(ctx)
	d.up = nil
}

// releaser makes a server's release: where stop fails the deployment is given up.
func (d *Servers) releaser(stop func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		if err := stop(ctx); err != nil {
			d.giveUp(err)
		}
	}
}

// giveUp notes that something of this deployment could not be ended: its
// remaining trials stay without an outcome, for a resume.
func (d *Servers) giveUp(err error) {
	d.m.addCleanup(err)
	d.givenUp.Store(true)
}

// keep leaves the server that is up for a later run, where that is asked for.
func (d *Servers) keep(ctx context.Context) {
	if d.config.Options.Keep <= 0 || d.up == nil || d.up.Gone() {
		return
	}
	dep, ok := d.up.Deployment.(backends.Keeper)
	if !ok {
		d.emit(event.Event{Type: event.Notice, Text: fmt.Sprintf("backend %s cannot keep a server: it is ended", d.config.Plan.Backend.Kind)})
		return
	}
	if !d.up.calm() {
		return // the run was ended in this moment
	}
	s := d.up
	until := time.Now().Add(d.config.Options.Keep).Truncate(time.Second)
	owed, _ := s.pod.debt()
	if !owed.Expires.IsZero() && until.After(owed.Expires) {
		until = owed.Expires
	}
	if err := s.pod.keep(ctx, dep, until); err != nil {
		d.emit(event.Event{Type: event.Notice, Text: fmt.Sprintf("it is ended: %v", err)})
		return // what the clean-up ends is not kept
	}
	owed, _ = s.pod.debt()
	d.emit(event.Event{
		Type: event.PodKept, Launch: s.Launch, Label: d.label,
		Text: fmt.Sprintf("pod %s runs until %s at $%.2f/h; sweep pods show %[1]s says how to use it",
			cmp.Or(owed.Name, owed.Pod), until.Local().Format(time.DateTime), owed.USDPerHour),
	})
	d.m.addKept(owed)
	s.kept = true
}

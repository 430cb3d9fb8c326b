package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/event"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
)

// maxRelaunches bounds how often a deployment is launched again after its
// server died, whatever the plan's retries say.
const maxRelaunches = 2

// A deployment is one set of cells that share a server, and what is left to do
// for them.
type deployment struct {
	*run
	plan.Deployment
	trials []trial
	label  string

	profile *engine.Profile
	extra   tally
	server  *server // nil while none is up
	known   known   // what software the committed trials measured

	launches int         // in this run
	deaths   int         // servers that died under a trial
	failed   *failure    // why nothing more can be launched here, or nil
	givenUp  atomic.Bool // a server could not be stopped: nothing more may start
}

// A trial is one run of one cell that has no outcome yet.
type trial struct {
	key   rundir.Key
	cell  plan.Cell
	done  bool   // has an outcome
	first int    // of the given prompts: where this trial's begin
	skip  string // why it is not run; "" where it is
}

// A server is one launch of a deployment that became ready.
type server struct {
	backends.Deployment
	launch  int
	dir     string
	roles   []backends.Role
	version string
	startUp time.Duration // from the launch until it answered; 0 for a server that was up before
	pod     *pod
	// foreign: it was up before this run, and somebody else may have asked it.
	foreign bool
	used    bool // its prefix cache may hold prompts
	// counting is what was learned of its tokenizer.
	counting counting
	// release ends the server once, and waits until it has ended.
	release func(context.Context)
	calm    func() bool // takes back the order to end it when the run is ended
	kept    bool
}

// gone says whether the server has ended by itself.
func (s *server) gone() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// execute runs the deployment's trials one after another. The error is ours;
// what servers do wrong becomes rows.
func (d *deployment) execute(ctx context.Context) (err error) {
	profile, ok := d.Plan.Profile(d.Server.Profile)
	if !ok {
		return fmt.Errorf("engine profile %q does not exist", d.Server.Profile)
	}
	d.profile = profile
	var undo cleanup
	d.emit(event.Event{Type: event.DeploymentStarted, Deployment: d.ID, Label: d.label})
	defer func() {
		tctx, cancel := context.WithTimeoutCause(d.Teardown, d.stopTimeout(),
			errors.New("timeouts.stop: the deployment did not stop in time"))
		defer cancel()
		if err == nil && ctx.Err() == nil {
			d.keep(tctx)
		}
		d.addCleanup(undo.run(tctx))
		stopped := event.Event{Type: event.DeploymentStopped, Deployment: d.ID}
		if d.server != nil && d.server.kept {
			stopped.Status = "kept"
		}
		d.emit(stopped)
	}()

	if err := d.recall(); err != nil {
		return err
	}
	for i := range d.trials {
		if d.over(ctx) {
			return nil
		}
		if d.trials[i].done {
			continue
		}
		if d.trials[i].skip != "" {
			if err := d.commitSkipped(ctx, &d.trials[i]); err != nil {
				return err
			}
			continue
		}
		if err := d.trial(ctx, &d.trials[i], &undo); err != nil {
			return err
		}
	}
	return nil
}

// trial brings one trial to its outcome: attempts until one is committed, each
// on a server that is up.
func (d *deployment) trial(ctx context.Context, t *trial, undo *cleanup) error {
	retries := 1
	if d.Plan.Retries != nil {
		retries = *d.Plan.Retries
	}
	attempt := d.State.Attempts[t.key]
	for try := 0; ; try++ {
		if d.server != nil && d.server.gone() {
			// Between two trials: neither of them is to blame.
			d.bury(d.death(ctx, t))
			if d.givenUp.Load() {
				return nil
			}
		}
		if d.server == nil {
			s, failure, err := d.launch(ctx, undo)
			if err != nil {
				return err
			}
			if d.over(ctx) {
				return nil
			}
			if failure != nil {
				attempt++
				return d.commitFailure(ctx, t, attempt, failure)
			}
			d.server = s
		}
		attempt++
		last := try >= retries || d.deaths >= maxRelaunches
		death, err := d.attempt(ctx, t, attempt, last)
		if err != nil || death == nil {
			return err
		}
		d.bury(death)
		if last || d.over(ctx) {
			return nil
		}
	}
}

// death tells of the end of the server that was up.
func (d *deployment) death(ctx context.Context, t *trial) *failure {
	f := failureOf(ctx, backends.End(d.server), d.server, d.logs(d.server.roles), d.profile, d.Cells[0].Server.Engine)
	d.emit(event.Event{
		Type: event.ServerDied, Deployment: d.ID, Launch: d.server.launch, Cell: t.key.Cell,
		Class: f.class, Error: f.text, Label: Label(t.cell),
	})
	return f
}

// bury stops what is left of a dead server before anything else, so that a
// relaunch finds its port and its memory free.
func (d *deployment) bury(death *failure) {
	d.release()
	d.deaths++
	if d.deaths > maxRelaunches {
		d.failed = death.giveUp(d.deaths)
	}
}

// over says whether nothing more may be done for this deployment: the run was
// ended, or a server of it could not be.
func (d *deployment) over(ctx context.Context) bool { return d.givenUp.Load() || ctx.Err() != nil }

// stopTimeout bounds the end of one server: the grace it is given, and as much
// again as a provider may need until it is seen to be gone.
func (d *deployment) stopTimeout() time.Duration {
	return d.Plan.Timeouts.Stop + d.StopSlack + 5*time.Second
}

// release stops the server that is up.
func (d *deployment) release() {
	ctx, cancel := context.WithTimeoutCause(d.Teardown, d.stopTimeout(),
		errors.New("timeouts.stop: the server did not stop in time"))
	defer cancel()
	d.server.release(ctx)
	d.server = nil
}

// releaser makes a server's release: where stop fails the deployment is given up.
func (d *deployment) releaser(stop func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		if err := stop(ctx); err != nil {
			d.giveUp(err)
		}
	}
}

// giveUp says that something of this deployment could not be ended: its
// remaining trials stay without an outcome, for a resume.
func (d *deployment) giveUp(err error) {
	d.addCleanup(err)
	d.givenUp.Store(true)
}

// keep leaves the server that is up for a later run, where that is asked for.
func (d *deployment) keep(ctx context.Context) {
	if d.Keep <= 0 || d.server == nil || d.server.gone() {
		return
	}
	dep, ok := d.server.Deployment.(backends.Keeper)
	if !ok {
		d.emit(event.Event{Type: event.Notice, Deployment: d.ID, Text: fmt.Sprintf("backend %s cannot keep a server: it is ended", d.Plan.Backend.Kind)})
		return
	}
	if !d.server.calm() {
		return // the run was ended in this moment
	}
	s := d.server
	until := time.Now().Add(d.Keep).Truncate(time.Second)
	owed, _ := s.pod.debt()
	if !owed.Expires.IsZero() && until.After(owed.Expires) {
		until = owed.Expires
	}
	if err := s.pod.keep(ctx, dep, until); err != nil {
		d.emit(event.Event{Type: event.Notice, Deployment: d.ID, Text: fmt.Sprintf("it is ended: %v", err)})
		return // what the clean-up ends is not kept
	}
	owed, _ = s.pod.debt()
	d.addKept(owed)
	d.emit(event.Event{
		Type: event.PodKept, Deployment: d.ID, Launch: s.launch, Label: d.label,
		Text: fmt.Sprintf("pod %s runs on until %s at $%.2f/h; sweep pods show %[1]s says how to use it",
			cmp.Or(owed.Name, owed.Pod), until.Local().Format(time.DateTime), owed.USDPerHour),
	})
	s.kept = true
}

// logPaths are the log files of all roles of a launch.
func (s *server) logPaths() []string {
	var paths []string
	for _, role := range s.roles {
		for i := range role.Replicas {
			paths = append(paths, role.LogPath(i))
		}
	}
	return paths
}

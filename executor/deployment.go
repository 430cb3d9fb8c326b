package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
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
	server  *server // nil while none is up

	launches int         // in this run
	deaths   int         // servers that died under a trial
	failed   *failure    // why nothing more can be launched here, or nil
	givenUp  atomic.Bool // a server could not be stopped: nothing more may start
}

// A trial is one run of one cell that has no outcome yet.
type trial struct {
	key    rundir.Key
	cell   plan.Cell
	digest string
	done   bool // has an outcome
	first  int  // of the given prompts: where this trial's begin
}

// A server is one launch of a deployment that became ready.
type server struct {
	backends.Deployment
	launch  int
	dir     string
	roles   []backends.Role
	version string
	terms   backends.Terms // zero where it costs nothing
	pod     *pod
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

// whileUp is ctx until a deployment ends by itself; that is the cause then.
func whileUp(ctx context.Context, dep backends.Deployment) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-dep.Done():
			cancel(endOf(dep))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
	}
}

// execute runs the deployment's trials one after another. The error is ours;
// what servers do wrong becomes rows.
func (d *deployment) execute(ctx context.Context) (err error) {
	profile, ok := engine.Lookup(d.Server.Profile)
	if !ok {
		return fmt.Errorf("engine profile %q does not exist", d.Server.Profile)
	}
	d.profile = profile
	var undo cleanup
	d.emit(Event{Type: DeploymentStarted, Deployment: d.ID, Label: d.label})
	defer func() {
		tctx, cancel := context.WithTimeoutCause(d.Teardown, d.stopTimeout(),
			errors.New("timeouts.stop: the deployment did not stop in time"))
		defer cancel()
		if err == nil && ctx.Err() == nil {
			d.keep(tctx)
		}
		d.addCleanup(undo.run(tctx))
		d.emit(Event{Type: DeploymentStopped, Deployment: d.ID})
	}()

	for i := range d.trials {
		if d.over(ctx) {
			return nil
		}
		if d.trials[i].done {
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
	f := failureOf(ctx, endOf(d.server), d.server, d.tail(d.server.logPaths()), d.profile)
	d.emit(Event{
		Type: ServerDied, Deployment: d.ID, Launch: d.server.launch, Cell: t.key.Cell,
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
		d.emit(Event{Type: Notice, Deployment: d.ID, Text: fmt.Sprintf("backend %s cannot keep a server: it is ended", d.Plan.Backend.Kind)})
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
		d.emit(Event{Type: Notice, Deployment: d.ID, Text: fmt.Sprintf("it is ended: %v", err)})
		return // what the clean-up ends is not kept
	}
	owed, _ = s.pod.debt()
	d.addKept(owed)
	d.emit(Event{
		Type: PodKept, Deployment: d.ID, Launch: s.launch, Label: d.label,
		Text: fmt.Sprintf("pod %s runs on until %s at $%.2f/h", cmp.Or(owed.Name, owed.Pod), until.Local().Format(time.DateTime), owed.USDPerHour),
	})
	s.kept = true
}

// launch starts a server and waits until it may be measured. A server that
// cannot be started is a failure, not an error, and the deployment's other
// cells fail the same way without another start; so do those of a deployment
// whose server died too often.
func (d *deployment) launch(ctx context.Context, undo *cleanup) (*server, *failure, error) {
	if d.failed != nil {
		return nil, d.failed, nil
	}
	s, failed, err := d.start(ctx, undo)
	if failed != nil && failed.class == classPort {
		// Somebody took the port between its choice and the server's bind;
		// the next launch gets another.
		s, failed, err = d.start(ctx, undo)
	}
	if failed != nil {
		d.failed = failed
	}
	return s, failed, err
}

// classPort is the class of a server whose port was taken.
const classPort = "port"

// start is one launch.
func (d *deployment) start(ctx context.Context, undo *cleanup) (*server, *failure, error) {
	d.launches++
	n := d.State.Launches[d.ID] + d.launches
	d.emit(Event{Type: StepStarted, Deployment: d.ID, Launch: n, Step: "launch", Label: d.label})
	dir, err := d.Dir.LaunchDir(d.ID, n)
	if err != nil {
		return nil, nil, fmt.Errorf("launch directory: %w", err)
	}
	spec, err := d.spec(n, dir)
	if err != nil {
		return nil, nil, err
	}
	if err := d.Dir.WriteLaunch(d.ID, n, d.launchRecord(spec)); err != nil {
		return nil, nil, err
	}

	lctx, cancel := context.WithTimeoutCause(ctx, d.Plan.Timeouts.Launch,
		limit{"timeouts.launch", d.Plan.Timeouts.Launch})
	defer cancel()
	p := &pod{deployment: d, name: spec.Pod, ledger: d.ledgerOf(spec)}
	dep, err := d.obtain(lctx, spec, p)
	if err != nil {
		p.settle()
		d.hideInLogs(d.ID, n)
		if errors.Is(err, ErrMaxCost) {
			d.run.stop(err)
		}
		if d.over(ctx) {
			return nil, nil, nil
		}
		if errors.Is(err, backends.ErrRefused) || isDisk(err) {
			return nil, nil, err
		}
		return nil, d.launchFailed(n, failureOf(lctx, err, nil, nil, d.profile)), nil
	}
	s := &server{Deployment: dep, launch: n, dir: dir, roles: spec.Roles, pod: p}
	if rental, ok := dep.(backends.Rental); ok {
		s.terms = rental.Terms()
	}
	stop := undo.push(func(ctx context.Context) error {
		if s.kept {
			return nil
		}
		err := p.stop(ctx, dep)
		if owed, ok := p.debt(); ok {
			d.owe(owed)
		}
		if err == nil {
			d.hideInLogs(d.ID, n)
		}
		return err
	})
	s.release = d.releaser(stop)
	s.calm = d.atOnce(ctx, s.release)
	undo.push(func(context.Context) error { s.calm(); return nil })

	d.emit(Event{Type: StepStarted, Deployment: d.ID, Launch: n, Step: "ready", Label: d.label})
	started := time.Now()
	timeout := d.Plan.ReadyTimeout(d.profile)
	rctx, cancel := context.WithTimeoutCause(ctx, timeout, limit{"timeouts.ready", timeout})
	defer cancel()
	s.version, err = d.ready(rctx, dep)
	if err != nil {
		cause := failureOf(rctx, err, dep, d.tail(s.logPaths()), d.profile)
		d.server = s
		d.release()
		if d.over(ctx) {
			return nil, nil, nil
		}
		return nil, d.launchFailed(n, cause), nil
	}
	if err := p.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Ready}); err != nil {
		return nil, nil, err
	}
	e := Event{
		Type: ServerReady, Deployment: d.ID, Launch: n, Label: d.label,
		Text: fmt.Sprintf("ready after %s", time.Since(started).Round(10*time.Millisecond)),
	}
	return s, nil, d.record(ctx, e)
}

// atOnce ends a server as soon as the run is ended, beside whatever is being
// done with it: what costs money is given back first and together with all
// others, because whoever ends a run may not wait for long. The returned
// function takes that back; it is false where it is too late, and then it has
// waited for the end.
func (d *deployment) atOnce(ctx context.Context, release func(context.Context)) (calm func() bool) {
	ended := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(ended)
		defer func() {
			if v := recover(); v != nil {
				p := &Panic{Value: v, Stack: debug.Stack()}
				d.giveUp(p)
				d.run.stop(p)
			}
		}()
		ctx, cancel := context.WithTimeoutCause(d.Teardown, d.stopTimeout(),
			errors.New("timeouts.stop: the server did not stop in time"))
		defer cancel()
		release(ctx)
	})
	return func() bool {
		if cancel() {
			return true
		}
		<-ended
		return false
	}
}

// ledgerOf is the ledger of one launch: the run directory's and the book.
func (d *deployment) ledgerOf(spec backends.Spec) backends.Ledger {
	if d.Book == nil {
		return d.Dir.Ledger()
	}
	return d.Book.Ledger(spec.Digest, d.Dir.Ledger())
}

// leastLife is how much longer a kept pod has to live to be worth adopting.
const leastLife = 10 * time.Minute

// obtain takes over a kept server that is the same, or launches one.
func (d *deployment) obtain(ctx context.Context, spec backends.Spec, p *pod) (backends.Deployment, error) {
	adopter, ok := d.Backend.(backends.Adopter)
	if !ok || d.Book == nil {
		return d.Backend.Launch(ctx, spec, p)
	}
	kept, ok, err := d.Book.Adopt(spec.Digest, leastLife)
	if err != nil {
		return nil, fmt.Errorf("look for a kept pod: %w", err)
	}
	if !ok {
		return d.Backend.Launch(ctx, spec, p)
	}
	dep, err := d.adopt(ctx, adopter, spec, p, kept)
	if !errors.Is(err, backends.ErrNotFound) {
		return dep, err
	}
	d.emit(Event{Type: Notice, Deployment: d.ID, Label: d.label, Text: fmt.Sprintf("the kept pod %s is gone; another one is launched", kept.Name)})
	return d.Backend.Launch(ctx, spec, p)
}

// adopt takes over a kept pod: its life goes on in this run's ledger.
func (d *deployment) adopt(ctx context.Context, b backends.Adopter, spec backends.Spec, p *pod, kept rundir.Owed) (backends.Deployment, error) {
	ref := kept.Find(spec.RunID)
	for _, a := range []backends.Arrow{
		{Pod: spec.Pod, State: backends.Intended, Kind: kept.Kind, Name: kept.Name, At: kept.At, Expires: &kept.Expires, USDPerHour: kept.USDPerHour},
		{Pod: spec.Pod, State: backends.Sent},
		{Pod: spec.Pod, State: backends.Created, Ref: &ref},
	} {
		if err := p.Record(ctx, a); err != nil {
			return nil, err
		}
	}
	spec.Expires = kept.Expires
	dep, err := b.Adopt(ctx, spec, ref)
	if errors.Is(err, backends.ErrNotFound) {
		return nil, errors.Join(err, p.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Gone}))
	}
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", kept.Name, err)
	}
	d.emit(Event{Type: Notice, Deployment: d.ID, Label: d.label, Text: fmt.Sprintf("pod %s, which an earlier run kept, is taken over", kept.Name)})
	return dep, nil
}

// launchFailed tells of a server that did not start.
func (d *deployment) launchFailed(n int, f *failure) *failure {
	f.start = true
	d.emit(Event{Type: LaunchFailed, Deployment: d.ID, Launch: n, Class: f.class, Error: f.text, Label: d.label})
	return f
}

// spec renders what the backend needs to know of this deployment's server.
func (d *deployment) spec(n int, dir string) (backends.Spec, error) {
	env := map[string]string{}
	for k, v := range d.Server.Env {
		env[k] = v.Reveal()
	}
	args := make(map[string]any, len(d.Server.Args))
	for _, a := range d.Server.Args {
		args[a.Name] = a.Value
	}
	spec := backends.Spec{
		Owner: d.State.Manifest.Owner, RunID: d.State.Manifest.RunID,
		Pod:    fmt.Sprintf("%s-l%02d", d.ID, n),
		Engine: d.Server.Profile, Model: d.Server.Model, Args: args,
		GPU: d.Server.GPU, GPUs: d.Server.GPUCount, Seed: d.Plan.Seed,
		Grace: d.Plan.Timeouts.Stop, Digest: d.digest(),
		Expires: d.expires(time.Now()),
	}
	roles := d.profile.Roles
	if len(roles) == 0 {
		roles = []engine.Role{{Name: "server"}}
	}
	for _, role := range roles {
		spec.Roles = append(spec.Roles, backends.Role{
			Name: role.Name, Replicas: 1, Env: merge(role.Env, env), CPUs: d.Server.CPUs,
			LogPath: func(replica int) string {
				return filepath.Join(dir, role.Name+"-"+strconv.Itoa(replica)+".log")
			},
			Argv:  func(a backends.Address) ([]string, error) { return d.argv(role.Name, a) },
			Image: cmp.Or(d.Server.Image, role.Image), Entrypoint: entrypoint(d.Server, role), KeyEnv: role.KeyEnv,
		})
	}
	return spec, nil
}

// digest is equal for two launches whose servers are the same, in whatever run:
// the same backend and the same server.
func (d *deployment) digest() string { return d.Plan.Backend.Kind + "-" + d.ID }

// expires is when a pod that is launched now ends itself at the latest; zero
// for one that ends with us.
func (d *deployment) expires(now time.Time) time.Time {
	if d.Lifetime <= 0 {
		return time.Time{}
	}
	return now.Add(d.Lifetime + d.Keep).Truncate(time.Second).UTC()
}

// entrypoint is the ENTRYPOINT of a role's image: the plan's, where it names an
// image of its own, else the profile's.
func entrypoint(s plan.Server, role engine.Role) []string {
	if s.Entrypoint != nil {
		return s.Entrypoint
	}
	return role.Entrypoint
}

// A launchRecord is launch.json: what the server was started with. The port is
// chosen later; credentials stay references.
type launchRecord struct {
	Deployment string              `json:"deployment"`
	Pod        string              `json:"pod"`
	Backend    string              `json:"backend"`
	Server     plan.Server         `json:"server"`
	Argv       map[string][]string `json:"argv,omitempty"` // by role
}

func (d *deployment) launchRecord(spec backends.Spec) launchRecord {
	l := launchRecord{Deployment: d.ID, Pod: spec.Pod, Backend: d.Plan.Backend.Kind, Server: d.Server, Argv: map[string][]string{}}
	for _, role := range d.profile.Roles {
		argv, err := d.argv(role.Name, backends.Address{Host: "HOST", Port: role.Port})
		if err == nil { // else the launch will say it
			l.Argv[role.Name] = argv
		}
	}
	return l
}

func (d *deployment) argv(role string, a backends.Address) ([]string, error) {
	return Argv(d.profile, role, d.Server, d.Plan.Seed, d.Sweep, a)
}

// Argv is the command line of one replica of a role. sweep is the path of this
// program, for engines that are part of it.
func Argv(p *engine.Profile, role string, s plan.Server, seed uint64, sweep string, a backends.Address) ([]string, error) {
	args := make([]engine.Arg, len(s.Args))
	for i, arg := range s.Args {
		args[i] = engine.Arg{Name: arg.Name, Value: arg.Value}
	}
	vars := engine.Vars{Model: s.Model, Served: s.Served, Host: a.Host, Port: a.Port, GPU: s.GPU, GPUs: s.GPUCount, Seed: seed, Sweep: sweep}
	if s.Served == s.Model {
		vars.Served = ""
	}
	argv, err := p.Argv(role, vars, args, s.Command)
	if err != nil {
		return nil, fmt.Errorf("command line of %s: %w", s.Engine, err)
	}
	return argv, nil
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

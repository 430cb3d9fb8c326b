package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/event"
	"sweep.dev/sweep/rundir"
)

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
	d.emit(event.Event{Type: event.StepStarted, Deployment: d.ID, Launch: n, Step: "launch", Label: d.label})
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

	bound := limit{"timeouts.launch", d.Plan.Timeouts.Launch}
	if waits(spec.Roles) { // for a role that becomes ready, which has bounds of its own
		bound = limit{"timeouts.launch and timeouts.ready", bound.d + time.Duration(len(spec.Roles))*d.Plan.ReadyTimeout(d.profile)}
	}
	lctx, cancel := context.WithTimeoutCause(ctx, bound.d, bound)
	defer cancel()
	launched := time.Now()
	p := &pod{deployment: d, name: spec.Pod, ledger: d.ledgerOf(spec)}
	dep, err := d.obtain(lctx, spec, p)
	if err != nil {
		p.settle()
		d.hideInLogs(d.ID, n)
		if d.over(ctx) {
			return nil, nil, nil
		}
		if full, ok := errors.AsType[*noRoom](err); ok {
			return d.startLater(ctx, undo, full)
		}
		if errors.Is(err, ErrMaxCost) {
			d.run.stop(err)
			return nil, nil, nil
		}
		if errors.Is(err, backends.ErrRefused) || isDisk(err) {
			return nil, nil, err
		}
		return nil, d.launchFailed(n, failureOf(lctx, err, nil, d.logs(spec.Roles), d.profile, d.Cells[0].Server.Engine)), nil
	}
	s := &server{Deployment: dep, launch: n, dir: dir, roles: spec.Roles, pod: p}
	s.foreign = d.Given || p.name != spec.Pod // given, or kept by an earlier run
	s.used = s.foreign
	if terms := s.terms(); terms.USDPerHour > 0 {
		owed, _ := p.debt()
		d.emit(event.Event{Type: event.Notice, Deployment: d.ID, Label: d.label, Text: fmt.Sprintf("%s: rented at $%.2f/h as %s; it ends itself at %s", d.label, terms.USDPerHour, terms.Ref.ID, owed.Expires.Local().Format(time.DateTime))})
	}
	stop := undo.push(func(ctx context.Context) error {
		if s.kept {
			return nil
		}
		err := p.stop(ctx, dep)
		p.strand()
		if err == nil {
			d.hideInLogs(d.ID, n)
		}
		return err
	})
	s.release = d.releaser(stop)
	s.calm = d.atOnce(ctx, s.release)
	undo.push(func(context.Context) error { s.calm(); return nil })

	d.emit(event.Event{Type: event.StepStarted, Deployment: d.ID, Launch: n, Step: "ready", Label: d.label})
	started := time.Now()
	timeout := d.Plan.ReadyTimeout(d.profile)
	rctx, cancel := context.WithTimeoutCause(ctx, timeout, limit{"timeouts.ready", timeout})
	defer cancel()
	first, err := d.ready(rctx, dep, s.roles)
	if err != nil {
		cause := failureOf(rctx, err, dep, d.logs(s.roles), d.profile, d.Cells[0].Server.Engine)
		d.server = s
		d.release()
		if d.over(ctx) {
			return nil, nil, nil
		}
		return nil, d.launchFailed(n, cause), nil
	}
	s.version = first.version
	if err := d.drift(s); err != nil {
		return nil, nil, err
	}
	if first.uncounted {
		d.emit(event.Event{Type: event.Notice, Deployment: d.ID, Launch: n, Label: d.label, Text: d.label + ": the server streams no usage: each chunk with content counts as one token (tokens_assumed)"})
	}
	if !s.foreign {
		s.startUp = time.Since(launched)
	}
	if err := p.Record(ctx, backends.Arrow{Pod: p.name, State: backends.Ready}); err != nil {
		return nil, nil, err
	}
	e := event.Event{
		Type: event.ServerReady, Deployment: d.ID, Launch: n, Label: d.label,
		Text: fmt.Sprintf("ready after %s", time.Since(started).Round(10*time.Millisecond)),
	}
	return s, nil, d.record(ctx, e)
}

// startLater is start once another pod of the run is given back: the run goes on,
// though the budget has no room for this one yet.
func (d *deployment) startLater(ctx context.Context, undo *cleanup, full *noRoom) (*server, *failure, error) {
	d.emit(event.Event{Type: event.Notice, Deployment: d.ID, Label: d.label, Text: fmt.Sprintf("%s: waits until another pod is given back: %v", d.label, full)})
	select {
	case <-full.freed:
		return d.start(ctx, undo)
	case <-ctx.Done():
		return nil, nil, nil
	}
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
	return sync.OnceValue(func() bool {
		if cancel() {
			return true
		}
		<-ended
		return false
	})
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
	d.emit(event.Event{Type: event.Notice, Deployment: d.ID, Label: d.label, Text: fmt.Sprintf("the kept pod %s is gone; another one is launched", kept.Name)})
	return d.Backend.Launch(ctx, spec, p)
}

// adopt takes over a kept pod: its life goes on in this run's ledger.
func (d *deployment) adopt(ctx context.Context, b backends.Adopter, spec backends.Spec, p *pod, kept rundir.Owed) (backends.Deployment, error) {
	ref := kept.Find(spec.RunID)
	p.name = kept.Pod // by which the book has it already
	// It is there already, so even the first arrow has its ref: of an intent
	// without one nothing was sent, and nothing is ended.
	intent := backends.Arrow{
		Pod: p.name, State: backends.Intended, Kind: kept.Kind, Name: kept.Name, At: kept.At,
		Expires: &kept.Expires, USDPerHour: kept.USDPerHour, Ref: &ref,
	}
	for _, a := range []backends.Arrow{
		intent,
		{Pod: p.name, State: backends.Sent},
		{Pod: p.name, State: backends.Created, Ref: &ref},
	} {
		if err := p.Record(ctx, a); err != nil {
			p.hold(intent)
			return nil, err
		}
	}
	spec.Expires = kept.Expires
	dep, err := b.Adopt(ctx, spec, ref)
	if errors.Is(err, backends.ErrNotFound) {
		err = errors.Join(err, p.Record(ctx, backends.Arrow{Pod: p.name, State: backends.Gone}))
		p.name = spec.Pod
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", kept.Name, err)
	}
	d.emit(event.Event{Type: event.Notice, Deployment: d.ID, Label: d.label, Text: fmt.Sprintf("pod %s, which an earlier run kept, is taken over", kept.Name)})
	return dep, nil
}

// withheld is the hint that a model's hub may have refused the server because a
// token that is set here was not passed on, or "". A server gets nothing of this
// environment unless its plan says so.
func (d *deployment) withheld(class string) string {
	const token = "HF_TOKEN"
	if !slices.Contains([]string{"auth", "model", engine.ClassUnknown, engine.ClassExit, engine.ClassTimeout}, class) || d.Given {
		return ""
	}
	here := slices.ContainsFunc(d.Environ, func(v string) bool { return strings.HasPrefix(v, token+"=") && v != token+"=" })
	server := d.Cells[0].Server
	_, named := server.Env[token]
	for _, role := range server.Roles {
		_, own := role.Env[token]
		named = named || own
	}
	for _, s := range d.Plan.Secrets() { // the backend's env is not the executor's to read
		named = named || s.Ref() == "${"+token+"}"
	}
	if !here || named {
		return ""
	}
	return fmt.Sprintf("%s is set here and was not passed to the server: the plan does not name it (engines.%s.env: {%s: ${%s}})", token, server.Engine, token, token)
}

// launchFailed tells of a server that did not start.
func (d *deployment) launchFailed(n int, f *failure) *failure {
	f.start = true
	f.text = d.mask.Text(f.text)
	if hint := d.withheld(f.class); hint != "" {
		f.hint = strings.Trim(f.hint+"; "+hint, "; ")
	}
	d.emit(event.Event{Type: event.LaunchFailed, Deployment: d.ID, Launch: n, Class: f.class, Error: f.text, Label: d.label})
	return f
}

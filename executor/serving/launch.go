package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/serving/budget"
	"sweep.dev/sweep/executor/serving/ready"
	"sweep.dev/sweep/internal/humanize"
)

// Launch starts a server and waits until it may be measured; it is the one that is
// up then. A server that cannot be started is a failure, not an error, and the
// deployment's other cells fail the same way without another start; so do those of
// a deployment whose server died too often. It is neither where the run was ended
// or the deployment given up meanwhile.
func (d *Servers) Launch(ctx context.Context) (*Failure, error) {
	if d.failed != nil {
		return d.failed, nil
	}
	s, failed, err := d.start(ctx)
	if failed != nil && failed.Class == classPort {
		// Somebody took the port between its choice and the server's bind;
		// the next launch gets another.
		s, failed, err = d.start(ctx)
	}
	if err != nil || failed != nil {
		d.failed = failed
		return failed, err
	}
	if s != nil && !d.over(ctx) {
		d.up, d.ready = s, true
	}
	return nil, nil
}

// classPort is the class of a server whose port was taken.
const classPort = "port"

// start launches once and returns a server that is ready, or a failure. It is neither if the
// run was ended meanwhile.
func (d *Servers) start(ctx context.Context) (*Server, *Failure, error) {
	d.launches++
	n := d.config.State.Launches[d.of.ID] + d.launches
	d.emit(event.Event{Type: event.StepStarted, Launch: n, Step: "launch", Label: d.label})
	spec, err := d.prepare(n)
	if err != nil {
		return nil, nil, err
	}
	launched := time.Now()
	s, failed, err := d.acquire(ctx, n, spec)
	if full, ok := errors.AsType[*budget.NoRoom](err); ok {
		return d.startLater(ctx, full)
	}
	if s == nil || failed != nil || err != nil {
		return nil, failed, err
	}
	d.giveBackLater(ctx, s)
	if failed, err = d.await(ctx, s, launched); failed != nil || err != nil || d.over(ctx) {
		return nil, failed, err
	}
	return s, nil, nil
}

// prepare makes the folder of the nth launch, and writes down what it starts.
func (d *Servers) prepare(n int) (backends.Spec, error) {
	dir, err := d.config.Dir.LaunchDir(d.of.ID, n)
	if err != nil {
		return backends.Spec{}, fmt.Errorf("launch directory: %w", err)
	}
	spec, err := d.spec(n, dir)
	if err != nil {
		return spec, err
	}
	return spec, d.config.Dir.WriteLaunch(d.of.ID, n, d.launchRecord(spec))
}

// acquire gets a server of the backend, which need not be ready. The error may be a
// [budget.NoRoom].
func (d *Servers) acquire(ctx context.Context, n int, spec backends.Spec) (*Server, *Failure, error) {
	bound := Limit{"timeouts.launch", d.config.Plan.Timeouts.Launch}
	if waits(spec.Roles) { // for a role that becomes ready, which has bounds of its own
		bound = Limit{"timeouts.launch and timeouts.ready", bound.After + time.Duration(len(spec.Roles))*d.config.Plan.ReadyTimeout(d.profile)}
	}
	lctx, cancel := context.WithTimeoutCause(ctx, bound.After, bound)
	defer cancel()
	p := &pod{of: d, name: spec.Pod, ledger: d.ledgerOf(spec)}
	dep, err := d.obtain(lctx, spec, p)
	if err != nil {
		p.settle()
		d.m.hideInLogs(d.of.ID, n)
		if d.over(ctx) {
			return nil, nil, nil
		}
		if _, ok := errors.AsType[*budget.NoRoom](err); ok {
			return nil, nil, err
		}
		if errors.Is(err, budget.ErrMaxCost) {
			d.config.Run.Stop(err)
			return nil, nil, nil
		}
		if errors.Is(err, backends.ErrRefused) || isDisk(err) {
			return nil, nil, err
		}
		return nil, d.launchFailed(n, d.failureOf(lctx, err, nil, spec.Roles)), nil
	}
	s := &Server{Deployment: dep, Launch: n, Roles: spec.Roles, pod: p, authorize: d.authorizer(dep)}
	if found, ok := dep.(backends.Found); ok {
		s.Roles = found.Roles()
	}
	s.Foreign = d.config.Options.Given && !backends.Applies(d.config.Backend) || p.name != spec.Pod // given, or kept by an earlier run
	return s, nil, nil
}

// giveBackLater puts a server on the stack of what is to be undone, and has it
// ended at once when the run is ended.
func (d *Servers) giveBackLater(ctx context.Context, s *Server) {
	if terms := s.Terms(); terms.USDPerHour > 0 {
		owed, _ := s.pod.debt()
		d.notice("%s: rented at $%.2f/h as %s; it ends itself at %s", d.label, terms.USDPerHour, terms.Ref.ID, owed.Expires.Local().Format(time.DateTime))
	}
	stop := d.undo.push(func(ctx context.Context) error {
		if s.kept {
			return nil
		}
		err := s.pod.stop(ctx, s.Deployment)
		s.pod.strand()
		if err == nil {
			d.m.hideInLogs(d.of.ID, s.Launch)
		}
		return err
	})
	s.release = d.releaser(stop)
	s.calm = d.atOnce(ctx, s.release)
	d.undo.push(func(context.Context) error { s.calm(); return nil })
}

// await waits until a server may be measured. One that does not come so far is
// ended.
func (d *Servers) await(ctx context.Context, s *Server, launched time.Time) (*Failure, error) {
	n := s.Launch
	d.emit(event.Event{Type: event.StepStarted, Launch: n, Step: "ready", Label: d.label})
	started := time.Now()
	timeout := d.config.Plan.ReadyTimeout(d.profile)
	rctx, cancel := WithLimit(ctx, "timeouts.ready", timeout)
	defer cancel()
	first, err := d.check().Server(rctx, s.Deployment, s.Roles, s.authorize)
	if err != nil {
		cause := d.failureOf(rctx, err, s.Deployment, s.Roles)
		d.up = s
		d.release()
		if d.over(ctx) {
			return nil, nil
		}
		return d.launchFailed(n, cause), nil
	}
	s.Version, s.Model = cmp.Or(first.Version, s.Terms().Version), first.Model
	if err := d.measurer.Accept(s); err != nil {
		return nil, err
	}
	if first.Uncounted {
		d.emit(event.Event{Type: event.Notice, Launch: n, Label: d.label, Text: d.label + ": the server streams no usage: each chunk with content counts as one token (tokens_assumed)"})
	}
	switch served := d.of.Server.Served; {
	case first.Model != "" && first.Model != served:
		d.notice("%s: the server answers as %q to requests for %q", d.label, first.Model, served)
	case len(first.Listed) > 0:
		d.notice("%s: the server does not list %q, and answers to it: it has %s", d.label, served, humanize.List(first.Listed, ready.MaxListed))
	}
	if !s.Foreign {
		s.StartUp = time.Since(launched)
	}
	if err := s.pod.Record(ctx, backends.Transition{Pod: s.pod.name, State: backends.Ready}); err != nil {
		return nil, err
	}
	return nil, d.config.Run.Record(ctx, event.Event{
		Type: event.ServerReady, Deployment: d.of.ID, Launch: n, Label: d.label,
		Text: fmt.Sprintf("ready after %s", time.Since(started).Round(10*time.Millisecond)),
	})
}

// startLater is start once another pod of the run is given back: the run goes on,
// though the budget has no room for this one yet.
func (d *Servers) startLater(ctx context.Context, full *budget.NoRoom) (*Server, *Failure, error) {
	d.notice("%s: waits until another pod is given back: %v", d.label, full)
	select {
	case <-full.Freed:
		return d.start(ctx)
	case <-ctx.Done():
		return nil, nil, nil
	}
}

// atOnce ends a server as soon as the run is ended, beside whatever is being
// done with it: what costs money is given back first and together with all
// others, because the signal that ends a run may leave little time. The returned
// function takes that back; it is false if it is too late, and then it has
// waited for the end.
func (d *Servers) atOnce(ctx context.Context, release func(context.Context)) (calm func() bool) {
	ended := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(ended)
		defer func() {
			if v := recover(); v != nil {
				p := &Panic{Value: v, Stack: debug.Stack()}
				d.giveUp(p)
				d.config.Run.Stop(p)
			}
		}()
		ctx, cancel := d.m.teardown("the server did not stop in time")
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

// withheld returns the hint that a model's hub may have refused the server because a
// token that is set here was not passed on, or "". A server gets nothing of this
// environment unless its plan says so.
func (d *Servers) withheld(class string) string {
	const token = "HF_TOKEN"
	if !slices.Contains([]string{"auth", "model", failure.ClassUnknown, failure.ClassExit, failure.ClassTimeout}, class) || d.config.Options.Given {
		return ""
	}
	here := slices.ContainsFunc(d.config.Environ, func(v string) bool { return strings.HasPrefix(v, token+"=") && v != token+"=" })
	server := d.of.Server
	_, named := server.Env[token]
	for _, role := range server.Roles {
		_, own := role.Env[token]
		named = named || own
	}
	for _, s := range d.config.Plan.Secrets() { // the backend's env is not the executor's to read
		named = named || s.Ref() == "${"+token+"}"
	}
	if !here || named {
		return ""
	}
	return fmt.Sprintf("%s is set here and was not passed to the server: the plan does not name it (engines.%s.env: {%s: ${%s}})", token, server.Engine, token, token)
}

// launchFailed reports a server that did not start.
func (d *Servers) launchFailed(n int, f *Failure) *Failure {
	f.Start = true
	f.Text = d.config.Mask.Text(f.Text)
	if hint := d.withheld(f.Class); hint != "" {
		f.Hint = strings.Trim(f.Hint+"; "+hint, "; ")
	}
	d.emit(event.Event{Type: event.LaunchFailed, Launch: n, Class: f.Class, Error: f.Text, Label: d.label})
	return f
}

// A Panic is a fault of ours in the midst of a deployment. What the deployment
// had started is stopped before the run ends with it.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Recovered makes an error of a panic. It is deferred.
func Recovered(err *error) {
	if v := recover(); v != nil {
		*err = &Panic{Value: v, Stack: debug.Stack()}
	}
}

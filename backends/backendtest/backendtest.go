// Package backendtest holds the contract of package backends against an
// implementation of it. A backend's own test is a call of [Run].
package backendtest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/slow"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

// A suite is the contract for one backend.
type suite struct {
	fresh   func(*testing.T) (backends.Backend, backends.Spec)
	nothing bool
	crash   func(*testing.T, backends.Deployment)
	spoil   func(*backends.Spec)
	remote  bool
	oneRole bool
	layered bool
	full    bool
	config  string // for who is killed
	points  []effect.Point
}

// An Option says how a backend differs from one that starts local processes.
type Option func(*suite)

// StartsNothing is for a backend whose servers run already: they must survive
// everything.
func StartsNothing() Option { return func(s *suite) { s.nothing = true } }

// CrashWith ends a deployment's server as an accident would. By default the
// first process of the role "server", a [host.Processor], gets SIGKILL.
func CrashWith(crash func(*testing.T, backends.Deployment)) Option {
	return func(s *suite) { s.crash = crash }
}

// Remote is for a backend whose servers run elsewhere: their hosts run nothing
// but tools that report on the GPU, and the processes that play them here may end
// a moment after the provider has said so.
func Remote() Option { return func(s *suite) { s.remote = true } }

// Provisioned is for a provider of backends/provision, whose tests hold in one process
// that a launch of which a role fails leaves nothing. Without the build tag slow it is
// held here for one such failure.
func Provisioned() Option { return func(s *suite) { s.layered = true } }

// Full has everything done that otherwise only the build tag slow does.
func Full() Option { return func(s *suite) { s.full = true } }

// SpoilWith makes a Spec that cannot be launched. By default its command does
// not exist.
func SpoilWith(spoil func(*backends.Spec)) Option { return func(s *suite) { s.spoil = spoil } }

// Run runs the contract. fresh makes a backend and the spec of a server that
// answers HTTP and writes at least one line to its log; it is called several
// times. Owner and run of the spec are replaced, so that nothing that another
// test left is taken for this one's.
func Run(t *testing.T, fresh func(*testing.T) (backends.Backend, backends.Spec), opts ...Option) {
	s := &suite{fresh: fresh, crash: kill, spoil: noCommand, full: slow.Tests}
	for _, o := range opts {
		o(s)
	}
	parts := []part{{"launch and stop", s.launch}, {"ledger fails", s.ledgerFails}, {"cancelled", s.cancelled}, {"two at once", s.two}}
	if !s.nothing {
		parts = append(parts, part{"spoiled", s.spoiled}, part{"extra and crash", s.crashes})
	}
	if !s.nothing && !s.oneRole {
		parts = append(parts, part{"roles", s.roles}, part{"roles fail", s.rolesFail}, part{"killed", s.killed})
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // each has deployments of its own, and waits more than it computes
			p.test(t)
		})
	}
}

// A part of the contract.
type part struct {
	name string
	test func(*testing.T)
}

// A trial is a backend with a spec of its own.
type trial struct {
	*testing.T
	*suite
	backends.Backend
	spec   backends.Spec
	ledger Ledger
}

func (s *suite) try(t *testing.T) *trial {
	t.Helper()
	b, spec := s.fresh(t)
	spec.Owner, spec.RunID = "owner-"+rand.Text(), "run-"+rand.Text()
	tr := &trial{T: t, suite: s, Backend: b, spec: spec}
	t.Cleanup(tr.nothingLeft)
	return tr
}

// nothingLeft looks at the machine, not at what the backend says.
func (t *trial) nothingLeft() {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if refs, err := t.List(ctx, t.spec.Owner); err != nil || len(refs) != 0 {
		t.Errorf("List at the end: %v, %v", refs, err)
	}
	left := func() []procfs.Process { return procfs.With(map[string]string{"SWEEP_RUN_ID": t.spec.RunID}) }
	if t.remote {
		// One that was just about to start when its pod was ended may be seen later.
		polltest.Until(t.T, "the processes of the pod end", func() bool { return len(left()) == 0 })
		return
	}
	for _, p := range left() {
		t.Errorf("left running: %+v", p)
	}
}

func (t *trial) start() backends.Deployment {
	t.Helper()
	d, err := t.Launch(t.Context(), t.spec, &t.ledger)
	if err != nil {
		t.Fatalf("Launch: %v", err)
	}
	t.Cleanup(func() { t.end(d) })
	return d
}

func (t *trial) end(d backends.Deployment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func (t *trial) host(d backends.Deployment) host.Host { return d.Host(t.spec.Roles[0].Name, 0) }

// answers asks the server for anything, through the host's own dialer.
func answers(t *testing.T, h host.Host) bool {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return true
}

func (t *trial) ready(d backends.Deployment) {
	t.Helper()
	polltest.Until(t.T, "the server answers", func() bool { return answers(t.T, t.host(d)) })
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func (s *suite) launch(tt *testing.T) {
	t := s.try(tt)
	t.ledger.OnIntent = func() {
		if p := procfs.With(map[string]string{"SWEEP_RUN_ID": t.spec.RunID}); len(p) != 0 {
			t.Errorf("started before the intent was on the ledger: %v", p)
		}
	}
	ctx, cancel := context.WithCancel(tt.Context())
	d, err := t.Launch(ctx, t.spec, &t.ledger)
	cancel() // the context bounds the launch, not the life
	if err != nil {
		t.Fatalf("Launch: %v", err)
	}
	t.Cleanup(func() { t.end(d) })
	ref := t.created()
	if ref.Kind == "" || ref.Kind != t.ledger.Transitions()[0].Kind || ref.Pod != t.spec.Pod || ref.RunID != t.spec.RunID || ref.ID == "" {
		t.Errorf("the ledger has the ref %+v", ref)
	}
	t.ready(d)
	if closed(d.Done()) || d.Err() != nil {
		t.Errorf("Done of a living server: %v", d.Err())
	}
	h := t.host(d)
	if p := h.Path(); p != host.Direct && p != host.Tunnel && p != host.Proxy {
		t.Errorf("Path is %q", p)
	}
	if out, err := h.Exec(t.Context(), "echo", "here"); errors.Is(err, host.ErrNotSupported) != (s.nothing || s.remote) || err == nil && string(out) != "here\n" {
		t.Errorf("Exec: %q, %v", out, err)
	}
	t.logs(d)
	t.listed(ref)
	t.access(ref, h)
	mustPanic(t.T, func() { d.Host("no such role", 0) })
	mustPanic(t.T, func() { d.Host(t.spec.Roles[0].Name, 1000) })
	t.stops(d)
}

// created holds the transitions of a launch against the order of a pod's life and
// returns the ref of the last.
func (t *trial) created() backends.Ref {
	t.Helper()
	states := t.ledger.States()
	if t.nothing {
		states = slices.Insert(states, 1, backends.Sent) // there was nothing to send
	}
	if !slices.Equal(states, []backends.State{backends.Intended, backends.Sent, backends.Created}) {
		t.Fatalf("the ledger has %v", states)
	}
	last := t.ledger.Transitions()[len(t.ledger.Transitions())-1]
	if last.Ref == nil {
		t.Fatal("created, but as what?")
	}
	return *last.Ref
}

// logs reads the server's log, which has a line by the time that it answers.
// logs reads what the server has said. It may come here a moment after the
// server's first answer.
func (t *trial) logs(d backends.Deployment) {
	t.Helper()
	polltest.Until(t.T, "the log says something", func() bool {
		r, err := t.host(d).Logs(t.Context())
		if t.nothing && errors.Is(err, host.ErrNotSupported) {
			return true
		}
		if err != nil {
			t.Fatalf("Logs: %v", err)
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("Logs: %q, %v", text, err)
		}
		return len(text) > 0
	})
}

func (t *trial) listed(ref backends.Ref) {
	t.Helper()
	refs, err := t.List(t.Context(), t.spec.Owner)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	found := slices.ContainsFunc(refs, func(r backends.Listed) bool {
		return r.ID == ref.ID && r.Kind == ref.Kind && r.Pod == ref.Pod && r.RunID == ref.RunID
	})
	if found == t.nothing {
		t.Errorf("List: %v, looking for %v", refs, ref)
	}
	if refs, err := t.List(t.Context(), "nobody-"+rand.Text()); err != nil || len(refs) != 0 {
		t.Errorf("List of another owner: %v, %v", refs, err)
	}
}

// access holds what a backend says of a pod's address and key, by its ref alone,
// against what its deployment uses.
func (t *trial) access(ref backends.Ref, h host.Host) {
	t.Helper()
	from, ok := t.Backend.(backends.Accessor)
	if !ok {
		return
	}
	all, err := from.Access(t.Context(), ref)
	if errors.Is(err, host.ErrNotSupported) {
		return
	}
	if err != nil || len(all) != 1 {
		t.Fatalf("Access: %+v, %v", all, err)
	}
	a, role := all[0], t.spec.Roles[0]
	if a.Role != role.Name || a.Replica != 0 || !a.Entry || a.Engine != t.spec.Engine || a.Model != t.spec.Model {
		t.Errorf("Access of %s, replica 0, of %s with %s: %+v", role.Name, t.spec.Engine, t.spec.Model, a.Listener)
	}
	if a.Path != h.Path() || a.Path != host.Tunnel && a.URL != h.URL() || a.Network == "" || (a.Path == host.Tunnel) != (a.Tunnel != nil) {
		t.Errorf("Access says %s, %s (%q, %q), the deployment %s, %s", a.Path, a.URL, a.Network, a.Tunnel, h.Path(), h.URL())
	}
	for field, known := range map[string]bool{
		backends.AccessURL: a.URL != "", backends.AccessMetrics: len(a.Metrics) > 0, backends.AccessKey: !a.Key.IsZero(),
	} {
		if known != (a.Why[field] == "") {
			t.Errorf("Access: %s is known: %t, and its reason is %q", field, known, a.Why[field])
		}
	}
	if (role.KeyEnv != "" && t.remote) != !a.Key.IsZero() {
		t.Errorf("Access has a key: %t; the variable for it is %q", !a.Key.IsZero(), role.KeyEnv)
	}
	gone := ref
	gone.ID, gone.Name = "nothing", ""
	if all, err := from.Access(t.Context(), gone); err == nil {
		t.Errorf("Access of nothing: %+v", all)
	}
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

func (s *suite) ledgerFails(tt *testing.T) {
	broken := errors.New("the disk is full")
	t := s.try(tt)
	t.ledger.Fail = FailAt(backends.Intended, broken)
	if _, err := t.Launch(t.Context(), t.spec, &t.ledger); !errors.Is(err, broken) {
		t.Errorf("Launch without an intent: %v", err)
	}
	if states := t.ledger.States(); !slices.Equal(states, []backends.State{backends.Intended}) {
		t.Errorf("the ledger has %v", states)
	}

	t = s.try(tt)
	t.ledger.Fail = FailAt(backends.Created, broken)
	if _, err := t.Launch(t.Context(), t.spec, &t.ledger); !errors.Is(err, broken) {
		t.Errorf("Launch without a record: %v", err)
	}
	if states := t.ledger.States(); states[len(states)-1] != backends.Gone || !slices.Contains(states, backends.Created) {
		t.Errorf("the ledger has %v", states)
	}
}

func (s *suite) cancelled(tt *testing.T) {
	enough := errors.New("enough")
	t := s.try(tt)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if d, err := t.Launch(ctx, t.spec, &t.ledger); err == nil {
		t.end(d)
		t.Error("Launch of a cancelled context: no error")
	}

	t = s.try(tt)
	ctx, cancel = context.WithCancelCause(t.Context())
	t.ledger.OnIntent = func() { cancel(enough) }
	d, err := t.Launch(ctx, t.spec, &t.ledger)
	switch {
	case err == nil && s.nothing: // there was nothing left to do
		t.end(d)
	case err == nil:
		t.end(d)
		t.Error("Launch that was cancelled at its intent: no error")
	case !errors.Is(err, enough):
		t.Errorf("Launch that was cancelled at its intent: %v does not say why", err)
	}
}

// stops stops a server that answers, from several sides at once and again.
func (t *trial) stops(d backends.Deployment) {
	t.Helper()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			t.end(d)
			if !t.nothing {
				t.nothingLeft()
			}
		})
	}
	all.Wait()
	t.end(d)
	if closed(d.Done()) || d.Err() != nil {
		t.Errorf("a server that was stopped ended by itself: %v", d.Err())
	}
	if answers(t.T, t.host(d)) != t.nothing {
		t.Errorf("a server that was stopped answers: %v", !t.nothing)
	}
	if !t.nothing {
		t.logs(d)
	}
}

func (s *suite) two(tt *testing.T) {
	t := s.try(tt)
	other := s.try(tt)
	other.Backend = t.Backend
	other.spec.Owner, other.spec.RunID, other.spec.Pod = t.spec.Owner, t.spec.RunID, t.spec.Pod+"-other"
	a, b := t.start(), other.start()
	t.ready(a)
	other.ready(b)
	if !s.nothing && t.host(a).URL() == other.host(b).URL() {
		t.Errorf("both have %s", t.host(a).URL())
	}
	t.end(a)
	if !answers(t.T, other.host(b)) || closed(b.Done()) {
		t.Error("the end of one ended the other")
	}
	other.terminated(b)
}

// terminated ends a server that answers by its ref alone, and again.
func (t *trial) terminated(d backends.Deployment) {
	t.Helper()
	ref := t.created()
	another, _ := t.fresh(t.T) // as the next run of sweep has it
	for range 2 {              // the second time it names nothing any more
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := another.Terminate(ctx, ref); err != nil {
			t.Errorf("Terminate: %v", err)
		}
		cancel()
		if !t.nothing {
			t.nothingLeft()
		}
	}
	if t.nothing {
		t.ready(d)
		return
	}
	polltest.Until(t.T, "Done after Terminate", func() bool { return closed(d.Done()) })
	t.end(d)
}

func (s *suite) spoiled(tt *testing.T) {
	t := s.try(tt)
	s.spoil(&t.spec)
	d, err := t.Launch(t.Context(), t.spec, &t.ledger)
	if err == nil {
		t.end(d)
		t.Fatal("Launch: no error")
	}
	if !errors.Is(err, backends.ErrSpec) {
		t.Errorf("Launch: %v is not ErrSpec", err)
	}
	if states := t.ledger.States(); len(states) != 0 && states[len(states)-1] != backends.Gone {
		t.Errorf("the ledger still owes it: %v", states)
	}
}

func (s *suite) crashes(tt *testing.T) {
	t := s.try(tt)
	extra := t.gets()
	d := t.start()
	t.ready(d)
	extra(d)
	s.crash(t.T, d)
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("the end of the server went unnoticed")
	}
	var exit *backends.Exit
	if err := d.Err(); !errors.As(err, &exit) || exit.Role != t.spec.Roles[0].Name {
		t.Errorf("Err: %v", err)
	}
	t.logs(d)
	t.end(d)
	t.end(d)
	if h, ok := t.host(d).(host.Processor); ok && len(h.PIDs()) != 0 {
		t.Errorf("PIDs of a server that is gone: %v", h.PIDs())
	}
	t.logs(d)
}

func kill(t *testing.T, d backends.Deployment) {
	t.Helper()
	h, ok := d.Host("server", 0).(host.Processor)
	if !ok || len(h.PIDs()) == 0 {
		t.Fatal("no process to kill: use CrashWith")
	}
	if err := syscall.Kill(h.PIDs()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func noCommand(s *backends.Spec) {
	s.Roles = slices.Clone(s.Roles)
	s.Roles[0].Argv = func(backends.Address) ([]string, error) { return []string{"/no/such/server"}, nil }
}

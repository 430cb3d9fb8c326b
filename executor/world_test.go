package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// A world is everything that runs need, and what they leave.
type world struct {
	t          testing.TB
	dir        string
	plan       *plan.Plan
	backend    *fakeBackend
	collectors []observe.Named
	on         func(event.Event) // called with each event
	fault      string            // of the run directory, see package effect
	id         string            // of the run; "" is testRun

	mu     sync.Mutex
	events []event.Event
}

func newWorld(t testing.TB, s func(n int, spec backends.Spec) script, lines ...string) *world {
	t.Helper()
	return &world{
		t: t, dir: filepath.Join(t.TempDir(), "run"), plan: plantest.Parse(t, lines...),
		backend: &fakeBackend{script: s},
	}
}

const (
	testRun   = "run-1"
	testOwner = "me@here"
)

// open creates the run directory, or opens the one that is there.
func (w *world) open() (*rundir.Dir, *rundir.State) {
	w.t.Helper()
	fx, err := effect.New(w.fault)
	if err != nil {
		w.t.Fatal(err)
	}
	if d, st, err := rundir.Open(fx, w.dir); err == nil {
		return d, st
	}
	d, err := rundir.Create(fx, w.dir, rundir.Manifest{RunID: cmp.Or(w.id, testRun), Owner: testOwner, Plan: w.plan.Name}, []byte("x"), []byte("{}"))
	if err != nil {
		w.t.Fatal(err)
	}
	st, err := rundir.Read(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return d, st
}

// run runs the plan, or goes on with it, and checks what it left.
func (w *world) run(ctx context.Context, change ...func(*Config)) (Report, error) {
	w.t.Helper()
	d, st := w.open()
	c := Config{
		Plan: w.plan, Dir: d, State: st, Path: w.dir, Backend: w.backend, Collectors: w.collectors,
		ClientHost: "here", Servers: serving.Options{Sweep: "/bin/sweep"}, Teardown: w.t.Context(),
		Events: func(e event.Event) {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
			if w.on != nil {
				w.on(e)
			}
		},
	}
	for _, f := range change {
		f(&c)
	}
	rep, err := Run(ctx, c)
	if err := d.Close(); err != nil {
		w.t.Error(err)
	}
	if err := rundirtest.Check(w.dir); err != nil {
		w.t.Errorf("the run directory: %v", err)
	}
	return rep, err
}

// must is run where nothing may go wrong.
func (w *world) must(change ...func(*Config)) Report {
	w.t.Helper()
	rep, err := w.run(w.t.Context(), change...)
	if err != nil || rep.Left.Cleanup != nil || rep.Interrupted != nil || rep.Missing != 0 {
		w.t.Fatalf("run: %+v, %v", rep, err)
	}
	return rep
}

// seen lists the events of one type.
func (w *world) seen(typ event.Type) (list []event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Type == typ {
			list = append(list, e)
		}
	}
	return list
}

// committed returns the journal's commit lines, in order.
func (w *world) committed() (list []rundir.Commit) {
	w.t.Helper()
	for _, e := range w.state().Events {
		if e.Type == string(event.TrialCommitted) {
			var c rundir.Commit
			if err := json.Unmarshal(e.Data, &c); err != nil {
				w.t.Fatal(err)
			}
			list = append(list, c)
		}
	}
	return list
}

func (w *world) state() *rundir.State {
	w.t.Helper()
	st, err := rundir.Read(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// outcomes reads what was committed, in the journal's order.
func (w *world) outcomes() (list []*result.Outcome) {
	w.t.Helper()
	for _, c := range w.committed() {
		o, err := rundir.Outcome(w.dir, c)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, o)
	}
	return list
}

// summary returns each outcome as status/class/attempt, in the journal's order.
func (w *world) summary() string {
	w.t.Helper()
	var parts []string
	for _, o := range w.outcomes() {
		s, _ := o.Row["status"].(string)
		if class, ok := o.Row["error_class"].(string); ok {
			s += "/" + class
		}
		parts = append(parts, fmt.Sprintf("%s/%d", s, o.Attempt))
		for _, f := range o.Invalid {
			w.t.Logf("invalid: %s", f.Text)
		}
	}
	return strings.Join(parts, " ")
}

// prompts returns what all servers were asked, by launch.
func (w *world) prompts() (list []asked) {
	for _, s := range w.backend.list() {
		list = append(list, s.prompts()...)
	}
	return list
}

// want fails unless got is want.
func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

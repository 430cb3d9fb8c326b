package serving

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/rundir"
)

func TestCleanup_lastInFirstOut(t *testing.T) {
	var c cleanup
	var order []string
	push := func(name string, err error) func(context.Context) error {
		return c.push(func(context.Context) error { order = append(order, name); return err })
	}
	errB := errors.New("b failed")
	push("a", nil)
	early := push("b", errB)
	push("c", errors.New("c failed"))
	if err := early(t.Context()); !errors.Is(err, errB) {
		t.Errorf("early: %v", err)
	}
	err := c.run(t.Context())
	if got := strings.Join(order, ""); got != "bca" {
		t.Errorf("order %q", got)
	}
	// An early failure was reported early.
	if err == nil || err.Error() != "c failed" {
		t.Errorf("run: %v", err)
	}
	if err := c.run(t.Context()); err != nil || len(order) != 3 {
		t.Errorf("a second run: %v, %v", err, order)
	}
}

// A panic of what is undone does not skip what stands below it, and is told as what was not
// undone.
func TestCleanup_panic(t *testing.T) {
	var c cleanup
	undone := 0
	c.push(func(context.Context) error { undone++; return nil })
	early := c.push(func(context.Context) error { panic("early") })
	c.push(func(context.Context) error { panic("late") })
	for i, run := range []func(context.Context) error{early, c.run} {
		what := []string{"early", "late"}[i]
		if p, ok := errors.AsType[*Panic](run(t.Context())); !ok || p.Value != what {
			t.Errorf("%s: %v, want the panic", what, p)
		}
	}
	want(t, "undone", undone, 1)
}

// stuck has pods that never go.
type stuck struct{ backends.Backend }

func (stuck) List(context.Context, string) ([]backends.Listed, error) { return nil, nil }

func (stuck) Terminate(ctx context.Context, _ backends.Ref) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// written is a directory whose ledger forgets.
type written struct{ noDir }

func (written) Ledger() backends.Ledger { return written{} }

func (written) Record(context.Context, backends.Transition) error { return nil }

// A pod of an earlier run that does not go holds up a run for a bounded time, and is owed.
func TestReclaim_stuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owed := rundir.Owed{Pod: "d1-l01", Kind: "fake", State: backends.Created, Ref: &backends.Ref{Kind: "fake", ID: "7"}}
		m := New(Config{
			Plan: plantest.Parse(t, `timeouts: {stop: 30s}`), State: &rundir.State{Owed: []rundir.Owed{owed}}, Backend: stuck{},
			Dir: written{}, Run: quiet{}, Teardown: t.Context(),
		})
		begun := time.Now()
		err := m.Reclaim(t.Context())
		want(t, "time", time.Since(begun), 10*time.Minute+35*time.Second)
		if err == nil || !strings.Contains(err.Error(), "not seen to be gone within 10m35s") || len(m.Left().Owed) != 1 {
			t.Errorf("%v, owed %v", err, m.Left().Owed)
		}
	})
}

// A stop that hangs ends when timeouts.stop and a little are over.
func TestStop_hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Plan: plantest.Parse(t, `timeouts: {stop: 30s}`), State: &rundir.State{}, Dir: noDir{}, Run: quiet{}, Teardown: t.Context()})
		d := m.Servers(plan.Deployment{}, nil, "", nil)
		d.up = &Server{release: d.releaser(d.undo.push(func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }))}
		begun := time.Now()
		d.release()
		want(t, "time", time.Since(begun), 35*time.Second)
		want(t, "given up", d.GivenUp(), true)
		if err := m.Left().Cleanup; err == nil || !strings.Contains(err.Error(), "timeouts.stop") {
			t.Errorf("clean-up: %v", err)
		}
		if err := d.undo.run(t.Context()); err != nil {
			t.Errorf("undone twice: %v", err)
		}
	})
}

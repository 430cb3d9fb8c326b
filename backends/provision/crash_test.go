package provision_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

// A cloud is what several processes see of one provider.
type cloud struct {
	mu     sync.Mutex
	units  map[string]provision.Instance // by name
	groups map[string]bool
	ended  map[string]bool // ids that are not to show up any more
	calls  []string

	// hit is called before and after each call, with its name; nil does nothing.
	hit func(call, phase string) error
	// late is how long a unit takes to be seen.
	late time.Duration
	// answer is what a create answers beside what it makes; nil is nothing.
	answer func(unit string) error
}

func newCloud() *cloud {
	return &cloud{units: map[string]provision.Instance{}, groups: map[string]bool{}, ended: map[string]bool{}}
}

// do makes one call: what it does happens between before and after.
func (c *cloud) do(call string, f func()) error {
	c.mu.Lock()
	c.calls = append(c.calls, call)
	hit := c.hit
	c.mu.Unlock()
	if hit != nil {
		if err := hit(call, "before"); err != nil {
			return err
		}
	}
	c.mu.Lock()
	f()
	c.mu.Unlock()
	if hit != nil {
		return hit(call, "after")
	}
	return nil
}

func (c *cloud) left() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for name := range c.units {
			if !yield(name) {
				return
			}
		}
		for name := range c.groups {
			if !yield("group " + name) {
				return
			}
		}
	})
}

// provider is one process's view of the cloud.
type provider struct {
	*cloud
	dead <-chan struct{} // closed when the process has ended; nil is never
}

func (p provider) Allocate(_ context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	a := provision.Allocation{Units: provision.PerReplica(spec, pod)}
	for _, u := range a.Units {
		at := &u.Replicas[0].Place
		at.Bind, at.Host, at.Port = "0.0.0.0", u.Name, 8000
	}
	return a, nil
}

func (p provider) Create(_ context.Context, u *provision.Unit) (provision.Instance, error) {
	i := provision.Instance{ID: "id-" + u.Name, Unit: u.Name, Marks: u.Marks, Running: true, Status: "running", USDPerHour: 1}
	err := p.do("create", func() {
		if p.late == 0 {
			p.units[u.Name] = i
			return
		}
		time.AfterFunc(p.late, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.ended[i.ID] {
				p.units[u.Name] = i
			}
		})
	})
	if err == nil && p.answer != nil {
		err = p.answer(u.Name)
	}
	if err != nil {
		return provision.Instance{}, err
	}
	return i, nil
}

func (p provider) Find(_ context.Context, pod string) ([]provision.Instance, error) {
	var found []provision.Instance
	err := p.do("find", func() {
		for name, i := range p.units {
			if pod == "" || name == pod || strings.HasPrefix(name, pod+".") {
				found = append(found, i)
			}
		}
	})
	return found, err
}

func (p provider) Delete(ctx context.Context, i provision.Instance, _ time.Duration, ended func(context.Context)) error {
	return p.do("delete", func() {
		p.ended[i.ID] = true
		maps.DeleteFunc(p.units, func(_ string, other provision.Instance) bool { return other.ID == i.ID })
	})
}

func (p provider) Group(_ context.Context, pod string, _ []*provision.Unit) error {
	return p.do("group", func() { p.groups[pod] = true })
}

func (p provider) Ungroup(_ context.Context, pod string) error {
	var busy error
	err := p.do("ungroup", func() {
		for name := range p.units {
			if strings.HasPrefix(name, pod) {
				busy = fmt.Errorf("%s still has %s", pod, name)
				return
			}
		}
		delete(p.groups, pod)
	})
	return errors.Join(err, busy)
}

func (p provider) Attach(_ context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	return remote{p.dead}, p.do("attach", func() {})
}

type remote struct{ dead <-chan struct{} }

func (remote) Host(int) host.Host { return nil }
func (remote) Close()             {}
func (r remote) Follow(ctx context.Context, _ int, _ int64, _ io.Writer) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.dead:
		return errors.New("the process has ended")
	}
}

func layer(t *testing.T, c *cloud) *provision.Layer {
	t.Helper()
	return process(t, c, nil)
}

// process returns the layer in a process that ends when dead is closed.
func process(t *testing.T, c *cloud, dead <-chan struct{}) *provision.Layer {
	t.Helper()
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	return provision.New(provision.Settings{
		Kind: "cloud", Effects: fx, Late: 30 * time.Second, Settle: 10 * time.Second,
		At: func() map[string]string { return map[string]string{"region": "here"} },
	}, provider{c, dead})
}

func command(name string) func(backends.Address) ([]string, error) {
	return func(backends.Address) ([]string, error) { return []string{name}, nil }
}

func twoRoles() backends.Spec {
	return backends.Spec{
		Owner: "owner", RunID: "run1", Pod: "d1-l01", Digest: "digest", Expires: time.Now().Add(time.Hour), Entry: "frontend",
		Roles: []backends.Role{{Name: "worker", Replicas: 2, Argv: command("worker")}, {Name: "frontend", Replicas: 2, Argv: command("frontend")}},
	}
}

// crashes is a process that ends as by kill -9 at one moment: in the n-th call of
// a kind to the provider or of the ledger, before or after what it does.
type crashes struct {
	call, phase string
	n           int
	mu          sync.Mutex
}

// at ends the goroutine, which stands for the process, at its moment. Nothing
// after it runs: a launch releases nothing by defer.
func (k *crashes) at(call, phase string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if call == k.call && phase == k.phase {
		if k.n--; k.n == 0 {
			runtime.Goexit()
		}
	}
	return nil
}

// TestCrash: wherever in a launch the process ends, what the ledger has is enough
// for another one to end everything, what comes late too.
func TestCrash(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Second} {
		for _, call := range []string{"intent", "create_sent", "created", "group", "create", "attach"} {
			for _, phase := range []string{"before", "after"} {
				for n := 1; n <= 4; n++ {
					k := &crashes{call: call, phase: phase, n: n}
					synctest.Test(t, func(t *testing.T) { crash(t, k, late) })
				}
			}
		}
	}
}

func crash(t *testing.T, k *crashes, late time.Duration) {
	what := fmt.Sprintf("%s %s %d, seen after %v", k.phase, k.call, k.n, late)
	c := newCloud()
	c.hit, c.late = k.at, late
	ledger := &backendtest.Ledger{}
	var recorded []backends.Transition // what is on disk
	dead := make(chan struct{})
	done := make(chan backends.Deployment, 1)
	go func() {
		var d backends.Deployment
		defer func() { done <- d }()
		d, _ = process(t, c, dead).Launch(t.Context(), twoRoles(), record(func(a backends.Transition) error {
			_ = k.at(string(a.State), "before")
			recorded = append(recorded, a)
			_ = k.at(string(a.State), "after")
			return ledger.Record(t.Context(), a)
		}))
	}()
	d := <-done
	if d == nil {
		close(dead)
	}
	c.mu.Lock()
	c.hit = nil
	c.mu.Unlock()
	if d != nil {
		if err := d.Stop(t.Context()); err != nil {
			t.Errorf("%s: Stop: %v", what, err)
		}
		time.Sleep(time.Minute)
	} else if ref, owed := owes(recorded); owed {
		if err := layer(t, c).Terminate(t.Context(), ref); err != nil {
			t.Errorf("%s: Terminate: %v", what, err)
		}
		time.Sleep(time.Minute) // for what comes late
	}
	if left := c.left(); len(left) != 0 {
		t.Errorf("%s: left %q, recorded %v", what, left, recorded)
	}
}

type record func(backends.Transition) error

func (r record) Record(_ context.Context, a backends.Transition) error { return r(a) }

// owes returns what a later process reads of a ledger.
func owes(transitions []backends.Transition) (backends.Ref, bool) {
	if len(transitions) == 0 || transitions[len(transitions)-1].State == backends.Gone {
		return backends.Ref{}, false
	}
	for _, a := range slices.Backward(transitions) {
		if a.Ref != nil {
			return *a.Ref, true
		}
	}
	first := transitions[0]
	return backends.Ref{Kind: first.Kind, RunID: "run1", Pod: first.Pod, Name: first.Name, Details: first.At}, true
}

// TestLaunch_fails: whatever call fails, done or not, a launch leaves nothing
// behind, or its ledger still owes it and the name ends it.
func TestLaunch_fails(t *testing.T) {
	broken := errors.New("broken")
	for _, call := range []string{"group", "create", "attach", "delete", "ungroup", "find"} {
		for _, phase := range []string{"before", "after"} {
			for n := 1; n <= 4; n++ {
				for _, unsure := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						c := newCloud()
						var seen atomic.Int64
						c.hit = func(got, at string) error {
							if got != call || at != phase {
								return nil
							}
							if seen.Add(1) != int64(n) {
								return nil
							}
							if phase == "after" && call == "create" || unsure {
								return fmt.Errorf("%w: %w", provision.ErrUnsure, broken)
							}
							return broken
						}
						var ledger backendtest.Ledger
						d, err := layer(t, c).Launch(t.Context(), twoRoles(), &ledger)
						if err == nil {
							err = d.Stop(t.Context())
						}
						states := ledger.States()
						c.mu.Lock()
						c.hit = nil
						c.mu.Unlock()
						gone := states[len(states)-1] == backends.Gone
						if left := c.left(); len(left) != 0 && gone {
							t.Errorf("%s %s %d: left %q, and the ledger says %v", phase, call, n, left, states)
						}
						if ref, owed := owes(ledger.Transitions()); owed {
							if err := layer(t, c).Terminate(t.Context(), ref); err != nil {
								t.Errorf("%s %s %d: Terminate: %v", phase, call, n, err)
							}
						}
						if left := c.left(); len(left) != 0 {
							t.Errorf("%s %s %d: left %q after Terminate; Launch: %v", phase, call, n, left, err)
						}
						if d != nil {
							_ = d.Stop(t.Context())
						}
					})
				}
			}
		}
	}
}

// TestLaunch_roleFails: if a role does not get up, or is not wanted any more, a launch
// makes no later role, leaves nothing behind and says why.
func TestLaunch_roleFails(t *testing.T) {
	enough := errors.New("enough")
	for name, started := range map[string]func(context.Context, context.CancelCauseFunc) error{
		"is not up": func(context.Context, context.CancelCauseFunc) error { return enough },
		"cancelled": func(_ context.Context, cancel context.CancelCauseFunc) error { cancel(enough); return nil },
		"cancelled while it is waited for": func(ctx context.Context, cancel context.CancelCauseFunc) error {
			cancel(enough)
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		for _, role := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/%d", name, role), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCloud()
					spec := twoRoles()
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					spec.Roles[role].Started = func(ctx context.Context, _ host.Host, _ int) error { return started(ctx, cancel) }
					var ledger backendtest.Ledger
					d, err := layer(t, c).Launch(ctx, spec, &ledger)
					if !errors.Is(err, enough) && !(err == nil && role == 1 && name == "cancelled") {
						t.Errorf("Launch: %v", err)
					}
					if d != nil { // all of it was up
						if err := d.Stop(context.WithoutCancel(t.Context())); err != nil {
							t.Error(err)
						}
					} else if states := ledger.States(); states[len(states)-1] != backends.Gone {
						t.Errorf("the ledger still owes it: %v", states)
					}
					made := slices.DeleteFunc(slices.Clone(c.calls), func(call string) bool { return call != "create" })
					if want := 2 * (role + 1); len(made) != want || len(c.left()) != 0 {
						t.Errorf("%d units were made, want %d; left %q", len(made), want, c.left())
					}
				})
			})
		}
	}
}

// TestLaunch_lostAnswer: a unit whose create got no answer is found by its name
// and used; it is never made twice.
func TestLaunch_lostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud()
		c.late = 20 * time.Second
		c.answer = func(string) error { return fmt.Errorf("%w: timeout", provision.ErrUnsure) }
		var ledger backendtest.Ledger
		d, err := layer(t, c).Launch(t.Context(), twoRoles(), &ledger)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(slices.DeleteFunc(slices.Clone(c.calls), func(s string) bool { return s != "create" })); n != 4 {
			t.Errorf("%d creates of four units", n)
		}
		ref := *ledger.Transitions()[len(ledger.Transitions())-1].Ref
		if len(ref.Units) != 4 || ref.Units[ref.Name] != ref.ID {
			t.Errorf("the ledger has %+v", ref)
		}
		if usd := d.(backends.Rental).Terms().USDPerHour; usd != 4 {
			t.Errorf("four units of $1/h cost $%v/h", usd)
		}
		if err := d.Stop(t.Context()); err != nil || len(c.left()) != 0 {
			t.Errorf("Stop: %v, left %q", err, c.left())
		}
	})
}

// TestLaunch_taken: what is somebody else's by now is chosen again, a bounded
// number of times, each under a name of its own.
func TestLaunch_taken(t *testing.T) {
	for _, times := range []int{2, 100} {
		synctest.Test(t, func(t *testing.T) {
			c := newCloud()
			tries := 0
			c.hit = func(call, phase string) error {
				if call == "create" && phase == "before" {
					if tries++; tries <= times {
						return fmt.Errorf("port 1: %w", provision.ErrTaken)
					}
				}
				return nil
			}
			var ledger backendtest.Ledger
			d, err := layer(t, c).Launch(t.Context(), twoRoles(), &ledger)
			names := map[string]bool{}
			for _, a := range ledger.Transitions() {
				if a.State == backends.Intended {
					names[a.Name] = true
				}
			}
			if times == 2 {
				if err != nil || len(names) != 3 {
					t.Fatalf("Launch: %v, names %v", err, names)
				}
				if err := d.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, provision.ErrTaken) || len(names) != 4 {
				t.Errorf("Launch: %v, names %v", err, names)
			}
			if left := c.left(); len(left) != 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// TestList: a deployment is listed once, by its first unit, whatever the order in
// which a provider lists units.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud()
		l := layer(t, c)
		want := map[string]bool{}
		for range 3 {
			var ledger backendtest.Ledger
			d, err := l.Launch(t.Context(), twoRoles(), &ledger)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Stop(context.WithoutCancel(t.Context())) })
			want[ledger.Transitions()[0].Name] = true
		}
		all, err := l.List(t.Context(), "owner")
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range all {
			if !want[pod.Name] || pod.ID != "id-"+pod.Name {
				t.Errorf("listed: %+v", pod)
			}
			delete(want, pod.Name)
		}
		if len(want) != 0 {
			t.Errorf("not listed: %v", want)
		}
		if all, err := l.List(t.Context(), "somebody"); err != nil || len(all) != 0 {
			t.Errorf("somebody's: %v, %v", all, err)
		}
	})
}

// TestCheck_elsewhere: files of another role are refused if there is no disk
// that both see.
func TestCheck_elsewhere(t *testing.T) {
	spec := twoRoles()
	spec.Roles[1].Extra = func(a backends.Address) (backends.Extra, error) {
		return backends.Extra{Env: map[string]string{"FOUND": a.Peers["worker"][0].Dir + "/discovery"}}, nil
	}
	err := layer(t, newCloud()).Check(spec)
	if !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "share no disk") {
		t.Errorf("got %v", err)
	}
}

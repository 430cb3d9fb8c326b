package bootstrap

import (
	"context"
	"testing"
	"time"
)

// beats keeps a pod alive until the returned function is called.
func beats(p *pod) (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Keepalive(ctx, time.Second, p.agent.Beat, func(err error) { p.t.Logf("a beat: %v", err) })
	}()
	return func() { cancel(); <-done }
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := provider(t, ok)
			const grace = 10 * time.Second
			p := rent(t, rental{shell: shell, Options: withAgent(t, Options{
				Argv: sh("exec sleep 1000"), Heartbeat: grace, GiveBack: giveBack(a.URL),
			})})
			p.up()
			stop := beats(p)
			select {
			case <-p.ended:
				t.Fatal("it ended between beats")
			case <-time.After(grace + 5*time.Second):
			}
			if s := p.up(); s.Beats < 3 || s.Engine == 0 || s.Exit != nil || s.Over != "" || s.Left <= 0 {
				t.Errorf("status is %+v", s)
			}
			stop()
			p.ends(124)
			p.says("sweep-bootstrap: no heartbeat for too long: the pod ends")
			if got := a.got(); len(got) != 1 {
				t.Errorf("the provider got %+v", got)
			}
		})
	}
}

// Who dies before the first beat has left a pod behind as well.
func TestHeartbeat_neverBegan(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: 3 * time.Second})})
	p.ends(124)
	p.says("no heartbeat for too long")
}

func TestKeep(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: 8 * time.Second})})
	p.up()
	if err := p.agent.Keep(t.Context(), time.Now().Add(16*time.Second)); err != nil {
		t.Fatal(err)
	}
	if s := p.up(); s.Kept <= 0 || s.Kept > 16*time.Second {
		t.Errorf("status is %+v", s)
	}
	select {
	case <-p.ended:
		t.Fatal("it ended before its time")
	case <-time.After(12 * time.Second):
	}
	p.ends(124)
	p.says("no heartbeat for too long")
}

// Without a heartbeat too a kept pod ends when it was said to, unless the
// promise is taken back; and no promise goes beyond the lifetime.
func TestKeep_withoutHeartbeat(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Lifetime: 5 * time.Minute})})
	p.up()
	if err := p.agent.Keep(t.Context(), time.Now().Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s := p.up(); s.Kept > s.Left+time.Second || s.Kept < 3*time.Minute {
		t.Errorf("status is %+v", s)
	}
	if err := p.agent.Keep(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if s := p.up(); s.Kept != 0 {
		t.Errorf("status is %+v", s)
	}
	if err := p.agent.Keep(t.Context(), time.Now().Add(3*time.Second)); err != nil {
		t.Fatal(err)
	}
	p.ends(124)
}

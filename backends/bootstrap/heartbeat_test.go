package bootstrap

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// beats keeps a pod alive until the returned function is called, which returns the longest
// time without a beat.
func beats(p *pod) (stop func() (gap time.Duration)) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	var gap time.Duration
	go func() {
		defer close(done)
		last := time.Now()
		Keepalive(ctx, time.Second, func(ctx context.Context) error {
			err := p.agent.Beat(ctx)
			if err == nil {
				gap, last = max(gap, time.Since(last)), time.Now()
			}
			return err
		}, func(err error) { p.t.Logf("a beat: %v", err) })
		gap = max(gap, time.Since(last))
	}()
	return func() time.Duration { cancel(); <-done; return gap }
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A busy machine has longer gaps between beats, and gets a longer heartbeat.
			for heartbeat := 5 * time.Second; !livesByBeats(t, shell, heartbeat); heartbeat *= 3 {
				if heartbeat > polltest.Patience/2 {
					t.Fatal("it ended between beats")
				}
			}
		})
	}
}

// livesByBeats holds that a pod lives while it gets beats, and ends without them. It is false
// if the pod ended and a beat was late.
func livesByBeats(t *testing.T, shell []string, heartbeat time.Duration) bool {
	t.Helper()
	a := provider(t, ok)
	p := rent(t, rental{shell: shell, Options: withAgent(t, Options{
		Argv: sh("exec sleep 1000"), Heartbeat: heartbeat, GiveBack: giveBack(a.URL),
	})})
	stop := beats(p)
	select {
	case <-p.ended:
		if gap := stop(); gap < heartbeat-2*time.Second {
			t.Fatalf("it ended between beats, of which the latest came %v after the one before", gap)
		}
		return false
	case <-time.After(heartbeat + 3*time.Second):
	}
	s := p.up()
	if s.Beats < 3 || s.Engine == 0 || s.Exit != nil || s.Over != "" || s.Left <= 0 {
		t.Errorf("status is %+v", s)
	}
	stop()
	p.ends(124)
	p.says("sweep-bootstrap: no heartbeat for too long: the pod ends")
	if got := a.got(); len(got) != 1 {
		t.Errorf("the provider got %+v", got)
	}
	return true
}

// Who dies before the first beat has left a pod behind as well.
func TestHeartbeat_neverBegan(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: 3 * time.Second})})
	p.ends(124)
	p.says("no heartbeat for too long")
}

// A beat and a promise of before the machine was booted are times of another clock.
func TestHeartbeat_otherBoot(t *testing.T) {
	t.Parallel()
	o := withAgent(t, Options{Name: "booted-beat", Argv: sh("exec sleep 1000"), Heartbeat: 3 * time.Second})
	disk := t.TempDir()
	state := filepath.Join(disk, ".sweep-"+o.Name)
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"life": "11111111-1111-1111-1111-111111111111 1 999999999 600\n",
		"beat": "           999999000\n",
		"keep": "           999999000\n",
	} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := rent(t, rental{disk: disk, Options: o})
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

package source

import (
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

// The pause of a slot depends on its own answers alone.
func TestClosed_pausesAfterFailures(t *testing.T) {
	const ms = time.Millisecond
	failed := func(after time.Duration) *result.Request {
		return &result.Request{Status: result.Failed, ErrorClass: result.ErrOverload, RetryAfter: after}
	}
	cfg := base()
	cfg.Concurrency, cfg.Requests = 2, 100
	s := must(t, cfg)
	s.Next(0, nil)
	s.Next(1, nil)
	for i, c := range []struct {
		prev *result.Request
		want time.Duration
	}{
		{failed(0), 10 * ms},
		{failed(0), 20 * ms},
		{failed(0), 40 * ms},
		{failed(0), 80 * ms},
		{failed(0), 160 * ms},
		{failed(0), 320 * ms},
		{failed(0), 640 * ms},
		{failed(0), time.Second},
		{failed(0), time.Second},
		{&result.Request{Status: result.Completed}, 0},
		{failed(0), 10 * ms},
		{failed(3 * time.Second), 3 * time.Second},
		{failed(time.Hour), 30 * time.Second},
		{failed(5 * ms), 80 * ms},
		{&result.Request{Status: result.Cancelled, Planned: true}, 0},
		{failed(0), 10 * ms},
	} {
		j, ok := s.Next(0, c.prev)
		if !ok || j.At != c.want || j.Paused != c.want {
			t.Errorf("failure %d: at %v, paused %v, want %v (%v)", i, j.At, j.Paused, c.want, ok)
		}
	}
	// Another slot knows nothing of it.
	if j, _ := s.Next(1, &result.Request{Status: result.Completed}); j.At != 0 {
		t.Errorf("slot 1 waits %v", j.At)
	}
}

// Think time is no pause, and runs beside it.
func TestClosed_pauseBesideThinkTime(t *testing.T) {
	cfg := base()
	cfg.Concurrency, cfg.Requests, cfg.ThinkTime = 1, 100, 15*time.Millisecond
	s := must(t, cfg)
	s.Next(0, nil)
	for _, paused := range []time.Duration{0, 5 * time.Millisecond, 25 * time.Millisecond} {
		j, _ := s.Next(0, &result.Request{Status: result.Failed})
		if j.Paused != paused || j.At != cfg.ThinkTime+paused {
			t.Errorf("at %v, paused %v, want %v", j.At, j.Paused, paused)
		}
	}
}

// A pause that is longer than what is left of the load ends the slot.
func TestClosed_pauseEndsWithTheLoad(t *testing.T) {
	cfg := base()
	cfg.Concurrency, cfg.Requests, cfg.Duration = 1, 0, 10*time.Second
	s := must(t, cfg)
	s.Next(0, nil)
	if _, ok := s.Next(0, &result.Request{Status: result.Failed, RetryAfter: 20 * time.Second, End: time.Second}); ok {
		t.Error("a request was planned for after the end of the load")
	}
}

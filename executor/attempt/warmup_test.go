package attempt

import (
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// Workers begin over a request and its pause, and those of conversations over a whole one, as
// far as half of the load is as long.
func TestBegin(t *testing.T) {
	warmup := []result.Request{
		{Phase: result.Warmup, Status: result.Completed, Sent: 0, LastToken: 2 * time.Second},
		{Phase: result.Plateau, Status: result.Completed, Sent: 0, LastToken: 9 * time.Second},
	}
	six := &plan.Conversation{Turns: 6}
	for _, c := range []struct {
		name  string
		load  plan.Load
		turns float64
		want  time.Duration
	}{
		{"single requests", plan.Load{Concurrency: 4, Requests: 80, ThinkTime: time.Second}, 1, 3 * time.Second},
		{"conversations", plan.Load{Concurrency: 4, Requests: 80, ThinkTime: time.Second, Conversation: six}, 6, 17 * time.Second},
		{"given ones are shorter", plan.Load{Concurrency: 4, Requests: 80, ThinkTime: time.Second, Conversation: six}, 2.5, 6500 * time.Millisecond},
		{"eight requests of a worker", plan.Load{Concurrency: 4, Requests: 32, ThinkTime: time.Second, Conversation: six}, 6, 11 * time.Second},
		{"less than two requests of a worker", plan.Load{Concurrency: 4, Requests: 6, ThinkTime: time.Second, Conversation: six}, 6, 3 * time.Second},
		{"a short time", plan.Load{Concurrency: 4, Duration: 20 * time.Second, ThinkTime: time.Second, Conversation: six}, 6, 10 * time.Second},
		{"together", plan.Load{Concurrency: 4, Requests: 80, Start: plan.StartTogether, Conversation: six}, 6, 0},
		{"an open loop", plan.Load{RequestRate: 4, Requests: 80}, 1, 2 * time.Second},
	} {
		all := func(yield func(*result.Request) bool) {
			for i := range warmup {
				if !yield(&warmup[i]) {
					return
				}
			}
		}
		if got := Begin(c.load, c.turns, all, 1); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		none := func(func(*result.Request) bool) {}
		if got := Begin(c.load, c.turns, none, 1); got != 0 {
			t.Errorf("%s, without a warm-up: %v", c.name, got)
		}
	}
}

// The first trial spreads its slots over the time it was given; the trials together
// try all of 0.9 to 1.2 of it, and no two the same.
func TestSpacing(t *testing.T) {
	if got := Spacing(time.Second, 1); got != time.Second {
		t.Errorf("the first trial: %v", got)
	}
	var all []time.Duration
	for trial := range 12 {
		all = append(all, Spacing(time.Second, trial+1))
	}
	slices.Sort(all)
	if all[0] < 900*time.Millisecond || all[0] > 925*time.Millisecond || all[11] > 1200*time.Millisecond || all[11] < 1175*time.Millisecond {
		t.Errorf("12 trials: %v", all)
	}
	for i := range all[1:] {
		if gap := all[i+1] - all[i]; gap < 5*time.Millisecond || gap > 50*time.Millisecond {
			t.Errorf("trials are %v apart: %v", gap, all)
		}
	}
}

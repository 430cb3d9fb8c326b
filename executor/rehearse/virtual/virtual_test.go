package virtual

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/core"
)

func engine(t *testing.T, change func(*core.Options)) core.Config {
	t.Helper()
	gpu, _ := catalog.GPUByName("l4")
	model, _ := catalog.ModelByName("Qwen/Qwen2.5-1.5B-Instruct")
	o := core.Options{GPU: gpu, Model: model, MaxModelLen: 4096, MaxSeqs: 64, NoPrefixCaching: true}
	if change != nil {
		change(&o)
	}
	cfg, err := core.Plan(o)
	if err != nil {
		t.Fatal(err)
	}
	return *cfg
}

// rate returns an open loop of so many requests a second.
func rate(perSecond float64, n int) source.Config {
	return source.Config{
		Seed: 1, Cell: "c", Requests: n, MaxTokens: 32, Pace: arrivals.Steady(perSecond, arrivals.Process{Kind: arrivals.Constant}),
		Prompts: source.Prompts{InputTokens: 100, Tokens: &source.Tokens{PerWord: 100}},
	}
}

func sent(t *testing.T, s *Session, c source.Config, most int) []result.Request {
	t.Helper()
	src, err := source.New(c)
	if err != nil {
		t.Fatal(err)
	}
	var all []result.Request
	if err := s.Send(t.Context(), src, most, func(r *result.Request) bool {
		all = append(all, *r)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b result.Request) int { return a.N - b.N })
	return all
}

// A second load begins where the first has ended, on the same server.
func TestSend(t *testing.T) {
	t.Parallel()
	s := New(Server{Engine: engine(t, nil), Ask: Tokens})
	first := sent(t, s, rate(10, 20), 5)
	if len(first) != 5 {
		t.Fatalf("%d requests, want 5 at most", len(first))
	}
	end := s.Now()
	for i, r := range sent(t, s, rate(10, 20), 0) {
		if want := end + time.Duration(i)*100*time.Millisecond; r.Scheduled != want || r.Sent != want {
			t.Errorf("request %d is due at %v, want %v", i, r.Scheduled, want)
		}
		if r.Status != result.Completed || r.CompletionTokens != 32 || len(r.ChunkUS) != 32 || !(r.Sent < r.FirstToken && r.FirstToken < r.End) {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	l := s.Looks()
	if !(l.MeanRunning > 0) || l.TTFT < l.Prefill || l.TTFT != l.Queue+l.Prefill {
		t.Errorf("the engine saw %+v", l)
	}
	// 20 requests of 32 tokens, of which the last few are alone, over the 2 s in which they come.
	if l.MaxRunning < 2 || float64(l.MaxRunning) < l.MeanRunning || l.Started != 20 || l.Steps < 100 {
		t.Errorf("most at once %d of %.1f, %d started in %d steps", l.MaxRunning, l.MeanRunning, l.Started, l.Steps)
	}
	if l.E2E < l.Decode+l.TTFT-time.Microsecond || l.E2E > l.Decode+l.TTFT+time.Microsecond || l.TPOT < l.Decode/31-time.Microsecond || l.TPOT > l.Decode/31+time.Microsecond {
		t.Errorf("E2E %v, decode %v, TTFT %v, TPOT %v", l.E2E, l.Decode, l.TTFT, l.TPOT)
	}
	if l.Took != s.Now()-end || l.Busy > l.Took || l.Memory > l.Busy || l.Memory < l.Busy/4 {
		t.Errorf("busy for %v of %v, the memory for %v", l.Busy, l.Took, l.Memory)
	}
}

// Requests wait for their turn, are cancelled and are given up as a client's are.
func TestSend_ends(t *testing.T) {
	t.Parallel()
	c := rate(1000, 200)
	c.MaxInFlight = 4
	waited := 0
	for _, r := range sent(t, New(Server{Engine: engine(t, nil), Ask: Tokens}), c, 0) {
		if r.Sent > r.Scheduled {
			waited++
		}
	}
	if waited < 150 {
		t.Errorf("%d of 200 waited for one of 4 places", waited)
	}

	c = rate(10, 100)
	c.Cancel = source.Cancel{Share: 0.2, After: 50 * time.Millisecond}
	cancelled := 0
	for _, r := range sent(t, New(Server{Engine: engine(t, nil), Ask: Tokens}), c, 0) {
		if r.Status == result.Cancelled {
			cancelled++
			if late := r.End - r.Sent - 50*time.Millisecond; !r.Planned || !r.Chosen || late < 0 || late > 50*time.Millisecond {
				t.Errorf("cancelled %+v", r)
			}
		}
	}
	if cancelled != 20 {
		t.Errorf("%d of 100 are cancelled, want 20", cancelled)
	}

	c = rate(1000, 400)
	c.Deadline = 500 * time.Millisecond
	lost := 0
	for _, r := range sent(t, New(Server{Engine: engine(t, func(o *core.Options) { o.MaxSeqs = 2 }), Ask: Tokens}), c, 0) {
		if r.Status == result.Failed {
			lost++
			if took := r.End - r.Sent; r.ErrorClass != result.ErrTimeout || took < c.Deadline || took > 2*c.Deadline {
				t.Errorf("given up: %+v", r)
			}
		}
	}
	if lost < 300 || lost == 400 {
		t.Errorf("%d of 400 are given up by a server of two places", lost)
	}
}

// A load that cannot be sent is refused, and none goes on for ever.
func TestSend_refuses(t *testing.T) {
	t.Parallel()
	send := func(ctx context.Context, s Server, c source.Config) error {
		src, err := source.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return New(s).Send(ctx, src, 0, func(*result.Request) bool { return true })
	}
	long := rate(1, 3)
	long.MaxTokens = 4090
	if err := send(t.Context(), Server{Engine: engine(t, nil), Ask: Tokens}, long); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("a sequence that is too long: %v", err)
	}
	small := engine(t, func(o *core.Options) { o.Blocks, o.ShrinkLen = 4, true })
	small.MaxModelLen = 4096
	if err := send(t.Context(), Server{Engine: small, Ask: Tokens}, rate(1, 3)); err == nil || !strings.Contains(err.Error(), "KV cache") {
		t.Errorf("a cache that is too small: %v", err)
	}
	if err := send(t.Context(), Server{Engine: engine(t, nil), Ask: Tokens, Work: 1000}, rate(1, 30)); !errors.Is(err, ErrWork) {
		t.Errorf("more work than is allowed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := send(ctx, Server{Engine: engine(t, nil), Ask: Tokens}, rate(1, 30)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

package timeline

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

// loop returns a closed loop of 4 slots whose requests take 100 ms and a bit, and more
// by what extra says of their number.
func loop(n int, extra func(i int) float64) []result.Request {
	r := rand.New(rand.NewPCG(4, 2))
	var out []result.Request
	var free [4]time.Duration
	for i := range n {
		took := time.Duration((100 + 10*r.Float64() + extra(i)) * float64(time.Millisecond))
		slot := i % len(free)
		sent := free[slot] + time.Microsecond
		out = append(out, result.Request{
			Slot: slot, Scheduled: sent, Sent: sent, FirstToken: sent + took/2, LastToken: sent + took, End: sent + took, Status: result.Completed,
		})
		free[slot] = sent + took
	}
	return out
}

func TestAssign_settles(t *testing.T) {
	count := func(requests []result.Request) (n int) {
		for _, r := range requests {
			if r.Phase == result.Plateau {
				n++
			}
		}
		return n
	}
	steady := func(int) float64 { return 0 }
	wander := func() func(int) float64 { // AR(1), phi 0.99, around 200 ms
		r, x := rand.New(rand.NewPCG(1, 1)), 0.0
		return func(int) float64 { x = 0.99*x + 5*r.NormFloat64(); return max(0, 200+x) }
	}
	requests := loop(204, steady)
	if s := Assign(requests, 4); len(s.Findings()) > 0 || count(requests) != 200 {
		t.Errorf("%d of 200 requests are on the plateau: %v", count(requests), s.Findings())
	}
	requests = loop(204, func(i int) float64 { return 500 * math.Exp(-float64(i)/10) })
	if s := Assign(requests, 4); len(s.Findings()) > 0 || count(requests) > 180 || count(requests) < 120 || requests[20].Phase != result.Ramp {
		t.Errorf("after a slow beginning %d of 200 requests are on the plateau: %v", count(requests), s.Findings())
	}
	for _, c := range []struct {
		name     string
		requests []result.Request
		slots    int
		plateau  int
		says     []string
	}{
		{"it never settles", loop(204, func(i int) float64 { return float64(i) }), 4, 200, []string{"time to first token had not settled by the middle", "21s", "405 requests"}},
		{"it wanders", loop(404, wander()), 0, 396, []string{"wanders too slowly for a plateau of", "at most 0.5 is steady", "s at least"}},
		{"few", loop(44, steady), 4, 40, []string{"40 completed requests", "75 are needed", "s at least, or 8"}},
		{"each slot sent one", loop(4, steady), 4, 0, []string{"no plateau", "requests took up to"}},
		{"an open loop that is too short", loop(4, steady), 0, 0, []string{"no plateau"}},
		{"one request", loop(1, steady), 0, 0, []string{"no plateau"}},
	} {
		s := Assign(c.requests, c.slots)
		f := s.Findings()
		if len(f) != 1 || count(c.requests) != c.plateau {
			t.Errorf("%s: %d on the plateau, %v", c.name, count(c.requests), f)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(f[0].Text, want) {
				t.Errorf("%s: %q, want %q in it", c.name, f[0].Text, want)
			}
		}
	}
	failed := loop(20, steady)
	for i := range failed {
		failed[i].Status = result.Failed
	}
	if s := Assign(failed, 4); len(s.Findings()) > 0 {
		t.Errorf("nothing was completed: %v", s.Findings())
	}
}

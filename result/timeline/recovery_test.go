package timeline

import (
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

// A queue of ten servers of 1 s at 8 requests/s, with a burst of 16 for 10 s: 60 of it wait at its
// end, and 2 a second more are done than come.
func TestRecovery(t *testing.T) {
	t.Parallel()
	made := func(servers int, holds []Hold) (requests []result.Request) {
		free := make([]time.Duration, servers)
		for _, h := range holds {
			gap := time.Duration(float64(time.Second) / h.Rate)
			for at := h.From; at < h.To; at += gap {
				least := 0
				for i := range free {
					if free[i] < free[least] {
						least = i
					}
				}
				free[least] = max(free[least], at) + time.Second
				requests = append(requests, result.Request{Phase: result.Plateau, Scheduled: at, Sent: at, End: free[least], Status: result.Completed})
			}
		}
		return requests
	}
	s := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	holds := func(low, high float64, last time.Duration) []Hold {
		return []Hold{{0, s(30), low}, {s(30), s(40), high}, {s(40), s(40) + last, low}}
	}
	for name, c := range map[string]struct {
		servers   int
		holds     []Hold
		low, high time.Duration
		ok        bool
	}{
		"twice the rate":     {10, holds(8, 16, s(60)), s(28), s(31), true},
		"enough servers":     {20, holds(8, 16, s(60)), 0, s(1), true},
		"not within its end": {10, holds(8, 16, s(20)), 0, 0, false},
		"no burst":           {10, holds(8, 8, s(20)), 0, 0, false},
		"one rate":           {10, holds(8, 16, s(20))[:1], 0, 0, false},
		"of two the longer":  {10, append(holds(8, 10.4, s(50)), Hold{s(90), s(100), 16}, Hold{s(100), s(160), 8}), s(28), s(32), true},
	} {
		got, ok := Recovery(made(c.servers, c.holds), 0, c.holds)
		if ok != c.ok || got < c.low || got > c.high {
			t.Errorf("%s: %v, %v; want %v to %v, %v", name, got, ok, c.low, c.high, c.ok)
		}
	}
}

package timeline

import (
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

func TestAssign(t *testing.T) {
	in := func(slot, sent, end int) result.Request {
		return result.Request{
			Slot: slot, Scheduled: time.Duration(sent), Sent: time.Duration(sent), LastToken: result.Never, End: time.Duration(end), Status: result.Completed,
		}
	}
	at := func(sent, end int) result.Request { return in(0, sent, end) }
	for _, c := range []struct {
		name     string
		target   int
		requests []result.Request
		want     []result.Phase
	}{
		{
			"the first of each slot, up and down", 2,
			[]result.Request{in(0, 0, 10), in(1, 4, 20), in(0, 12, 18), in(1, 20, 25), in(0, 26, 30)},
			[]result.Phase{result.Ramp, result.Ramp, result.Plateau, result.Plateau, result.Tail},
		},
		{
			"together", 2,
			[]result.Request{in(0, 0, 10), in(1, 0, 12), in(0, 10, 20), in(1, 12, 20)},
			[]result.Phase{result.Ramp, result.Ramp, result.Plateau, result.Plateau},
		},
		{
			"one after the other, and a second one before all have begun", 3,
			[]result.Request{in(0, 0, 5), in(1, 4, 14), in(0, 5, 12), in(2, 8, 18), in(0, 12, 22), in(1, 14, 24), in(2, 18, 28)},
			[]result.Phase{result.Ramp, result.Ramp, result.Ramp, result.Ramp, result.Plateau, result.Plateau, result.Plateau},
		},
		{
			"between two requests a slot thinks", 2,
			[]result.Request{in(0, 0, 10), in(1, 1, 30), in(0, 15, 16), in(0, 20, 40)},
			[]result.Phase{result.Ramp, result.Ramp, result.Plateau, result.Plateau},
		},
		{
			"slots of two shards", 2,
			[]result.Request{in(0, 0, 10), {Shard: 1, Sent: 2, End: 9}, in(0, 10, 20), {Shard: 1, Sent: 9, End: 19}},
			[]result.Phase{result.Ramp, result.Ramp, result.Plateau, result.Plateau},
		},
		{
			"one slot ended before the other began", 2,
			[]result.Request{in(0, 0, 10), in(1, 11, 20), in(1, 20, 30)},
			[]result.Phase{result.Ramp, result.Ramp, result.Ramp},
		},
		{
			"each slot sent one", 2,
			[]result.Request{in(0, 0, 10), in(1, 1, 20)},
			[]result.Phase{result.Ramp, result.Ramp},
		},
		{
			"never reached", 3,
			[]result.Request{in(0, 0, 10), in(1, 1, 30), in(0, 10, 20)},
			[]result.Phase{result.Ramp, result.Ramp, result.Ramp},
		},
		{
			"an open loop, from when nearly all of the first requests are done to the last send", 0,
			[]result.Request{at(0, 10), at(5, 12), at(10, 20), at(11, 19), at(90, 95)},
			[]result.Phase{result.Ramp, result.Ramp, result.Plateau, result.Plateau, result.Plateau},
		},
		{
			"an open loop that was over before its first answers", 0,
			[]result.Request{at(0, 100), at(50, 150)},
			[]result.Phase{result.Ramp, result.Ramp},
		},
		{
			"an open loop of which nothing was completed", 0,
			[]result.Request{{Sent: 0, End: 5, Status: result.Failed}, {Sent: 3, End: 5, Status: result.Failed}},
			[]result.Phase{result.Ramp, result.Ramp},
		},
		{
			"never sent", 1,
			[]result.Request{at(0, 10), at(10, 20), {Sent: result.Never, End: 5}},
			[]result.Phase{result.Ramp, result.Plateau, result.Tail},
		},
		{
			"warm-up", 1,
			[]result.Request{{Sent: 0, End: 9, Phase: result.Warmup}, at(10, 20), at(20, 30)},
			[]result.Phase{result.Warmup, result.Ramp, result.Plateau},
		},
		{"nothing", 1, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			Assign(c.requests, c.target)
			for i, r := range c.requests {
				if r.Phase != c.want[i] {
					t.Errorf("request %d: %q, want %q", i, r.Phase, c.want[i])
				}
			}
		})
	}
	// 19 of 20 are the plateau of a target of 20.
	var many []result.Request
	for i := range 19 {
		many = append(many, in(i, i, 100+i), in(i, 100+i, 200+i))
	}
	span := Assign(many, 20)
	if span.First != 0 || span.From != 100 || span.To != 200 || span.Last != 218 || !span.Steady {
		t.Errorf("span %+v", span)
	}
	if many[0].Phase != result.Ramp || many[1].Phase != result.Plateau {
		t.Errorf("%q %q", many[0].Phase, many[1].Phase)
	}
}

func TestRamp(t *testing.T) {
	took := func(d time.Duration, phase result.Phase, status result.Status) result.Request {
		return result.Request{Phase: phase, Sent: 3, LastToken: result.Never, End: 3 + d, Status: status}
	}
	requests := []result.Request{
		took(10, result.Warmup, result.Completed), took(20, result.Warmup, result.Completed), took(40, result.Warmup, result.Completed),
		took(1000, result.Warmup, result.Failed), took(1000, "", result.Completed),
	}
	all := func(yield func(*result.Request) bool) {
		for i := range requests {
			if !yield(&requests[i]) {
				return
			}
		}
	}
	if closed, open := Ramp(all, false), Ramp(all, true); closed != 20 || open != 38 {
		t.Errorf("%d and %d, want the median 20 and the p95 38", closed, open)
	}
	requests = requests[3:]
	if d := Ramp(all, false); d != 0 {
		t.Errorf("%d of a warm-up that completed nothing", d)
	}
}

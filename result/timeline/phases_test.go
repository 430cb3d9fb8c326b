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
			"up and down", 2,
			[]result.Request{in(0, 0, 10), in(1, 4, 20), in(0, 12, 18), in(0, 21, 30)},
			[]result.Phase{result.Ramp, result.Plateau, result.Plateau, result.Tail},
		},
		{
			"together", 2,
			[]result.Request{in(0, 0, 10), in(1, 0, 12), in(0, 10, 20), in(1, 12, 20)},
			[]result.Phase{result.Plateau, result.Plateau, result.Plateau, result.Plateau},
		},
		{
			"between two requests a slot thinks", 2,
			[]result.Request{in(0, 0, 10), in(1, 1, 30), in(0, 15, 16), in(0, 20, 40)},
			[]result.Phase{result.Ramp, result.Plateau, result.Plateau, result.Plateau},
		},
		{
			"slots of two shards", 2,
			[]result.Request{in(0, 0, 10), {Shard: 1, Sent: 2, End: 9}},
			[]result.Phase{result.Ramp, result.Plateau},
		},
		{
			"one after the other", 2,
			[]result.Request{in(0, 0, 10), in(1, 11, 20)},
			[]result.Phase{result.Ramp, result.Ramp},
		},
		{
			"never reached", 3,
			[]result.Request{in(0, 0, 10), in(1, 1, 30)},
			[]result.Phase{result.Ramp, result.Ramp},
		},
		{
			"an open loop, from one median request on to the last send", 0,
			[]result.Request{at(0, 10), at(5, 12), at(10, 20), at(90, 95), at(95, 300)},
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
			[]result.Request{at(0, 10), {Sent: result.Never, End: 5}},
			[]result.Phase{result.Plateau, result.Tail},
		},
		{
			"warm-up", 1,
			[]result.Request{{Sent: 0, End: 9, Phase: result.Warmup}, at(10, 20)},
			[]result.Phase{result.Warmup, result.Plateau},
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
		many = append(many, in(i, i, 100))
	}
	span := Assign(many, 20)
	if want := (Span{First: 0, From: 18, To: 100, Last: 100, Steady: true}); span != want {
		t.Errorf("span %+v, want %+v", span, want)
	}
	if many[18].Phase != result.Plateau || many[17].Phase != result.Ramp {
		t.Errorf("%q %q", many[17].Phase, many[18].Phase)
	}
}

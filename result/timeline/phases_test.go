package timeline

import (
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

func TestAssignPhases(t *testing.T) {
	at := func(sent, end int) result.Request {
		return result.Request{Sent: time.Duration(sent), End: time.Duration(end)}
	}
	for _, c := range []struct {
		name     string
		target   int
		requests []result.Request
		want     []result.Phase
	}{
		{
			"up and down", 2,
			[]result.Request{at(0, 10), at(4, 20), at(12, 18), at(21, 30)},
			[]result.Phase{result.Ramp, result.Plateau, result.Plateau, result.Tail},
		},
		{
			"together", 2,
			[]result.Request{at(0, 10), at(0, 12), at(10, 20), at(12, 20)},
			[]result.Phase{result.Plateau, result.Plateau, result.Plateau, result.Plateau},
		},
		{
			"a dip is still the plateau", 2,
			[]result.Request{at(0, 10), at(1, 30), at(15, 16), at(20, 40)},
			[]result.Phase{result.Ramp, result.Plateau, result.Plateau, result.Plateau},
		},
		{
			"never reached", 3,
			[]result.Request{at(0, 10), at(1, 30)},
			[]result.Phase{result.Ramp, result.Ramp},
		},
		{
			"an open loop has no target", 0,
			[]result.Request{at(0, 10), at(90, 91)},
			[]result.Phase{result.Plateau, result.Plateau},
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
			AssignPhases(c.requests, c.target)
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
		many = append(many, at(i, 100))
	}
	AssignPhases(many, 20)
	if many[18].Phase != result.Plateau || many[17].Phase != result.Ramp {
		t.Errorf("%q %q", many[17].Phase, many[18].Phase)
	}
}

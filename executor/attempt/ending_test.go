package attempt

import (
	"testing"
	"time"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/trace"
)

func TestCapped(t *testing.T) {
	for _, c := range []struct {
		c    source.Config
		want string
	}{
		{source.Config{Requests: 10}, stopping.Requests},
		{source.Config{Requests: 10, Duration: time.Second}, stopping.Requests},
		{source.Config{Requests: 11, Duration: time.Second}, stopping.Duration},
		{source.Config{Duration: time.Second}, stopping.Duration},
		{source.Config{RequestsPerWorker: 5, Concurrency: 2, Duration: time.Second}, stopping.Requests},
		{source.Config{Pace: arrivals.Rates{Stages: []arrivals.Stage{{Rate: 1, For: time.Second}}}}, stopping.Duration},
		{source.Config{Pace: trace.Replay{Rows: make([]trace.Row, 10)}}, stopping.Requests},
		{source.Config{Pace: trace.Replay{Rows: make([]trace.Row, 20)}, Duration: time.Second}, stopping.Duration},
	} {
		if got := capped(c.c, 10); got != c.want {
			t.Errorf("%+v: %s", c.c, got)
		}
	}
}

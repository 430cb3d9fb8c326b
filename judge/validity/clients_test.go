package validity

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// shards returns the evidence of four clients with nothing wrong, 200 requests of about 100 ms each.
func shards() Evidence {
	e := Evidence{Row: result.Row{col.DurationS: 20.0}, Open: true}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 4 {
		e.Health.Shards = append(e.Health.Shards, load.ShardHealth{Shard: i, OffsetError: 50 * time.Microsecond, DriftError: 100 * time.Microsecond, Throttled: new(int)})
		for n := range 200 {
			took := 100*time.Millisecond + time.Duration(r.ExpFloat64()*float64(30*time.Millisecond))
			e.Requests = append(e.Requests, result.Request{
				Shard: i, N: 4*n + i, Slot: n, Status: result.Completed, Phase: result.Plateau,
				Scheduled: time.Duration(n) * time.Second, Sent: time.Duration(n) * time.Second,
				FirstToken: time.Duration(n)*time.Second + took, End: time.Duration(n)*time.Second + 2*took,
			})
		}
	}
	return e
}

// Each thing that can go wrong with one of several clients has its reason, and nothing else
// finds it.
func TestJudge_clients(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*Evidence)
		want finding.Code
	}{
		"fine":                  {func(*Evidence) {}, finding.Code{}},
		"one client":            {func(e *Evidence) { e.Health.Shards = nil }, finding.Code{}},
		"lost":                  {func(e *Evidence) { e.Health.Shards[2].Lost = "killed" }, finding.ClientLost},
		"a path of 500 ms more": {func(e *Evidence) { slower(e, 1, 500*time.Millisecond) }, finding.ClientsDiffer},
		"a path of 40 ms more":  {func(e *Evidence) { slower(e, 1, 40*time.Millisecond) }, finding.ClientsDiffer},
		"a path of 5 ms more":   {func(e *Evidence) { slower(e, 1, 5*time.Millisecond) }, finding.Code{}},
	} {
		t.Run(name, func(t *testing.T) {
			e := shards()
			c.set(&e)
			var got finding.Code
			for _, f := range reasons(e, bounds.Defaults()) {
				if got != (finding.Code{}) {
					t.Errorf("also %v: %s", f.Code, f.Text)
				}
				got = f.Code
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func slower(e *Evidence, shard int, by time.Duration) {
	for i := range e.Requests {
		if r := &e.Requests[i]; r.Shard == shard {
			r.FirstToken += by
			r.End += by
		}
	}
}

// A wall clock that is off is a remark, and no reason.
func TestRemarks_wallClock(t *testing.T) {
	e := shards()
	e.Health.Shards[2].Wall = 500 * time.Millisecond
	if f := Remarks(e, bounds.Defaults()); len(f) != 1 || f[0].Code != finding.ClientWallClock {
		t.Errorf("%v", f)
	}
	if f := reasons(e, bounds.Defaults()); len(f) > 0 {
		t.Errorf("%v", f)
	}
}

// Values of the normal approximation without a correction for continuity.
func TestMannWhitney(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 0.020921335},
		{[]float64{1, 3, 5, 7}, []float64{2, 4, 6, 8}, 0.563702862},
		{[]float64{1, 1, 2, 2}, []float64{2, 2, 3, 3}, 0.061368829},
		{[]float64{1, 1}, []float64{1, 1}, 1},
	} {
		if got := mannWhitney(c.a, c.b); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v and %v: %.9f, want %.9f", c.a, c.b, got, c.want)
		}
	}
}

// Clients that are dealt one load are not found to differ by chance.
func TestClientsDiffer_chance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		e := Evidence{Health: load.Health{Shards: make([]load.ShardHealth, 4)}}
		for n := range 120 {
			e.Requests = append(e.Requests, result.Request{
				Shard: n % 4, Status: result.Completed, Phase: result.Plateau, End: time.Duration(100e6 * math.Exp(r.NormFloat64())), FirstToken: result.Never,
			})
		}
		if f, bad := clientsDiffer(&e, bounds.Bounds{}); bad {
			t.Fatal(f.Text)
		}
	}
}

package models

import (
	"math"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/result"
)

// near fails if got is further from want than share of it.
func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got/want-1) > share {
		t.Errorf("%s: %.5g, want %.5g within %.2g %%", what, got, want, 100*share)
	}
}

func TestAR1(t *testing.T) {
	t.Parallel()
	for _, phi := range []float64{0, 0.9} {
		v := AR1{Phi: phi, Mean: 100, SD: 20}.Values(1, 200_000)
		mean, square, lag := 0.0, 0.0, 0.0
		for _, x := range v {
			mean += x / float64(len(v))
		}
		for i, x := range v {
			square += (x - mean) * (x - mean)
			if i > 0 {
				lag += (x - mean) * (v[i-1] - mean)
			}
		}
		near(t, "mean", mean, 100, 0.01)
		near(t, "sd", math.Sqrt(square/float64(len(v))), 20, 0.02)
		if math.Abs(lag/square-phi) > 0.01 {
			t.Errorf("correlation of neighbours %.3f, want %g", lag/square, phi)
		}
	}
}

// The formulas agree with textbook values and with the simulated queue.
func TestQueue(t *testing.T) {
	t.Parallel()
	near(t, "Erlang C of 8 servers at 0.9", Queue{Servers: 8, Load: 0.9, Service: time.Second}.ErlangC(), 0.70155, 1e-4)
	one := Queue{Servers: 1, Load: 0.7, Service: time.Second}
	near(t, "mean of M/M/1", one.Mean().Seconds(), 1/(1-0.7), 1e-9)
	near(t, "p95 of M/M/1", one.Quantile(0.95).Seconds(), -math.Log(0.05)/(1-0.7), 1e-6)
	for _, q := range []Queue{one, {Servers: 8, Load: 0.5, Service: time.Second}, {Servers: 8, Load: 0.85, Service: 100 * time.Millisecond}} {
		var took []float64
		q.First = q.Service / 50
		first := 0.0
		for _, r := range q.Run(1, 400_000)[1000:] {
			took = append(took, (r.End - r.Scheduled).Seconds())
			first += (r.FirstToken - r.Scheduled).Seconds()
		}
		mean := 0.0
		for _, x := range took {
			mean += x / float64(len(took))
		}
		near(t, "mean TTFT", first/float64(len(took)), q.MeanFirst().Seconds(), 0.06)
		slices.Sort(took)
		near(t, "mean", mean, q.Mean().Seconds(), 0.03)
		near(t, "p95", result.Quantile(took, 0.95), q.Quantile(0.95).Seconds(), 0.04)
	}
}

// A bound on what is in flight is kept, and nothing is sent before it is due.
func TestQueue_maxInFlight(t *testing.T) {
	t.Parallel()
	requests := Queue{Servers: 4, Load: 1.5, Service: time.Second, MaxInFlight: 16}.Run(1, 2000)
	held := 0
	for i, r := range requests {
		flying := 0
		for _, o := range requests[:i] {
			if o.End > r.Sent {
				flying++
			}
		}
		if flying >= 16 || r.Sent < r.Scheduled {
			t.Fatalf("request %d is sent at %s, due at %s, with %d in flight", i, r.Sent, r.Scheduled, flying)
		}
		if r.Sent > r.Scheduled {
			held++
		}
	}
	if held < 1000 {
		t.Errorf("%d of 2000 were held back", held)
	}
}

// The engine serves what the source makes: the same requests for the same seed,
// as many at once as the loop has slots, and no faster than its arithmetic.
func TestEngine(t *testing.T) {
	t.Parallel()
	for _, lengths := range []Lengths{{Input: 512, Output: 64}, {Input: 512, Output: 64, Sigma: 0.5}} {
		c := lengths.Load(7)
		c.Concurrency, c.Requests = 16, 400
		run := func() []result.Request {
			all, err := H100.Run(c)
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		all := run()
		if len(all) != 400 {
			t.Fatalf("%d requests, want 400", len(all))
		}
		tokens := 0
		for i, r := range run() {
			if r.End != all[i].End || r.N != all[i].N {
				t.Fatal("the same seed made another run")
			}
			var us int64
			for _, d := range r.ChunkUS {
				us += int64(d)
			}
			if r.CompletionTokens != len(r.ChunkUS) || time.Duration(us)*time.Microsecond != r.End.Truncate(time.Microsecond)-r.Sent.Truncate(time.Microsecond) {
				t.Fatalf("request %+v: %d us", r, us)
			}
			if r.CompletionTokens != r.MaxTokens || r.FirstToken <= r.Sent {
				t.Fatalf("request %+v", r)
			}
			tokens += r.CompletionTokens
		}
		near(t, "mean output", float64(tokens)/400, 64, 0.1)
	}
}

func TestEngine_open(t *testing.T) {
	t.Parallel()
	c := Lengths{Input: 512, Output: 64}.Load(7)
	c.Pace, c.Requests = arrivals.Steady(8, arrivals.Process{}), 500
	all, err := H100.Run(c)
	if err != nil || len(all) != 500 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	last := time.Duration(0)
	for _, r := range all {
		last = max(last, r.Scheduled)
	}
	near(t, "rate", 500/last.Seconds(), 8, 0.15)
}

package models

import (
	"math"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/core"
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

// A request that is over the loose limit is over the strict one, and at each capacity one of
// twenty is over its limit. Searches of one seed have the same server, and trials of their own.
func TestTiers(t *testing.T) {
	t.Parallel()
	const trials, requests = 400, 1000
	server := NewTiers(3, 0, requests, 5)
	if server.Loosest < server.Capacity || server.Loosest > 1.5*server.Capacity {
		t.Errorf("capacities %v and %v", server.Capacity, server.Loosest)
	}
	strict, loose := 0, 0
	for range trials {
		at := server.Trial(server.Capacity, 1)
		if at[0].Name != Objective || at[1].Name != Loose || at[1].Parts[0].Over > at[0].Parts[0].Over {
			t.Fatalf("%+v", at)
		}
		strict += at[0].Parts[0].Over
		loose += server.Trial(server.Loosest, 1)[1].Parts[0].Over
	}
	near(t, "share over the strict limit", float64(strict)/trials/requests, 0.05, 0.06)
	near(t, "share over the loose limit", float64(loose)/trials/requests, 0.05, 0.06)
	other := NewTiers(3, 1, requests, 5)
	if other.Capacity != server.Capacity || other.Loosest != server.Loosest {
		t.Error("another server")
	}
	fresh, same := NewTiers(3, 0, requests, 5), 0
	for range 20 {
		if fresh.Trial(100, 1)[0].Parts[0].Over == other.Trial(100, 1)[0].Parts[0].Over {
			same++
		}
	}
	if same == 20 {
		t.Error("the same trials")
	}
}

// What is scarce shows in the counters, and the way in the times.
func TestServed(t *testing.T) {
	t.Parallel()
	run := func(change func(*Served)) (ttft time.Duration, l Look) {
		t.Helper()
		s := Served{GPU: "h100", Model: "meta-llama/Llama-3.1-8B-Instruct", Lengths: Lengths{Input: 200, Output: 100}, Constants: core.Chosen()}
		change(&s)
		requests, l, err := s.Run(1, 20, 100)
		if err != nil || len(requests) != 100 {
			t.Fatalf("%d requests, %v", len(requests), err)
		}
		for _, r := range requests {
			ttft += (r.FirstToken - r.Scheduled) / 100
		}
		return ttft, l
	}
	plain, l := run(func(*Served) {})
	if l.Preemptions != 0 || l.Resends != 0 || l.GPU > l.Busy || l.GPU < l.Busy*9/10 {
		t.Errorf("%+v", l)
	}
	if _, l := run(func(s *Served) { s.Slots = 2 }); l.MaxRunning != 2 || l.Queue < l.TTFT/2 {
		t.Errorf("two slots: %+v", l)
	}
	if _, l := run(func(s *Served) { s.KVTokens, s.MaxModelLen = 1000, 400 }); l.Preemptions == 0 || l.MaxKVUsage < 0.95 {
		t.Errorf("a small cache: %+v", l)
	}
	if _, l := run(func(s *Served) { s.Constants.Step = 20 * time.Millisecond }); l.GPU > l.Busy/2 {
		t.Errorf("a slow host: %+v", l)
	}
	if far, _ := run(func(s *Served) { s.RTT = 50 * time.Millisecond }); far-plain < 49*time.Millisecond || far-plain > 51*time.Millisecond {
		t.Errorf("TTFT %v, and %v far away", plain, far)
	}
	if lossy, l := run(func(s *Served) { s.Loss = 0.1 }); l.Resends < 3 || l.Resends > 20 || (lossy-plain-time.Duration(l.Resends)*resend/100).Abs() > time.Millisecond {
		t.Errorf("TTFT %v, and %v with %d packets lost", plain, lossy, l.Resends)
	}
}

package timeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/result"
)

// A cell is a made-up trial: a server whose time to first token and per token
// are what the test says at each moment, and whose capacity may be shared.
type cell struct {
	slots    int
	rate     float64 // open loop if there are no slots
	length   time.Duration
	tokens   int
	ttft     func(at float64, r *rand.Rand) float64 // s; at is 0 to 1 over the trial
	tpot     func(at float64, r *rand.Rand) float64
	burst    float64 // shape of the gaps between arrivals: 1 Poisson, below it bursts
	capacity int     // servers of a queue, in an open loop; 0 is without end
}

func (c cell) requests(r *rand.Rand) []result.Request {
	var out []result.Request
	one := func(slot int, scheduled, begin float64) (end float64) {
		at := begin / c.length.Seconds()
		t := begin + c.ttft(at, r)
		q := result.Request{
			N: len(out), Slot: slot, Scheduled: seconds(scheduled), Sent: seconds(scheduled), Status: result.Completed,
			CompletionTokens: c.tokens, TokenSource: "usage",
		}
		q.FirstByte, q.FirstToken = seconds(t), seconds(t)
		last := q.Sent
		for range c.tokens {
			now := seconds(t)
			q.ChunkUS = append(q.ChunkUS, int32((now-last)/time.Microsecond))
			last = now
			t += c.tpot(at, r)
		}
		q.LastToken, q.End = last, last
		out = append(out, q)
		return last.Seconds()
	}
	if c.slots > 0 {
		for slot := range c.slots {
			for t := 0.0; t < c.length.Seconds(); {
				t = one(slot, t, t) + 20e-6
			}
		}
		return out
	}
	free := make([]float64, max(1, c.capacity))
	for t := 0.0; t < c.length.Seconds(); t += gamma(r, c.burst) / c.burst / c.rate {
		begin := t
		if c.capacity > 0 {
			least := 0
			for i := range free {
				if free[i] < free[least] {
					least = i
				}
			}
			begin = max(t, free[least])
			free[least] = one(0, t, begin)
			continue
		}
		one(0, t, begin)
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// gamma draws from a gamma distribution of the given shape and scale 1, by the
// method of Marsaglia and Tsang.
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	for {
		x := r.NormFloat64()
		v := math.Pow(1+x/math.Sqrt(9*d), 3)
		if v > 0 && math.Log(r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

func constant(v, noise float64) func(float64, *rand.Rand) float64 {
	return func(_ float64, r *rand.Rand) float64 { return v * math.Exp(noise*r.NormFloat64()) }
}

func shaped(v, noise float64, f func(at float64) float64) func(float64, *rand.Rand) float64 {
	return func(at float64, r *rand.Rand) float64 { return v * f(at) * math.Exp(noise*r.NormFloat64()) }
}

func step(where, by float64) func(float64) float64 {
	return func(at float64) float64 {
		if at > where {
			return by
		}
		return 1
	}
}

// TestDrift_simulated counts in how many of thirty or sixty made-up trials each figure
// drifts by more than a tenth: hardly ever where nothing does, nearly always
// where something does. The seeds are fixed.
func TestDrift_simulated(t *testing.T) {
	t.Parallel()
	runs := 30
	if slow.Tests {
		runs = 60
	}
	quiet, anything := [2]int{0, runs / 20}, [2]int{0, runs}
	found, often := [2]int{runs - runs*2/15, runs}, [2]int{runs / 6, runs}
	steady := func(slots int, length time.Duration) cell {
		return cell{slots: slots, length: length, tokens: 24, ttft: constant(.05, .3), tpot: constant(.01, .1)}
	}
	open := func(rate, burst float64, capacity int) cell {
		return cell{rate: rate, burst: burst, capacity: capacity, length: 30 * time.Second, tokens: 24, ttft: constant(.05, .3), tpot: constant(.01, .1)}
	}
	slower := func(f func(float64) float64) cell {
		c := steady(8, 20*time.Second)
		c.tpot = shaped(.01, .1, f)
		return c
	}
	waiting := steady(8, 20*time.Second)
	waiting.ttft = shaped(.05, .3, func(at float64) float64 { return 1 + .5*at })
	for _, c := range []struct {
		name             string
		cell             cell
		ttft, tpot, rate [2]int // least and most trials
	}{
		{"steady", steady(8, 20*time.Second), quiet, quiet, quiet},
		{"one at a time", steady(1, 15*time.Second), quiet, quiet, quiet},
		{"short and wide", steady(48, 5*time.Second), quiet, quiet, quiet},
		{"hardly any", steady(8, 2*time.Second), [2]int{}, [2]int{}, [2]int{}},
		{"Poisson arrivals", open(5, 1, 0), quiet, quiet, quiet},
		{"arrivals in bursts", open(5, .25, 0), quiet, quiet, quiet},
		{"a queue that is busy", open(8, 1, 4), quiet, quiet, quiet},
		{"a queue that is busy with bursts", open(8, .25, 4), quiet, quiet, quiet},
		{"a leak", slower(func(at float64) float64 { return 1 + .4*at }), quiet, found, found},
		{"a longer wait", waiting, [2]int{runs * 3 / 4, runs}, quiet, anything},
		{"throttled from the middle on", slower(step(.5, 1.3)), quiet, found, found},
		{"throttled near the end", slower(step(.75, 1.3)), quiet, often, often},
		// Where the beginning alone moves, it is left out.
		{"not warm yet", slower(func(at float64) float64 { return 1 + math.Exp(-at/.15) }), quiet, [2]int{0, runs / 2}, [2]int{0, runs / 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var hits [3]int
			for i := range runs {
				requests := c.cell.requests(rand.New(rand.NewPCG(uint64(i), 7)))
				d := DriftOf(requests, Assign(requests, c.cell.slots), c.cell.slots == 0)
				for j, x := range []Drift{d.TTFT, d.TPOT, d.Throughput} {
					if x.P < Level && math.Abs(x.Change) > 0.1 {
						hits[j]++
					}
				}
			}
			for j, want := range [][2]int{c.ttft, c.tpot, c.rate} {
				if hits[j] < want[0] || hits[j] > want[1] {
					t.Errorf("%s drifts in %d of %d trials, want %d to %d", []string{"TTFT", "TPOT", "throughput"}[j], hits[j], runs, want[0], want[1])
				}
			}
		})
	}
}

// TestDrift_queues counts false alarms on queues that are stationary and wander: a
// trial is often shorter than the time in which they forget. What is left are bounds
// above the 1 in 100 of long runs, for a hundred of them.
func TestDrift_queues(t *testing.T) {
	t.Parallel()
	runs := 50
	if slow.Tests {
		runs = 100
	}
	for _, q := range []struct {
		servers, requests int
		load              float64
	}{{1, 200, 0.8}, {1, 1000, 0.9}, {1, 1000, 0.95}, {8, 1000, 0.9}, {8, 5000, 0.95}, {32, 5000, 0.95}} {
		t.Run(fmt.Sprint(q), func(t *testing.T) {
			t.Parallel()
			wrong := 0
			for i := range uint64(runs) {
				requests := queue(rand.New(rand.NewPCG(i, 11)), q.servers, q.requests, q.load)
				d := DriftOf(requests, Assign(requests, 0), true)
				for _, x := range []Drift{d.TTFT, d.TPOT, d.Throughput} {
					if x.P < Level && math.Abs(x.Change) > 0.2 {
						wrong++
						break
					}
				}
			}
			t.Logf("%d of %d", wrong, runs)
			if wrong > runs/50 {
				t.Errorf("%d of %d steady trials are called drifting", wrong, runs)
			}
		})
	}
}

// queue returns a stationary M/M/c queue whose service takes a second on average.
func queue(r *rand.Rand, servers, requests int, load float64) []result.Request {
	free := make([]float64, servers)
	const before = 4000 // requests until it is steady
	now, anchor := 0.0, 0.0
	var out []result.Request
	for i := range before + requests {
		now += r.ExpFloat64() / (load * float64(servers))
		least := 0
		for k := range free {
			if free[k] < free[least] {
				least = k
			}
		}
		begin := max(now, free[least])
		end := begin + r.ExpFloat64()
		free[least] = end
		if i < before {
			anchor = now
			continue
		}
		first, last := seconds(begin+0.05-anchor), seconds(end+0.05-anchor)
		out = append(out, result.Request{
			N: len(out), Scheduled: seconds(now - anchor), Sent: seconds(now - anchor), FirstByte: first, FirstToken: first, LastToken: last, End: last,
			Status: result.Completed, CompletionTokens: 20, TokenSource: "usage",
		})
	}
	return out
}

package timeline

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

// A cell is a made-up trial: a server whose time to first token and per token
// are what the test says at each moment, and whose capacity may be shared.
type cell struct {
	slots    int
	rate     float64 // open loop where there are no slots
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

func TestSim(t *testing.T) {
	step := func(where, by float64) func(float64) float64 {
		return func(at float64) float64 {
			if at > where {
				return by
			}
			return 1
		}
	}
	for name, c := range map[string]cell{
		"null closed 8":         {slots: 8, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .1)},
		"null closed 8 equal":   {slots: 8, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .0), tpot: constant(.01, 0)},
		"null closed 64 short":  {slots: 64, length: 6 * time.Second, tokens: 16, ttft: constant(.05, .3), tpot: constant(.01, .1)},
		"null closed 1":         {slots: 1, length: 20 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .3)},
		"null poisson 5":        {rate: 5, burst: 1, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .1)},
		"null gamma .25":        {rate: 5, burst: .25, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .1)},
		"null queue 0.7":        {rate: 7.6, burst: 1, capacity: 4, length: 60 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .1)},
		"null queue 0.9":        {rate: 9.7, burst: 1, capacity: 4, length: 60 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .1)},
		"null queue 0.7 bursts": {rate: 7.6, burst: .25, capacity: 4, length: 60 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .1)},
		"leak 30%":              {slots: 8, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: shaped(.01, .1, func(at float64) float64 { return 1 + .3*at })},
		"leak ttft 50%":         {slots: 8, length: 30 * time.Second, tokens: 32, ttft: shaped(.05, .3, func(at float64) float64 { return 1 + .5*at }), tpot: constant(.01, .1)},
		"throttle 30% at half":  {slots: 8, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: shaped(.01, .1, step(.5, 1.3))},
		"throttle 30% at 3/4":   {slots: 8, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: shaped(.01, .1, step(.75, 1.3))},
		"warm-up":               {slots: 8, length: 30 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: shaped(.01, .1, func(at float64) float64 { return 1 + math.Exp(-at/.15) })},
		"overload":              {rate: 14, burst: 1, capacity: 4, length: 60 * time.Second, tokens: 32, ttft: constant(.05, .3), tpot: constant(.01, .1)},
	} {
		const runs = 200
		var hits [3]int
		var big [3]int
		known := 0
		var change [3]float64
		for i := range runs {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			rs := c.requests(r)
			s := Assign(rs, c.slots)
			d := DriftOf(rs, s, c.slots == 0)
			for j, x := range []Drift{d.TTFT, d.TPOT, d.Throughput} {
				if x.Known() {
					known++
				}
				if x.Significant() {
					hits[j]++
					if math.Abs(x.Change) > .15 {
						big[j]++
					}
				}
				change[j] += x.Change / runs
			}
		}
		t.Logf("%-24s known %.2f  significant %v  and >15%% %v  mean change %.2f", name, float64(known)/3/runs, hits, big, change)
	}
}

package virtual

import (
	"time"

	"sweep.dev/sweep/sim/core"
)

// Looks are an engine's own counters over one load, as a scraper of its metrics sees them.
type Looks struct {
	MeanRunning, MeanWaiting float64 // requests, over the time in steps
	MaxRunning               int
	MaxKVUsage               float64 // 0 to 1
	Preemptions              int
	// PrefixHits are the prompt tokens found in the prefix cache, of PrefixQueries; both
	// are 0 without one.
	PrefixQueries, PrefixHits int
	// Means of the requests that got a token: in the queue, from the first step to the first
	// token, and from the arrival to it. All are 0 if none did.
	Queue, Prefill, TTFT time.Duration
	// Means of the requests that ended by themselves: from the first token to the last, and
	// from the arrival to it; and of those of several tokens the time per token after the
	// first. All are 0 if there was none.
	Decode, E2E, TPOT time.Duration

	// Took is how long the load was, and Busy how much of it the engine was in steps, of which
	// Memory with the memory at work, and Started how many requests got a token.
	Took, Busy, Memory time.Duration
	Steps, Started     int
}

// looks adds them up.
type looks struct {
	before, last     core.Stats
	running, waiting float64 // times seconds
	took             float64 // seconds
	usage            float64

	began                time.Duration
	most                 int // requests at once
	first                int // tokens that were the first of their request
	queue, prefill, ttft time.Duration
	ended, several       int // requests, and those of several tokens
	decode, e2e, tpot    time.Duration
}

// token takes in one that the engine has made.
func (l *looks) token(o core.Output) {
	if o.N == 1 {
		l.first++
		l.queue += o.Scheduled - o.Arrived
		l.prefill += o.First - o.Scheduled
		l.ttft += o.First - o.Arrived
	}
	if o.Finish == core.Running {
		return
	}
	l.ended++
	l.decode += o.Last - o.First
	l.e2e += o.Last - o.Arrived
	if o.N > 1 {
		l.several++
		l.tpot += (o.Last - o.First) / time.Duration(o.N-1)
	}
}

// step takes in a step that has begun and takes so long.
func (l *looks) step(s core.Stats, d time.Duration) {
	l.took += d.Seconds()
	l.running += float64(s.Running) * d.Seconds()
	l.waiting += float64(s.Waiting) * d.Seconds()
	l.usage = max(l.usage, s.KVUsage)
	l.most = max(l.most, s.Running)
	l.last = s
}

// Looks returns those of the last load.
func (s *Session) Looks() Looks {
	l, now := &s.looks, s.engine.Stats()
	out := Looks{
		MaxRunning: l.most, MaxKVUsage: l.usage, Preemptions: l.last.Preemptions - l.before.Preemptions,
		Took: s.now - l.began, Busy: now.Busy - l.before.Busy, Memory: now.Memory - l.before.Memory,
		Steps: now.Steps - l.before.Steps, Started: l.first,
		PrefixQueries: l.last.PrefixQueries - l.before.PrefixQueries, PrefixHits: l.last.PrefixHits - l.before.PrefixHits,
	}
	if n := time.Duration(l.first); n > 0 {
		out.Queue, out.Prefill, out.TTFT = l.queue/n, l.prefill/n, l.ttft/n
	}
	if n := time.Duration(l.ended); n > 0 {
		out.Decode, out.E2E = l.decode/n, l.e2e/n
	}
	if n := time.Duration(l.several); n > 0 {
		out.TPOT = l.tpot / n
	}
	if l.took > 0 {
		out.MeanRunning, out.MeanWaiting = l.running/l.took, l.waiting/l.took
	}
	return out
}

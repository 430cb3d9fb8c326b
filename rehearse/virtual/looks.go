package virtual

import (
	"time"

	"sweep.dev/sweep/sim/core"
)

// Looks are an engine's own counters over one load, as a scraper of its metrics sees them.
type Looks struct {
	MeanRunning, MeanWaiting float64 // requests, over the time in steps
	MaxKVUsage               float64 // 0 to 1
	Preemptions              int
	// PrefixHits are the prompt tokens found in the prefix cache, of PrefixQueries; both
	// are 0 without one.
	PrefixQueries, PrefixHits int
	// Means of the requests that got a token: in the queue, from the first step to the first
	// token, and from the arrival to it. All are 0 if none did.
	Queue, Prefill, TTFT time.Duration
}

// looks adds them up.
type looks struct {
	before, last     core.Stats
	running, waiting float64 // times seconds
	took             float64 // seconds
	usage            float64

	first                int // tokens that were the first of their request
	queue, prefill, ttft time.Duration
}

// token is one that the engine has made.
func (l *looks) token(o core.Output) {
	if o.N != 1 {
		return
	}
	l.first++
	l.queue += o.Scheduled - o.Arrived
	l.prefill += o.First - o.Scheduled
	l.ttft += o.First - o.Arrived
}

// step is a step that has begun and takes so long.
func (l *looks) step(s core.Stats, d time.Duration) {
	l.took += d.Seconds()
	l.running += float64(s.Running) * d.Seconds()
	l.waiting += float64(s.Waiting) * d.Seconds()
	l.usage = max(l.usage, s.KVUsage)
	l.last = s
}

// Looks are those of the last load.
func (s *Session) Looks() Looks {
	l := &s.looks
	out := Looks{
		MaxKVUsage: l.usage, Preemptions: l.last.Preemptions - l.before.Preemptions,
		PrefixQueries: l.last.PrefixQueries - l.before.PrefixQueries, PrefixHits: l.last.PrefixHits - l.before.PrefixHits,
	}
	if n := time.Duration(l.first); n > 0 {
		out.Queue, out.Prefill, out.TTFT = l.queue/n, l.prefill/n, l.ttft/n
	}
	if l.took > 0 {
		out.MeanRunning, out.MeanWaiting = l.running/l.took, l.waiting/l.took
	}
	return out
}

package plan

import (
	"cmp"
	"slices"
	"time"

	"sweep.dev/sweep/result/timeline"
)

// A Pattern is one of the ways in which the requests of a load go. A load has the
// key of exactly one of them.
type Pattern struct {
	Key   string // of load
	Open  bool   // requests are sent by a schedule, even if earlier ones are still open
	Ends  bool   // the schedule has an end, which ends the trial
	given func(Load) bool
	// length is how long the schedule is and rate the highest of its rates, in
	// requests per second; nil if the plan alone does not say it.
	length func(Load) time.Duration
	rate   func(Load) float64
}

// Patterns lists all patterns. To add one is to add its key to [Load], an entry
// here, and what makes its times: an arrivals.Pace of the measuring client.
func Patterns() []Pattern {
	return []Pattern{
		{
			Key: "concurrency", given: func(l Load) bool { return l.Concurrency > 0 },
		},
		{
			Key: "request_rate", Open: true, given: func(l Load) bool { return l.RequestRate > 0 },
			rate: func(l Load) float64 { return l.RequestRate },
		},
		{
			Key: "stages", Open: true, Ends: true, given: func(l Load) bool { return len(l.Stages) > 0 },
			length: func(l Load) (sum time.Duration) {
				for _, s := range l.Stages {
					sum += s.For + s.Over
				}
				return sum
			},
			rate: func(l Load) float64 {
				return slices.MaxFunc(l.Stages, func(a, b Stage) int { return cmp.Compare(a.Rate, b.Rate) }).Rate
			},
		},
		{
			Key: "trace", Open: true, Ends: true, given: func(l Load) bool { return l.Trace != nil },
		},
	}
}

func (l Load) pattern() Pattern {
	for _, p := range Patterns() {
		if p.given(l) {
			return p
		}
	}
	return Pattern{}
}

// Open reports whether requests are sent by a schedule: an open loop.
func (l Load) Open() bool { return l.pattern().Open }

// Sends returns how long one trial sends, 0 if it ends by its requests alone. known is
// false if that is in a file which a look at the plan does not read.
func (l Load) Sends() (d time.Duration, known bool) {
	p := l.pattern()
	d, known = l.Duration, !p.Ends || p.length != nil
	if p.length != nil && (d == 0 || p.length(l) < d) {
		d = p.length(l)
	}
	return d, known
}

// Holds returns the stages that keep one rate.
func (l Load) Holds() (all []timeline.Hold) {
	var from time.Duration
	for _, s := range l.Stages {
		if s.For > 0 {
			all = append(all, timeline.Hold{From: from, To: from + s.For, Rate: s.Rate})
		}
		from += s.For + s.Over
	}
	return all
}

// PeakRate returns the highest rate of an open loop in requests per second, 0 if the
// plan does not say it.
func (l Load) PeakRate() float64 {
	if p := l.pattern(); p.rate != nil {
		return p.rate(l)
	}
	return 0
}

// Total returns how many requests one trial sends, those in which a closed loop's workers
// begin among them; 0 if they are not counted. What is due in the ramp of an
// open loop comes on top: at most as many again, once the warm-up has told how
// long that is.
func (l Load) Total() int {
	if l.Requests == 0 || l.Open() {
		return l.Requests
	}
	return l.Requests + l.Concurrency*l.StartsOver()
}

// Longer returns a load of so many times as many requests, or as long.
func (l Load) Longer(times int) Load {
	l.Requests, l.RequestsPerWorker = l.Requests*times, l.RequestsPerWorker*times
	l.Duration *= time.Duration(times)
	return l
}

// StartsOver returns over how many of its requests the workers of a closed loop begin, which
// come on top of those that are asked for: over one, or over a whole conversation, so that
// at any time some are at its first turn and some at each other. It is at most half of what
// is asked of a worker: then no start would bring all turns about.
func (l Load) StartsOver() int {
	if l.Conversation == nil || !l.Staggered() {
		return 1
	}
	turns := l.Conversation.Turns
	if l.Requests > 0 {
		turns = min(turns, l.Requests/max(1, 2*l.Concurrency))
	}
	return max(1, turns)
}

// WarmupRequests returns how many requests are sent before a trial, 0 if that is as
// many as the time of the warm-up takes. Where the plan does not say it they are
// two for each worker, so that the server gets its whole batch; an open loop has
// no workers, and begins with two.
func (l Load) WarmupRequests() int {
	switch w := l.Warmup; {
	case w.Requests != nil:
		return *w.Requests
	case w.Duration > 0:
		return 0
	}
	return 2 * max(1, l.Concurrency)
}

// Staggered reports whether the workers of a closed loop begin one after the other.
func (l Load) Staggered() bool { return !l.Open() && l.Start != StartTogether }

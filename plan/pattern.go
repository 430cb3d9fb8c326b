package plan

import (
	"cmp"
	"slices"
	"time"
)

// A pattern is one of the ways in which the requests of a load go. A load has the
// key of exactly one of them.
type pattern struct {
	key   string // of load
	open  bool   // requests are sent by a schedule, whatever became of earlier ones
	ends  bool   // the schedule has an end, which ends the trial
	given func(Load) bool
	// length is how long the schedule is and rate the highest of its rates, in
	// requests per second; nil where the plan alone does not say it.
	length func(Load) time.Duration
	rate   func(Load) float64
}

// patterns lists all patterns. To add one is to add its key to [Load], an entry
// here, and what makes its times: an arrivals.Pace of the measuring client.
func patterns() []pattern {
	return []pattern{
		{
			key: "concurrency", given: func(l Load) bool { return l.Concurrency > 0 },
		},
		{
			key: "request_rate", open: true, given: func(l Load) bool { return l.RequestRate > 0 },
			rate: func(l Load) float64 { return l.RequestRate },
		},
		{
			key: "stages", open: true, ends: true, given: func(l Load) bool { return len(l.Stages) > 0 },
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
			key: "trace", open: true, ends: true, given: func(l Load) bool { return l.Trace != nil },
		},
	}
}

func (l Load) pattern() pattern {
	for _, p := range patterns() {
		if p.given(l) {
			return p
		}
	}
	return pattern{}
}

// Open says whether requests are sent by a schedule: an open loop.
func (l Load) Open() bool { return l.pattern().open }

// Sends is how long one trial sends, 0 if it ends by its requests alone. known is
// false where that is in a file which a look at the plan does not read.
func (l Load) Sends() (d time.Duration, known bool) {
	p := l.pattern()
	d, known = l.Duration, !p.ends || p.length != nil
	if p.length != nil && (d == 0 || p.length(l) < d) {
		d = p.length(l)
	}
	return d, known
}

// PeakRate is the highest rate of an open loop in requests per second, 0 where the
// plan does not say it.
func (l Load) PeakRate() float64 {
	if p := l.pattern(); p.rate != nil {
		return p.rate(l)
	}
	return 0
}

package plan

import (
	"cmp"
	"slices"
	"strings"
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

// checkLoop says what makes requests go: exactly one thing.
func (l *loader) checkLoop(p *Plan) {
	ld := &p.Load
	if ld.Client == ClientAuto {
		ld.Client = ""
	}
	var keys, open, found []string
	for _, way := range patterns() {
		keys = append(keys, way.key)
		if way.open {
			open = append(open, way.key)
		}
		if l.has(l.patternAt(way.key)...) {
			found = append(found, way.key)
		}
	}
	switch {
	case len(found) > 1:
		l.conflict("a closed loop has concurrency; an open loop has "+listed(open, "or a"), l.patternAt(found[len(found)-1]),
			"a load has one of %s, not several", listed(keys, "and"))
	case len(found) == 0 && slices.ContainsFunc(amountAxes(), l.mistyped):
		return
	case len(found) == 0:
		l.missing("the load has neither a concurrency nor a request_rate", "an axis concurrency: [1, 8, 32], or load.concurrency, or request_rate in either place, or load.stages, or load.trace", "load")
		return
	}
	if !l.open(p) || ld.Trace != nil {
		return
	}
	ld.Arrivals = cmp.Or(ld.Arrivals, "poisson")
	if ld.Arrivals == "gamma" && ld.Burstiness == 0 {
		ld.Burstiness = 1
	}
}

// patternAt is where the key of a pattern is given, or would be.
func (l *loader) patternAt(key string) []string {
	if slices.Contains(amountAxes(), key) {
		return l.where(key)
	}
	return path("load", key)
}

// closed and open say what makes requests go; neither holds for a plan that does
// not tell.
func (l *loader) closed(*Plan) bool { return l.goesBy(false) }

func (l *loader) open(p *Plan) bool { return !l.closed(p) && l.goesBy(true) }

func (l *loader) goesBy(open bool) bool {
	return slices.ContainsFunc(patterns(), func(way pattern) bool {
		return way.open == open && l.has(l.patternAt(way.key)...)
	})
}

// listed is names in a sentence: a, b and c.
func listed(names []string, last string) string {
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " " + last + " " + names[n]
	}
	return strings.Join(names, "")
}

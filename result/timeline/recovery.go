package timeline

import (
	"cmp"
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

// A Hold is a part of an open loop that keeps one rate, in offsets from the load's begin.
type Hold struct {
	From, To time.Duration
	Rate     float64 // requests per second
}

// Recovery returns how long after a burst as many requests are in flight as in the mean before it,
// the longest of all bursts of a load. A burst is a rate above that before it, between two holds;
// what comes in the first half of the hold before is not counted in the mean, as the load may not
// have settled. It is known to within the time between two requests, since the begin of the load
// is taken from its first send. ok is false if the load has no burst, or one after which the hold
// ended first.
func Recovery(requests []result.Request, first time.Duration, holds []Hold) (longest time.Duration, ok bool) {
	flight := flightOf(requests)
	for i := 1; i+1 < len(holds); i++ {
		before, burst, after := holds[i-1], holds[i], holds[i+1]
		if burst.Rate <= before.Rate || after.Rate > before.Rate || before.Rate <= 0 {
			continue
		}
		usual := inFlight(requests, first+before.From+(before.To-before.From)/2, first+before.To)
		back, there := flight.down(usual, first+burst.To, first+after.To)
		if !there {
			return 0, false
		}
		longest, ok = max(longest, back-first-burst.To), true
	}
	return longest, ok
}

// inFlight returns the mean number of requests in flight between two moments, from their schedule
// to their end.
func inFlight(requests []result.Request, from, to time.Duration) float64 {
	sum := time.Duration(0)
	for i := range requests {
		if r := &requests[i]; sent(r) {
			sum += max(0, min(r.End, to)-max(r.Scheduled, from))
		}
	}
	return float64(sum) / float64(to-from)
}

// A flight is the moments at which requests begin (1) and end (-1), in their order.
type flight []moment

type moment struct {
	at time.Duration
	by int
}

func flightOf(requests []result.Request) (f flight) {
	for i := range requests {
		if r := &requests[i]; sent(r) {
			f = append(f, moment{r.Scheduled, 1}, moment{max(r.End, r.Scheduled), -1})
		}
	}
	slices.SortStableFunc(f, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return f
}

// down returns when at most so many requests, rounded up, are in flight for the first time between
// two moments.
func (f flight) down(most float64, from, to time.Duration) (at time.Duration, ok bool) {
	n := 0
	for _, m := range f {
		if m.at > from && float64(n) < most+1 {
			return from, from < to
		}
		n, from = n+m.by, max(from, m.at)
	}
	return from, from < to
}

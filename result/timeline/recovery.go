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
	flight := inFlight(requests)
	for i := 1; i+1 < len(holds); i++ {
		before, burst, after := holds[i-1], holds[i], holds[i+1]
		if burst.Rate <= before.Rate || after.Rate > before.Rate || before.Rate <= 0 {
			continue
		}
		usual := flight.mean(first+before.From+(before.To-before.From)/2, first+before.To)
		back, there := flight.down(usual, first+burst.To, first+after.To)
		if !there {
			return 0, false
		}
		longest, ok = max(longest, back-first-burst.To), true
	}
	return longest, ok
}

// A flight is how many requests are in flight from each of some moments on, in their order.
type flight []moment

type moment struct {
	at time.Duration
	n  int
}

// inFlight counts requests from their schedule to their end. One that was given up counts until then.
func inFlight(requests []result.Request) flight {
	var f flight
	for i := range requests {
		if r := &requests[i]; r.Measured() && r.Sent != result.Never {
			f = append(f, moment{r.Scheduled, 1}, moment{max(r.End, r.Scheduled), -1})
		}
	}
	slices.SortStableFunc(f, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	n := 0
	for i := range f {
		n += f[i].n
		f[i].n = n
	}
	return f
}

// mean returns the mean number in flight between two moments.
func (f flight) mean(from, to time.Duration) float64 {
	sum := 0.0
	f.each(from, to, func(_ time.Duration, n int, d time.Duration) bool {
		sum += float64(n) * d.Seconds()
		return true
	})
	return sum / (to - from).Seconds()
}

// down returns when at most n, rounded up, are in flight for the first time between two moments.
func (f flight) down(n float64, from, to time.Duration) (at time.Duration, ok bool) {
	f.each(from, to, func(begin time.Duration, m int, _ time.Duration) bool {
		at, ok = begin, float64(m) < n+1
		return !ok
	})
	return at, ok
}

// each calls yield with each part between two moments, with how many are in flight and how long.
func (f flight) each(from, to time.Duration, yield func(begin time.Duration, n int, d time.Duration) bool) {
	n, begin := 0, from
	for _, one := range f {
		if end := min(one.at, to); end > begin {
			if !yield(begin, n, end-begin) {
				return
			}
			begin = end
		}
		if one.at >= to {
			return
		}
		n = one.n
	}
	if to > begin {
		yield(begin, n, to-begin)
	}
}

package stopping

import (
	"math"
	"slices"
	"time"
)

// When an open loop's server cannot follow, requests in flight and TTFT rise
// without end. Both also rise while a load settles, and wander in a server that
// is merely busy; so a rise counts only where all of this is so:
//
//   - both series, in slices of time, have a trend by the test of Mann and
//     Kendall (Mann, Econometrica 13, 1945), which asks for no distribution;
//   - what came and did not end is at least minExcess of what was sent;
//   - and it is more than chance gives a server at its limit. There, what is in
//     flight is a random walk, which after n Poisson arrivals and as many ends
//     has a standard deviation of sqrt(2 n); below its limit it wanders less.
const (
	slicesOf  = 12   // Mann and Kendall's S is then 66 at most, and normal enough
	trend     = 2.58 // its standard score: 1 in 200 by chance, for each series
	minSent   = 60   // requests in the slices
	minExcess = 0.05
	walk      = 2.33 // standard deviations of the random walk: 1 in 100
)

// A backlog is what came and did not end.
type backlog struct {
	looks  []flight
	ends   []ended
	settle time.Duration // from when on it is looked at; 0: not known yet
	next   time.Duration
}

type flight struct {
	at             time.Duration
	sent, inFlight int
}

type ended struct{ at, ttft time.Duration }

// A rise is a load that its server cannot follow.
type rise struct {
	sent     int
	flight   float64
	from, to time.Duration // TTFT
	rate     float64       // requests sent per second
}

func (b *backlog) end(at, ttft time.Duration) {
	b.ends = append(b.ends, ended{at, ttft})
	if b.settle == 0 && len(b.looks) > 0 {
		// The first requests to end have filled the server: before that,
		// everything rises.
		b.settle = b.looks[0].at + 2*(at-b.looks[0].at)
	}
}

func (b *backlog) look(at time.Duration, sent, inFlight int) (rise, bool) {
	b.looks = append(b.looks, flight{at, sent, inFlight})
	if at < b.next {
		return rise{}, false
	}
	looks := b.settled()
	if len(looks) == 0 || sent-looks[0].sent < minSent {
		return rise{}, false
	}
	from := looks[0].at
	b.next = from + time.Duration(growth*float64(at-from))
	return b.rising(looks)
}

// settled are the looks after the load's first moments; nil where they are too
// few.
func (b *backlog) settled() []flight {
	first := slices.IndexFunc(b.looks, func(f flight) bool { return f.at >= b.settle })
	if b.settle == 0 || first < 0 || len(b.looks)-first < 2*slicesOf {
		return nil
	}
	return b.looks[first:]
}

// growing says whether what is in flight goes up: less than a rise, which is a
// verdict, and enough to go on looking.
func (b *backlog) growing() bool {
	looks := b.settled()
	if len(looks) == 0 {
		return false
	}
	from, to := looks[0], looks[len(looks)-1]
	flights := means(inFlight(looks))
	more := flights[len(flights)-1] - flights[0]
	return more > minExcess*float64(to.sent-from.sent) && mannKendall(flights) > trend
}

// inFlight is what was in flight, by slices of time.
func inFlight(looks []flight) (parts [slicesOf][]float64) {
	from, to := looks[0].at, looks[len(looks)-1].at
	for _, l := range looks {
		i := sliceOf(l.at, from, to)
		parts[i] = append(parts[i], float64(l.inFlight))
	}
	return parts
}

func sliceOf(at, from, to time.Duration) int {
	return min(int(slicesOf*float64(at-from)/float64(max(1, to-from))), slicesOf-1)
}

func (b *backlog) rising(looks []flight) (rise, bool) {
	from, to := looks[0], looks[len(looks)-1]
	var ttft [slicesOf][]float64
	for _, e := range b.ends {
		if e.at >= from.at && e.at <= to.at {
			i := sliceOf(e.at, from.at, to.at)
			ttft[i] = append(ttft[i], float64(e.ttft))
		}
	}
	flights, waits := means(inFlight(looks)), means(ttft)
	if len(flights) < slicesOf || len(waits) < slicesOf-2 {
		return rise{}, false
	}
	r := rise{
		sent: to.sent - from.sent, rate: float64(to.sent-from.sent) / (to.at - from.at).Seconds(),
		// Means of slices are one slice apart from end to end.
		flight: (flights[slicesOf-1] - flights[0]) * slicesOf / (slicesOf - 1),
		from:   time.Duration(waits[0]), to: time.Duration(waits[len(waits)-1]),
	}
	n := float64(r.sent)
	return r, r.flight > minExcess*n && r.flight > walk*math.Sqrt(2*n) && mannKendall(flights) > trend && mannKendall(waits) > trend
}

// means leaves out slices in which there was nothing.
func means(parts [slicesOf][]float64) []float64 {
	var out []float64
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		sum := 0.0
		for _, v := range p {
			sum += v
		}
		out = append(out, sum/float64(len(p)))
	}
	return out
}

// mannKendall is the standard score of the test for a trend: positive where the
// series rises. Ties lessen its variance.
func mannKendall(v []float64) float64 {
	s := 0
	for i := range v {
		for _, later := range v[i+1:] {
			switch {
			case later > v[i]:
				s++
			case later < v[i]:
				s--
			}
		}
	}
	n := float64(len(v))
	variance := n * (n - 1) * (2*n + 5)
	sorted := slices.Sorted(slices.Values(v))
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5)
		i = j
	}
	switch {
	case s == 0 || variance <= 0:
		return 0
	case s > 0:
		return float64(s-1) / math.Sqrt(variance/18)
	}
	return float64(s+1) / math.Sqrt(variance/18)
}

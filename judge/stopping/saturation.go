package stopping

import (
	"math"
	"slices"
	"time"

	"github.com/aclements/go-moremath/stats"
)

// When an open loop's server cannot follow, what is due and has not ended, and
// TTFT, rise without end. Both also rise while a load settles or while its rate is
// raised, and wander in a server that is merely busy; so a rise counts only where
// all of this is so:
//
//   - the load keeps one rate, and what comes does not rise itself;
//   - both series, in slices of time, have a trend by the test of Mann and
//     Kendall (Mann, Econometrica 13, 1945), which asks for no distribution;
//   - while it had a backlog the server ended less than the load has due on average, by
//     minExcess at least. How arrivals come in bursts does not matter to that: a backlog
//     that a burst made is worked off at a rate above the average;
//   - and by more than chance gives a server whose capacity is that average. It ends
//     n requests in a time with a standard deviation of sqrt(n).
//
// If the due times are not known, the requests that came and did not end are compared with
// the same bounds, with a standard deviation of sqrt(2 n): arrivals are then taken for
// Poisson.
const (
	slicesOf  = 12   // Mann and Kendall's S is then 66 at most, and normal enough
	trend     = 2.58 // its standard score: 1 in 200 by chance, for each series
	minSent   = 60   // requests in the slices
	minExcess = 0.05
	walk      = 2.7 // standard deviations: 1 in 290
	low       = 0.1 // of the backlog: above it the server has work
)

// growth is by what the backlog's time is longer when it is looked at again.
const growth = 1.2

// A backlog is what was due and has not ended.
type backlog struct {
	due   []time.Duration // nil: what was sent was due
	holds []Hold          // nil: it is not known whether the rate is always the same
	start time.Duration   // of the load

	came  int      // of due, at the last look
	hold  int      // of holds, that was looked at last
	looks []flight // of the hold
	ends  []ended
	took  time.Duration // the first request to end; 0: none has
	next  time.Duration
}

type flight struct {
	at        time.Duration
	came, due int // requests that were due until then, and that have not ended
}

type ended struct{ at, ttft time.Duration }

// A rise is a load that its server cannot follow.
type rise struct {
	came     int
	flight   float64
	from, to time.Duration // TTFT
	rate     float64       // requests due per second
}

func (b *backlog) end(at, ttft time.Duration) {
	b.ends = append(b.ends, ended{at, ttft})
	if b.took == 0 && len(b.looks) > 0 {
		b.took = max(1, at-b.looks[0].at)
	}
}

func (b *backlog) look(at time.Duration, sent, inFlight int) (rise, bool) {
	f := flight{at, sent, inFlight}
	if b.due != nil {
		for b.came < len(b.due) && b.due[b.came] <= at-b.start {
			b.came++
		}
		f.came = max(sent, b.came)
		f.due += f.came - sent
	}
	if !b.enter(at) {
		b.looks, b.next = nil, 0
		return rise{}, false
	}
	b.looks = append(b.looks, f)
	if at < b.next {
		return rise{}, false
	}
	looks := b.settled()
	if len(looks) == 0 || f.came-looks[0].came < minSent {
		return rise{}, false
	}
	from := looks[0].at
	b.next = from + time.Duration(growth*float64(at-from))
	return b.rising(looks)
}

// enter reports whether the load keeps its rate at a moment. Each hold is looked at by
// itself.
func (b *backlog) enter(at time.Duration) bool {
	if b.holds == nil {
		return true
	}
	at -= b.start
	i := slices.IndexFunc(b.holds, func(h Hold) bool { return at >= h.From && (at < h.To || h.To == 0) })
	if i != b.hold {
		b.hold, b.looks, b.next = i, nil, 0
	}
	return i >= 0
}

// settled returns the looks after the load's, or the hold's, first moments: the first
// requests to end have filled the server, and before that everything rises. nil if
// they are too few.
func (b *backlog) settled() []flight {
	if b.took == 0 || len(b.looks) == 0 {
		return nil
	}
	from := b.looks[0].at + 2*b.took
	first := slices.IndexFunc(b.looks, func(f flight) bool { return f.at >= from })
	if first < 0 || len(b.looks)-first < 2*slicesOf {
		return nil
	}
	return b.looks[first:]
}

// growing reports whether the backlog goes up: less than a rise, which is a verdict,
// and enough to go on looking.
func (b *backlog) growing() bool {
	looks := b.settled()
	if len(looks) == 0 {
		return false
	}
	from, to := looks[0], looks[len(looks)-1]
	flights := means(sliced(looks, func(f flight) float64 { return float64(f.due) }))
	more := flights[len(flights)-1] - flights[0]
	return more > minExcess*float64(to.came-from.came) && mannKendall(flights) > trend
}

// sliced returns a figure of looks, by slices of time.
func sliced(looks []flight, figure func(flight) float64) (parts [slicesOf][]float64) {
	from, to := looks[0].at, looks[len(looks)-1].at
	for _, l := range looks {
		i := sliceOf(l.at, from, to)
		parts[i] = append(parts[i], figure(l))
	}
	return parts
}

func sliceOf(at, from, to time.Duration) int {
	return min(int(slicesOf*float64(at-from)/float64(max(1, to-from))), slicesOf-1)
}

// rising reports whether the backlog of looks is more than a server makes that follows.
func (b *backlog) rising(looks []flight) (rise, bool) {
	from, to := looks[0], looks[len(looks)-1]
	var ttft [slicesOf][]float64
	for _, e := range b.ends {
		if e.at >= from.at && e.at <= to.at {
			i := sliceOf(e.at, from.at, to.at)
			ttft[i] = append(ttft[i], float64(e.ttft))
		}
	}
	flights, waits := means(sliced(looks, func(f flight) float64 { return float64(f.due) })), means(ttft)
	if len(flights) < slicesOf || len(waits) < slicesOf-2 {
		return rise{}, false
	}
	r := rise{
		came: to.came - from.came, rate: float64(to.came-from.came) / (to.at - from.at).Seconds(),
		// Means of slices are one slice apart from end to end.
		flight: (flights[slicesOf-1] - flights[0]) * slicesOf / (slicesOf - 1),
		from:   time.Duration(waits[0]), to: time.Duration(waits[len(waits)-1]),
	}
	if mannKendall(flights) <= trend || mannKendall(waits) <= trend || b.comingFaster(looks) {
		return r, false
	}
	if b.due != nil {
		return r, b.short(looks, flights[slicesOf-1])
	}
	n := float64(r.came)
	return r, r.flight > minExcess*n && r.flight > walk*math.Sqrt(2*n)
}

// short reports whether a server that had work all the time certainly ended fewer requests
// than the load has due on average: since its backlog was last below a share of what it is
// now.
func (b *backlog) short(looks []flight, backlog float64) bool {
	from, to := looks[0], looks[len(looks)-1]
	for _, l := range looks {
		if float64(l.due) <= low*backlog {
			from = l
		}
	}
	due := b.rate() * (to.at - from.at).Seconds()
	less := due - float64(to.came-to.due) + float64(from.came-from.due)
	return due >= minSent && less > minExcess*due && less > walk*math.Sqrt(due)
}

// rate returns how many requests a second are due in the hold, or in the load.
func (b *backlog) rate() float64 {
	var h Hold
	if b.holds != nil {
		h = b.holds[b.hold]
	}
	first, _ := slices.BinarySearch(b.due, h.From)
	last := len(b.due)
	if h.To > 0 {
		last, _ = slices.BinarySearch(b.due, h.To)
	}
	if last-first < 2 {
		return 0
	}
	length := b.due[last-1] - b.due[first]
	if h.To > 0 {
		length = h.To - h.From
	}
	if length <= 0 {
		return 0
	}
	return float64(last-first) / length.Seconds()
}

// comingFaster reports whether what comes rises by itself, where it is not known to
// keep its rate.
func (b *backlog) comingFaster(looks []flight) bool {
	if b.holds != nil {
		return false
	}
	var counts [slicesOf]float64
	for i, l := range looks[1:] {
		counts[sliceOf(l.at, looks[0].at, looks[len(looks)-1].at)] += float64(l.came - looks[i].came)
	}
	return mannKendall(counts[:]) > 1.96 // 1 in 40 of steady ones
}

// means leaves out slices in which there was nothing.
func means(parts [slicesOf][]float64) []float64 {
	var out []float64
	for _, p := range parts {
		if len(p) > 0 {
			out = append(out, stats.Mean(p))
		}
	}
	return out
}

// mannKendall returns the standard score of the test for a trend: positive where the
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

package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// settle leaves out the beginning of the plateau in which the load had not
// settled, and says where that cannot be known.
func (s *Span) settle(requests []result.Request, firsts map[int]bool, slots int) {
	course := sampleOf(requests)
	if course.typical == 0 {
		return // nothing was completed
	}
	if !s.Steady {
		s.unsettled(course, slots, course.late+max(course.late, course.per(enough)),
			"there was no plateau: the load was sent for %s, and requests took up to %s", short(course.sends()), short(course.late))
		return
	}
	var on []*result.Request
	for i := range requests {
		if r := &requests[i]; sent(r) && !firsts[i] && r.Sent >= s.From && r.Sent <= s.To && r.Status == result.Completed {
			on = append(on, r)
		}
	}
	slices.SortStableFunc(on, func(a, b *result.Request) int { return cmp.Compare(a.Sent, b.Sent) })
	ramp := s.From - s.First
	if n := len(on); n < enough {
		s.unsettled(course, slots, ramp+time.Duration(float64(s.Length())*enough/float64(max(1, n))),
			"%d completed requests on the plateau are too few to see whether the load had settled (%d are needed)", n, enough)
		return
	}
	least, moving := time.Duration(0), ""
	slowest, longer, alike := "", 0.0, 0.0
	for _, series := range []struct {
		name string
		of   func(*result.Request) time.Duration
	}{
		{"time to first token", func(r *result.Request) time.Duration { return r.FirstToken - begin(r, slots == 0) }},
		{"end-to-end latency", func(r *result.Request) time.Duration { return Done(r) - begin(r, slots == 0) }},
	} {
		var values []float64
		var at []time.Duration
		for _, r := range on {
			if v := series.of(r); v >= 0 {
				values, at = append(values, float64(v)), append(at, r.Sent)
			}
		}
		if len(values) < enough {
			continue // it was not streamed
		}
		cut, still := truncation(values, slots)
		if least = max(least, at[cut]); still && moving == "" {
			moving = series.name
		}
		// In a closed loop, neighbours are of one round of the slots, and alike for that.
		if times, r := wandering(values); slots == 0 && times > longer {
			slowest, longer, alike = series.name, times, r
		}
	}
	whole := s.Length()
	s.From = max(s.From, least)
	switch {
	case moving != "":
		s.unsettled(course, slots, ramp+2*whole, "the %s had not settled by the middle of the plateau", moving)
	case slowest != "":
		s.unsettled(course, slots, ramp+time.Duration(max(2, longer)*float64(whole)),
			"the %s wanders too slowly for a plateau of %s: neighbouring fortieths of it have a correlation of %.2f, at most %.1f is steady", slowest, short(whole), alike, alikeAt)
	}
}

func (s *Span) unsettled(c sample, slots int, enough time.Duration, format string, args ...any) {
	s.Unsettled, s.Enough = fmt.Sprintf(format, args...), enough
	if c.requests > 1 && c.sends() > 0 {
		rate := float64(c.requests-1) / float64(c.sends())
		s.EnoughRequests = max(1, int(math.Ceil(rate*float64(enough)))-slots)
	}
}

// Findings say that it is not known whether the load had settled, and how long it
// would have to be.
func (s Span) Findings() []result.Finding {
	if s.Unsettled == "" {
		return nil
	}
	text := fmt.Sprintf("%s; send for %s at least", s.Unsettled, short(s.Enough))
	if s.EnoughRequests > 0 {
		text += fmt.Sprintf(", or %d requests", s.EnoughRequests)
	}
	return []result.Finding{{Code: finding.SteadinessUnknown, Text: text}}
}

// A sample has the figures of a trial from which its least length follows.
type sample struct {
	requests      int // that were sent
	first, last   time.Duration
	typical, late time.Duration // median and 95th percentile of the end-to-end latency
}

func sampleOf(requests []result.Request) sample {
	var c sample
	var took []int64
	for i := range requests {
		r := &requests[i]
		if !sent(r) {
			continue
		}
		if c.requests++; c.requests == 1 {
			c.first = r.Sent
		}
		c.first, c.last = min(c.first, r.Sent), max(c.last, r.Sent)
		if r.Status == result.Completed {
			took = append(took, int64(Done(r)-r.Sent))
		}
	}
	if slices.Sort(took); len(took) > 0 {
		c.typical, c.late = time.Duration(result.Quantile(took, .5)), time.Duration(result.Quantile(took, settled))
	}
	return c
}

// sends returns how long it was sent.
func (c sample) sends() time.Duration { return c.last - c.first }

// per returns how long so many requests take to be sent.
func (c sample) per(n int) time.Duration {
	return time.Duration(float64(n) * float64(c.sends()) / float64(max(1, c.requests-1)))
}

func short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

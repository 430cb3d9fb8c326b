// Package stopping says when a load has told enough: a figure is known as well
// as the plan asks, more requests fail than it allows, or the server cannot
// follow. It has no clock: it is fed with requests as they end and with what is
// in flight, and says the same of the same load again.
package stopping

import (
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/result"
)

// What ended a load: the values of the column ended_by.
const (
	Requests  = "requests"   // all that the plan asks for were sent
	Duration  = "duration"   // its time was over
	Precise   = "precision"  // the interval of confidence is as narrow as asked
	Failing   = "error_rate" // more requests failed than allowed
	Saturated = "saturated"  // requests come faster than the server ends them
	Refused   = "refused"    // every answer is an error that comes at once
	Full      = "records"    // the records of its requests take all the memory they may
)

// Config is what may end a load before its cap. The zero value is nothing.
type Config struct {
	// Until is nil where no precision is asked for.
	Until *Precision
	// ErrorRate is the share of failed requests above which the load ends; 0:
	// none.
	ErrorRate float64
	// Saturated says that an open loop ends where its server cannot follow.
	Saturated bool
	// Open says that latencies start when a request was scheduled.
	Open bool
}

// A Decision is why a load is to end.
type Decision struct {
	By   string
	Text string
	// Cancel says that what is in flight is not worth waiting for.
	Cancel bool
}

// A Rule watches one load. It keeps 32 bytes a request. It is for one goroutine.
type Rule struct {
	cfg       Config
	precision *precision
	failures  failures
	refusals  int // in a row
	backlog   backlog
	over      *Decision
}

// New returns the rule of one load.
func New(c Config) *Rule {
	r := &Rule{cfg: c}
	if c.Until != nil {
		r.precision = newPrecision(*c.Until, c.Open)
	}
	return r
}

// End takes a measured request that has ended, in the order of their ends.
func (r *Rule) End(q *result.Request) {
	if r.over != nil || !q.Measured() || q.Status == result.Cancelled {
		return
	}
	if r.refused(q) {
		r.end(Refused, true, "the last %d answers were errors that came within %s each, the last of them %s: %s: the server refuses this load at once; look at its log and its limits, then run the cell again",
			refusedRow, refusedWithin, q.ErrorClass, q.Error)
		return
	}
	if r.cfg.ErrorRate > 0 {
		if failed, of, over := r.failures.add(q.Status == result.Failed, r.cfg.ErrorRate); over {
			r.end(Failing, true, "%d of the last %d requests failed (stop.error_rate %.4g %%)", failed, of, 100*r.cfg.ErrorRate)
			return
		}
	}
	if q.Status != result.Completed {
		return
	}
	if r.watched() && q.FirstToken >= 0 {
		r.backlog.end(q.End, q.FirstToken-q.Scheduled)
	}
	if r.precision != nil {
		if half, mean, ok := r.precision.add(q); ok && !r.backlog.growing() {
			u := r.cfg.Until
			r.end(Precise, false, "after %d requests the mean %s is %.4g, within %.2g %% at a confidence of %.4g %%",
				r.precision.n(), u.Metric, mean, 100*half/mean, 100*u.Confidence)
		}
	}
}

// InFlight takes how many requests have been sent and are in flight at a
// moment, a few times a second.
func (r *Rule) InFlight(at time.Duration, sent, inFlight int) {
	if r.over != nil || !r.watched() {
		return
	}
	if rise, ok := r.backlog.look(at, sent, inFlight); ok && r.cfg.Saturated {
		r.end(Saturated, true, "of the last %d requests sent %.0f more came than ended, and TTFT went from %s to %s: the server cannot follow %.4g requests/s",
			rise.sent, rise.flight, rise.from.Round(time.Millisecond), rise.to.Round(time.Millisecond), rise.rate)
	}
}

// watched says whether it matters what is in flight. A queue that grows has no
// steady state, and a figure no mean, whether or not that is to end the load.
func (r *Rule) watched() bool { return r.cfg.Saturated || r.cfg.Open && r.cfg.Until != nil }

// Over is why the load is to end, and whether it is.
func (r *Rule) Over() (Decision, bool) {
	if r.over == nil {
		return Decision{}, false
	}
	return *r.over, true
}

func (r *Rule) end(by string, cancel bool, format string, args ...any) {
	r.over = &Decision{By: by, Text: fmt.Sprintf(format, args...), Cancel: cancel}
}

// A load ends once so many answers in a row were errors that came so soon: more of
// them would measure how fast a server refuses. It is so for every plan.
const (
	refusedRow    = 50
	refusedWithin = 100 * time.Millisecond
)

func (r *Rule) refused(q *result.Request) bool {
	if q.Status != result.Failed || q.Sent < 0 || q.End-q.Sent > refusedWithin {
		r.refusals = 0
		return false
	}
	r.refusals++
	return r.refusals >= refusedRow
}

// Fill ends the load because no more requests can be kept; what is in flight
// goes on to its end. text says how much they take.
func (r *Rule) Fill(text string) {
	if r.over == nil {
		r.end(Full, false, "%s", text)
	}
}

// The window of the error rate: the last requests, once there are enough that a
// bad start is no verdict.
const (
	failureWindow = 50
	failureMin    = 20
)

// failures are the ends of the last requests.
type failures struct {
	ring   [failureWindow]bool
	n      int // seen
	failed int // in the ring
}

func (f *failures) add(failed bool, limit float64) (count, of int, over bool) {
	i := f.n % failureWindow
	if f.ring[i] {
		f.failed--
	}
	if f.ring[i] = failed; failed {
		f.failed++
	}
	f.n++
	of = min(f.n, failureWindow)
	return f.failed, of, of >= failureMin && float64(f.failed) > limit*float64(of)
}

// growth is by what a series is longer when it is looked at again. Each look is
// one more chance to stop on a lucky moment; at growing intervals there are few.
const growth = 1.2

// normal is the quantile of the standard normal distribution.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

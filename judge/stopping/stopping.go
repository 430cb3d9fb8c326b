// Package stopping says when a load has told enough: a figure is known as well
// as the plan asks, more requests fail than it allows, or the server cannot
// follow. It has no clock: it is fed with requests as they end and with what is
// in flight, and says the same of the same load again.
package stopping

import (
	"fmt"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// Reasons why a load ended: the values of the column ended_by.
const (
	Requests  = "requests"   // all that the plan asks for were sent
	Duration  = "duration"   // its time was over
	Precise   = "precision"  // the interval of confidence is as narrow as asked
	Decided   = "objectives" // each objective passes or fails
	Failing   = "error_rate" // more requests failed than allowed
	Saturated = "saturated"  // requests come faster than the server ends them
	Refused   = "refused"    // every answer is an error that comes at once
	Full      = "records"    // the records of its requests take all the memory they may
)

// Config is what may end a load before its cap. The zero value is nothing.
type Config struct {
	// Until is nil if no precision is asked for.
	Until *Precision
	// Objectives are decided by the load's requests; nil if that does not end it.
	Objectives *objective.Watch
	// ErrorRate is the share of failed requests above which the load ends; 0:
	// none.
	ErrorRate float64
	// Saturated says that an open loop ends where its server cannot follow.
	Saturated bool
	// Open says that latencies start when a request was scheduled.
	Open bool
	// Due is when the requests of an open loop are due, in order, from its start on.
	// Without it what was sent is what was due.
	Due []time.Duration
	// Holds are the times from its start in which an open loop keeps one rate: only
	// they show whether a server follows. Without them that is not known, and the
	// requests that came are judged.
	Holds []Hold
}

// A Hold is a time in which a load keeps its rate; To is 0 if it has no end.
type Hold struct{ From, To time.Duration }

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
	precision estimate
	decided   decided
	most      int // in flight at once
	failures  failures
	refusals  int // in a row
	backlog   backlog
	over      *Decision
}

// New returns the rule of one load.
func New(c Config) *Rule {
	r := &Rule{cfg: c, failures: newFailures(c.ErrorRate), backlog: backlog{due: c.Due, holds: c.Holds}}
	if c.Until != nil {
		r.precision = newEstimate(*c.Until, c.Open)
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
	if len(r.failures.sums) > 0 {
		if failed, of, over := r.failures.add(q.Status == result.Failed); over {
			r.end(Failing, true, "%d of the last %d requests failed (stop.error_rate %.4g %%)", failed, of, 100*r.cfg.ErrorRate)
			return
		}
	}
	if q.Phase != result.Ramp && r.cfg.Objectives != nil {
		r.cfg.Objectives.Add(q)
		if text, ok := r.decided.look(r.cfg.Objectives, perFlight*r.most); ok && !r.backlog.growing() {
			r.end(Decided, false, "%s", text)
			return
		}
	}
	if q.Status != result.Completed {
		if r.precision != nil && q.Phase != result.Ramp {
			r.precision.lose()
		}
		return
	}
	if r.watched() && q.FirstToken >= 0 {
		r.backlog.end(q.End, q.FirstToken-q.Scheduled)
	}
	if r.precision != nil && q.Phase != result.Ramp {
		if value, ok := r.precision.add(q, r.most); ok && !r.backlog.growing() {
			u := r.cfg.Until
			r.end(Precise, false, "after %d requests the %s is %.4g, within %.2g %% at a confidence of %.4g %%",
				r.precision.n(), r.precision.what(), value, 100*u.Within, 100*u.Confidence)
		}
	}
}

// Start says when, from the trial's anchor, the load begins: [Config.Due] and
// [Config.Holds] count from it. Without it they count from the anchor.
func (r *Rule) Start(at time.Duration) { r.backlog.start = at }

// InFlight takes how many requests have been sent and are in flight at a
// moment, a few times a second.
func (r *Rule) InFlight(at time.Duration, sent, inFlight int) {
	if r.over != nil {
		return
	}
	r.most = max(r.most, inFlight)
	if !r.watched() {
		return
	}
	if rise, ok := r.backlog.look(at, sent, inFlight); ok && r.cfg.Saturated {
		r.end(Saturated, true, "of the last %d requests %.0f more came than ended, and TTFT went from %s to %s: the server cannot follow %.4g requests/s",
			rise.came, rise.flight, rise.from.Round(time.Millisecond), rise.to.Round(time.Millisecond), rise.rate)
	}
}

// watched reports whether it matters what is in flight. A queue that grows has no
// steady state, and a figure no mean, whether or not that is to end the load.
func (r *Rule) watched() bool { return r.cfg.Saturated || r.cfg.Open && r.cfg.Until != nil }

// Over returns why the load is to end, and whether it is.
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

// A load fails once it is far likelier that its requests fail at one of these
// multiples of the limit than at the limit, since some moment: Page's cumulative sum
// (Continuous inspection schemes, Biometrika 41, 1954) of the logarithms of that
// ratio, which has forgotten all before that moment. A server that stays at the
// limit is stopped in 1 to 3 % of loads of 1,000 requests, at 60 % of it in 0.2 %.
var suspected = []float64{1.4, 2, 4}

const (
	failureEvidence = 9  // logarithm of the ratio
	failureMin      = 10 // requests before which a bad start is no verdict
)

// failures are the cumulative sums of a limit, one for each suspected rate.
type failures struct {
	sums []cumulative
	n    int // seen
}

type cumulative struct {
	failed, ended float64 // what each adds
	sum           float64
	count, of     int // failed and ended since the sum was last 0
}

// newFailures returns the sums of a limit: its multiples, and half of what is above it.
func newFailures(limit float64) failures {
	var f failures
	if limit <= 0 {
		return f
	}
	half := (1 + limit) / 2
	for _, m := range append(slices.Clone(suspected), half/limit) {
		rate := min(m*limit, half)
		f.sums = append(f.sums, cumulative{failed: math.Log(rate / limit), ended: math.Log((1 - rate) / (1 - limit))})
	}
	return f
}

// add takes the end of a request. When the load fails it says how many of its last
// ones failed.
func (f *failures) add(failed bool) (count, of int, over bool) {
	f.n++
	for i := range f.sums {
		c := &f.sums[i]
		c.of++
		if failed {
			c.sum += c.failed
			c.count++
		} else {
			c.sum += c.ended
		}
		switch {
		case c.sum <= 0:
			c.sum, c.count, c.of = 0, 0, 0
		case c.sum >= failureEvidence && f.n >= failureMin:
			return c.count, c.of, true
		}
	}
	return 0, 0, false
}

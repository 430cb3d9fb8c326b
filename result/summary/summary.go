// Package summary makes the figures of a trial from its requests.
package summary

import (
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
)

// Options say how a trial's requests are to be read.
type Options struct {
	// Open says that the load was an open loop: every latency starts when the
	// request was scheduled, so that a client or server that falls behind
	// cannot hide it. In a closed loop it starts at the send.
	Open    bool
	Goodput *Goodput // nil if the plan has none
	// Span is the course of the trial, from timeline.Assign, which has set the
	// phases of the requests too. Without a plateau there are no figures of one.
	Span timeline.Span
	// Drifts are the trends on the plateau, from timeline.DriftOf. The zero value makes
	// no columns of them.
	Drifts timeline.Drifts
	// EndedEarly says that the load was ended because of what was measured (too
	// many errors, saturation): what we gave up then counts as infinite if
	// failures do.
	EndedEarly bool
	Shift      *Shift // nil for the figures as they were measured
}

// Goodput is the bounds that a good request keeps, in milliseconds; 0 is none.
type Goodput struct {
	TTFT float64
	TPOT float64
	E2E  float64
}

// Of makes the load, latency and probe columns of a trial from its requests,
// low_confidence included. It looks at nothing else, and changes nothing.
//
// The warm-up does not count, and the probe on its own. Figures without a suffix are
// of the plateau: the latencies of the requests that were sent on it, a failed one
// as infinite, and the rates of what arrived or was completed within it. With _whole
// they are of the whole trial, from the first send to the last byte of any request,
// and with _completed of the plateau, both with the latencies of completed requests
// alone. Counts are of the whole trial. schedule_lag is of all that were sent.
// Tokens are those of the completed requests: what a failed or cancelled one
// delivered was of no use to anybody. Percentiles are exact, from all samples, and
// std is the population's, as in numpy. What was not measured is nil, and what is
// infinite is nil and named in the column infinite.
func Of(requests []result.Request, o Options) (result.Row, []result.Finding) {
	s := summary{row: result.Row{}, opts: o, finished: finishes(), low: map[string]bool{}, infinite: map[string]bool{}}
	for i := range requests {
		switch r := &requests[i]; {
		case r.Phase == result.Probe:
			s.probe.add(r, o)
		case r.Measured():
			s.count(r)
		}
	}
	s.rates()
	s.prompts.columns(s.row)
	s.steady(requests)
	s.latencies()
	s.probes()
	s.row[col.LowConfidence], s.row[col.Infinite] = s.lowConfidence(), named(s.infinite)
	return s.row, s.findings
}

// A summary is one in the making.
type summary struct {
	row      result.Row
	opts     Options
	low      map[string]bool // percentile columns with too few requests
	infinite map[string]bool // columns
	findings []result.Finding

	requests, completed, failed, cancelled, planned int

	finished map[string]int64 // completed requests by the column of their finish_reason

	paused time.Duration // of slots, after requests that failed

	first, last   time.Duration // first send, last byte
	lastSend      time.Duration
	sends         int
	byted         bool // whether there was a byte
	input, output tally
	prompts       prompts
	assumed       int // completed requests whose tokens are counted as chunks

	good, goodOnPlateau int
	judged, goodOfThem  int  // requests sent on the plateau
	goodUnknown         bool // a completed request could not be held against the bounds

	all, plateau, probe samples
}

// finishes returns the columns that count completed requests by their finish_reason.
func finishes() map[string]int64 {
	return map[string]int64{col.FinishStop: 0, col.FinishLength: 0, col.FinishToolCalls: 0, col.FinishContentFilter: 0, col.FinishOther: 0}
}

// A tally is a sum that is worth nothing once a part of it is unknown.
type tally struct {
	sum     int64
	unknown bool
}

func (t *tally) add(n int) {
	if n < 0 {
		t.unknown = true
		return
	}
	t.sum += int64(n)
}

// count takes one measured request in.
func (s *summary) count(r *result.Request) {
	s.paused += pause(r)
	if !s.opts.Open && r.Sent < 0 && r.Status == result.Cancelled {
		return // its slot still waited when the load ended, so it was not sent
	}
	s.requests++
	if r.Sent >= 0 {
		if s.sends == 0 || r.Sent < s.first {
			s.first = r.Sent
		}
		s.sends++
		s.lastSend = max(s.lastSend, r.Sent)
	}
	if b := timeline.LastByte(r); b >= 0 {
		s.last, s.byted = max(s.last, b), true
	}
	s.all.add(r, s.opts)
	if r.Phase == result.Plateau && s.opts.Span.Steady {
		s.plateau.add(r, s.opts)
		if s.opts.Lost(r) {
			s.plateau.lost = append(s.plateau.lost, r)
			s.judged++
		}
	}
	switch r.Status {
	case result.Failed:
		s.failed++
		return
	case result.Cancelled:
		s.cancelled++
		if r.Planned {
			s.planned++
		}
		return
	}
	s.completed++
	column := "finish_" + r.FinishReason
	if _, ok := s.finished[column]; !ok {
		column = col.FinishOther
	}
	s.finished[column]++
	s.input.add(r.PromptTokens)
	s.output.add(r.CompletionTokens)
	s.prompts.add(r)
	if r.TokenSource == result.FromChunks {
		s.assumed++
	}
	s.hold(r)
}

// hold counts a completed request that keeps the bounds of goodput.
func (s *summary) hold(r *result.Request) {
	good, known := s.opts.Good(r)
	sent := r.Phase == result.Plateau && s.opts.Span.Steady
	if sent {
		s.judged++
	}
	if !known {
		s.goodUnknown = true
	}
	if !good {
		return
	}
	s.good++
	if sent {
		s.goodOfThem++
	}
	if s.within(timeline.Done(r)) {
		s.goodOnPlateau++
	}
}

// pause returns how long the slot of a request paused before it, until the load ended at
// the latest.
func pause(r *result.Request) time.Duration {
	if r.Sent >= 0 || r.End < 0 {
		return r.Paused
	}
	return min(r.Paused, max(0, r.End-(r.Scheduled-r.Paused)))
}

// within reports whether a moment lies on the plateau. Its end belongs to it, its
// beginning to the ramp.
func (s *summary) within(t time.Duration) bool { return t > s.opts.Span.From && t <= s.opts.Span.To }

// Good reports whether a completed request keeps the bounds of goodput, and whether that can be
// known. A request of one token has no time per token to be too long. Without bounds none is good.
func (o Options) Good(r *result.Request) (good, known bool) {
	g := o.Goodput
	if g == nil {
		return false, true
	}
	ttft, tpot, e2e := latenciesOf(r, o.Open)
	single := r.TokenSource == result.FromUsage && r.CompletionTokens < 2
	if g.TTFT > 0 && ttft < 0 || g.TPOT > 0 && tpot < 0 && !single {
		return false, false
	}
	within := func(latency string, ns int64, bound float64) bool {
		return bound <= 0 || float64(ns+o.Shift.of(r, latency))/1e6 <= bound
	}
	return within("ttft", ttft, g.TTFT) && within("tpot", tpot, g.TPOT) && within("e2e", e2e, g.E2E), true
}

// Latencies returns those of a completed request from its send; [result.Never] for one
// that it does not have.
func Latencies(r *result.Request) (ttft, tpot, e2e time.Duration) {
	first, each, all := latenciesOf(r, false)
	return time.Duration(first), time.Duration(each), time.Duration(all)
}

// latenciesOf returns the latencies of a completed request in nanoseconds;
// result.Never for one that it does not have.
func latenciesOf(r *result.Request, open bool) (ttft, tpot, e2e int64) {
	start := begin(r, open)
	end := timeline.Done(r)
	ttft, tpot = int64(result.Never), int64(result.Never)
	if r.FirstToken >= 0 {
		ttft = int64(r.FirstToken - start)
		if n := r.CompletionTokens; r.TokenSource == result.FromUsage && n >= 2 {
			tpot = int64(math.Round(float64(end-r.FirstToken) / float64(n-1)))
		}
	}
	return ttft, tpot, int64(end - start)
}

// begin returns the moment from which the latencies of a request count.
func begin(r *result.Request, open bool) time.Duration {
	if open {
		return r.Scheduled
	}
	return r.Sent
}

// rates makes the load columns. Without a request all are null. Without a completed
// one no tokens were counted, so their columns are null and not 0.
func (s *summary) rates() {
	if s.requests == 0 {
		return
	}
	if s.completed == 0 {
		s.input.unknown, s.output.unknown = true, true
	}
	row := s.row
	row[col.Requests] = int64(s.requests)
	row[col.Completed] = int64(s.completed)
	row[col.Failed] = int64(s.failed)
	row[col.Cancelled] = int64(s.cancelled)
	row[col.CancelledPlanned] = int64(s.planned)
	for column, n := range s.finished {
		row[column] = n
	}
	if !s.opts.Open {
		row[col.SlotPausedS] = s.paused.Seconds()
	}
	if n := s.completed + s.failed; n > 0 {
		row[col.ErrorRate] = float64(s.failed) / float64(n)
	}
	if !s.input.unknown {
		row[col.InputTokens] = s.input.sum
	}
	if !s.output.unknown {
		row[col.OutputTokens] = s.output.sum
	}
	if s.assumed > 0 {
		s.findings = append(s.findings, result.Finding{Code: finding.TokensAssumed, Text: fmt.Sprintf(
			"the server did not count the output of %d of %d completed requests; each content chunk was taken for one token", s.assumed, s.completed)})
	}
	if s.lastSend > s.first {
		row[col.AchievedRate] = float64(s.sends-1) / (s.lastSend - s.first).Seconds()
	}
	if s.sends == 0 || !s.byted || s.last <= s.first {
		return
	}
	seconds := (s.last - s.first).Seconds()
	row[col.DurationS] = seconds
	row[col.RequestThroughputWhole] = float64(s.completed) / seconds
	if !s.output.unknown {
		row[col.ThroughputTokSWhole] = float64(s.output.sum) / seconds
		if !s.input.unknown {
			row[col.TotalThroughputTokSWhole] = float64(s.input.sum+s.output.sum) / seconds
		}
	}
	if s.opts.Goodput != nil && !s.goodUnknown {
		row[col.GoodputReqSWhole] = float64(s.good) / seconds
	}
}

// steady makes the columns of the ramp, the plateau and the tail.
func (s *summary) steady(requests []result.Request) {
	span := s.opts.Span
	seconds := span.Length().Seconds()
	if !span.Steady || seconds <= 0 {
		return
	}
	var busy time.Duration
	completed, prompts, tokens := 0, 0, 0.0
	for i := range requests {
		r := &requests[i]
		if !r.Measured() || r.Sent < 0 {
			continue
		}
		busy += max(0, min(r.End, span.To)-max(r.Sent, span.From))
		if r.Status != result.Completed {
			continue
		}
		if s.within(timeline.Done(r)) {
			completed++
		}
		if s.within(Prefilled(r)) {
			prompts += r.PromptTokens
		}
		timeline.Arrivals(r, func(at time.Duration, k float64) {
			if s.within(at) {
				tokens += k
			}
		})
	}
	row := s.row
	row[col.RampS] = (span.From - span.First).Seconds()
	row[col.PlateauS] = seconds
	row[col.TailS] = (span.Last - span.To).Seconds()
	row[col.MeanInFlight] = busy.Seconds() / seconds
	rate := s.opts.Shift.Scale(col.ThroughputTokS) / seconds
	row[col.RequestThroughput] = float64(completed) * rate
	// A plateau that saw none of the tokens is too short to tell a rate.
	if !s.output.unknown && (tokens > 0 || s.output.sum == 0) {
		row[col.ThroughputTokS] = tokens * rate
		if !s.input.unknown {
			row[col.TotalThroughputTokS] = (float64(prompts) + tokens) * rate
		}
	}
	if s.opts.Goodput != nil && !s.goodUnknown {
		row[col.GoodputReqS] = float64(s.goodOnPlateau) * s.opts.Shift.Scale(col.GoodputReqS) / seconds
		if s.judged > 0 {
			row[col.GoodShare] = float64(s.goodOfThem) / float64(s.judged)
		}
	}
	drifts := s.opts.Drifts
	for _, d := range []struct {
		column string
		drift  timeline.Drift
	}{{col.TTFTDrift, drifts.TTFT}, {col.TPOTDrift, drifts.TPOT}, {col.ThroughputDrift, drifts.Throughput}} {
		if d.drift.Known() {
			row[d.column] = d.drift.Change
		}
	}
}

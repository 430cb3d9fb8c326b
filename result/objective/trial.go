package objective

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

// A Trial is what of a trial decides objectives: its requests. A nil one decides
// nothing, so that every part is a point.
type Trial struct {
	requests []*result.Request // measured, in the order of their sends
	opts     summary.Options
	crowd    float64 // design effect of the requests in flight; 1 in a closed loop
}

// Of makes a Trial of requests whose phases are set, which it keeps. The options are
// those of the trial's summary.
func Of(requests []result.Request, o summary.Options) *Trial {
	t := &Trial{opts: o, crowd: 1}
	var flights []flight
	for i := range requests {
		if r := &requests[i]; r.Measured() {
			t.requests = append(t.requests, r)
			if o.Open && r.Sent >= 0 {
				flights = append(flights, flight{r.Sent, r.End, r.Phase == result.Plateau})
			}
		}
	}
	if o.Open {
		t.crowd = crowdOf(flights)
	}
	at := func(r *result.Request) time.Duration {
		if r.Sent < 0 { // never sent
			return r.Scheduled
		}
		return r.Sent
	}
	slices.SortStableFunc(t.requests, func(a, b *result.Request) int { return cmp.Compare(at(a), at(b)) })
	return t
}

// Decide decides a part by the trial's requests, with bounds of a confidence, and fills
// in what it rests on. It leaves the part alone if they cannot. Its columns were measured.
//
// A part with several comparisons holds if one of them does, each of which has a side. It
// passes if a side does, and fails if all fail: at a share of the level for each side, it
// is wrong no oftener than the level says. A side that is a point makes it a point.
func (t *Trial) Decide(p *result.SLOPart, sides []result.SLOPart, comparisons []Comparison, confidence float64) {
	if len(comparisons) == 1 {
		if t.decide(p, comparisons[0], confidence); p.Rule == result.RulePoint {
			t.rests(p, confidence)
		}
		return
	}
	for i, c := range comparisons {
		if t.decide(&sides[i], c, confidence); sides[i].Rule == result.RulePoint {
			return
		}
	}
	p.Rule, p.Values, p.Any = result.RuleAny, nil, sides
	settle(p)
}

// rests fills in what a point of the error rate alone rests on: so many requests, and how
// much more of all requests may fail. No number of them makes sure of a share of 0.
func (t *Trial) rests(p *result.SLOPart, confidence float64) {
	if _, rate := p.Values[col.ErrorRate]; t == nil || !rate || len(p.Values) > 1 {
		return
	}
	values, requests := t.values("e2e", failures)
	if len(values) == 0 {
		return
	}
	p.Requests, p.Confidence = requests, confidence
	p.N, p.Over = count(values, way{}.over(""))
	p.Low, p.High = shareBounds(float64(p.Over), float64(p.N), confidence)
}

func (t *Trial) decide(p *result.SLOPart, c Comparison, confidence float64) {
	w := c.way()
	if t == nil || w.rule == result.RulePoint {
		return
	}
	q := *p
	q.Rule, q.Column, q.Op, q.Limit, q.Confidence = w.rule, c.Column, c.Op, c.Limit, confidence
	ok := false
	switch w.rule {
	case result.RuleShare:
		ok = t.share(&q, c, w)
	case result.RuleMean:
		ok = t.mean(&q, w)
	case result.RuleRate:
		ok = t.rate(&q, c.Column)
	}
	if ok {
		q.Values = nil
		settle(&q)
		*p = q
	}
}

// share counts the values over the limit.
func (t *Trial) share(p *result.SLOPart, c Comparison, w way) bool {
	var values []float64
	requests := 0
	if w.window == goods {
		values = t.goods()
		requests = len(values)
	} else {
		values, requests = t.values(cmp.Or(w.latency, "e2e"), w.window)
	}
	if len(values) == 0 {
		return false
	}
	p.Requests = requests
	if w.latency != "" {
		if w.quantile = t.opts.Shift.At(w.latency, w.quantile); w.quantile >= 1 {
			return false
		}
	}
	w.weigh(p, values, c.Op, t.crowd)
	return true
}

// weigh fills in the share of values over the limit, and what they are worth: crowd is the
// design effect of the requests in flight.
func (w way) weigh(p *result.SLOPart, values []float64, op string, crowd float64) {
	over, o := w.over(op), newOrdered(values)
	p.Allowed = 1 - w.quantile
	p.N, p.Over = count(values, over)
	p.Deff, p.LimitDeff = o.effect(over)
	o.flown(p, w, crowd)
	if w.latency != "" && w.limit > 0 {
		o.away(p, w.quantile, w.limit)
	}
}

// count returns how many values there are, and how many of them are over.
func count(values []float64, over func(float64) bool) (n, beyond int) {
	for _, v := range values {
		if over(v) {
			beyond++
		}
	}
	return len(values), beyond
}

// over says which values are over the limit of a share.
func (w way) over(op string) func(v float64) bool {
	switch {
	case w.latency == "":
		return func(v float64) bool { return math.IsInf(v, 1) }
	case op == "<" || op == ">": // the bound itself is over it
		return func(v float64) bool { return v >= w.limit }
	}
	return func(v float64) bool { return v > w.limit }
}

// The windows of shares of requests.
const (
	failures = "failures" // all requests that ended by themselves
	goods    = "goods"    // those sent on the plateau, by the bounds of goodput
)

// goods returns the requests sent on the plateau in the order of their sends: 0 is good, infinite is
// not. Nil if that is not known of one.
func (t *Trial) goods() (values []float64) {
	for _, r := range t.requests {
		if r.Phase != result.Plateau || !t.opts.Span.Steady || r.Status != result.Completed && !t.opts.Lost(r) {
			continue
		}
		v, known := worth(r, t.opts)
		if !known {
			return nil
		}
		values = append(values, v)
	}
	return values
}

// worth returns a request by the bounds of goodput: 0 if it is good, else infinite.
func worth(r *result.Request, o summary.Options) (v float64, known bool) {
	if r.Status != result.Completed {
		return math.Inf(1), true
	}
	good, known := o.Good(r)
	if good {
		return 0, known
	}
	return math.Inf(1), known
}

// values returns those of a latency in milliseconds, in the order in which their requests
// were sent, and the number of these. A request that is lost is infinite.
func (t *Trial) values(latency, window string) (values []float64, requests int) {
	var lost []int // how many values there were before each lost request
	for _, r := range t.requests {
		if (window == "" || window == col.CompletedSuffix) && (r.Phase != result.Plateau || !t.opts.Span.Steady) {
			continue
		}
		switch {
		case summary.Has(r, latency), latency == "schedule_lag", window == failures && r.Status == result.Completed:
			before := len(values)
			if values = summary.AppendValues(values, r, latency, t.opts.Open); len(values) > before {
				requests++
				t.opts.Shift.Move(values[before:], r, latency)
			}
		case window == "" && t.opts.Lost(r), window == failures && r.Status == result.Failed:
			lost = append(lost, len(values))
		}
	}
	each := 1 // a lost request lacks as many gaps as others have
	if requests > 0 {
		each = (len(values) + requests - 1) / requests
	}
	if len(lost) == 0 {
		return values, requests
	}
	all := make([]float64, 0, len(values)+each*len(lost))
	for i, at := range append(lost, len(values)) {
		from := 0
		if i > 0 {
			from = lost[i-1]
			for range each {
				all = append(all, math.Inf(1))
			}
		}
		all = append(all, values[from:at]...)
	}
	return all, requests + len(lost)
}

// meanBatches is into how many batches a mean or a rate is cut.
const meanBatches = 10

// mean decides on that of a latency. One that is infinite has no interval.
func (t *Trial) mean(p *result.SLOPart, w way) bool {
	values, requests := t.values(w.latency, w.window)
	if len(values) < 2*meanBatches || slices.Contains(values, math.Inf(1)) {
		return false
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	p.Requests, p.N, p.Mean = requests, len(values), sum/float64(len(values))
	t.interval(p, batchesOf(values, meanBatches))
	return true
}

// interval fills in how well a mean of batches is known.
func (t *Trial) interval(p *result.SLOPart, b batched) {
	p.DF = float64(b.k - 1)
	p.StdErr = math.Sqrt(b.variance / float64(b.k) * b.inflation())
	p.Seconds = t.opts.Span.Length().Seconds()
	if p.Seconds <= 0 && len(t.requests) > 0 { // of the whole trial, which has no plateau
		p.Seconds = (t.requests[len(t.requests)-1].Sent - t.requests[0].Sent).Seconds()
	}
}

// rate decides on what came on the plateau per second, in equal parts of its time.
func (t *Trial) rate(p *result.SLOPart, column string) bool {
	span := t.opts.Span
	part := span.Length() / meanBatches
	if !span.Steady || part <= 0 {
		return false
	}
	scale := t.opts.Shift.Scale(column)
	series := make([]float64, meanBatches)
	add := func(at time.Duration, amount float64) {
		if at > span.From && at <= span.To {
			series[min(int((at-span.From)/part), meanBatches-1)] += amount / part.Seconds() * scale
		}
	}
	for _, r := range t.requests {
		if r.Status != result.Completed {
			continue
		}
		switch column {
		case col.RequestThroughput:
			add(timeline.Done(r), 1)
		case col.GoodputReqS:
			if good, _ := t.opts.Good(r); good {
				add(timeline.Done(r), 1)
			}
		case col.ThroughputTokS, col.TotalThroughputTokS:
			timeline.Arrivals(r, add)
			if column == col.TotalThroughputTokS {
				add(summary.Prefilled(r), float64(r.PromptTokens))
			}
		}
	}
	b := batchesOf(series, meanBatches)
	p.Mean = b.mean
	t.interval(p, b)
	return true
}

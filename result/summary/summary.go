package summary

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/result"
)

// Options say how a trial's requests are to be read.
type Options struct {
	// Open says that the load was an open loop: every latency starts when the
	// request was scheduled, so that a client or server that falls behind
	// cannot hide it. In a closed loop it starts at the send.
	Open    bool
	Goodput *Goodput // nil where the plan has none
}

// Goodput is the bounds that a good request keeps, in milliseconds; 0 is none.
type Goodput struct {
	TTFT float64
	TPOT float64
	E2E  float64
}

// Codes of what is found.
const (
	// FindingTokensAssumed: the server did not count its output, and each
	// content chunk was taken for a token.
	FindingTokensAssumed = "tokens_assumed"
	// FindingITLUnknown: requests whose tokens a chunk are not known were left
	// out of the inter-token latency, or there is none because of them.
	FindingITLUnknown = "itl_unknown"
)

// maxITLUnknown is the share of completed requests that the inter-token
// latency may do without. An engine joins tokens in one chunk where it is
// slow, so beyond that what is left would be a choice of the fast ones.
const maxITLUnknown = 0.05

// Of makes the load and latency columns of a trial from its requests,
// low_confidence included. It looks at nothing else, and changes nothing.
//
// The warm-up does not count. Latencies are those of the completed requests;
// schedule_lag is of all that were sent. Tokens are those of the completed
// requests: what a failed or cancelled one delivered was of no use to anybody.
// The time is counted from the first send to the last byte of any request.
// Percentiles are exact, from all samples, and std is the population's, as in
// numpy. What was not measured is nil.
func Of(requests []result.Request, o Options) (result.Row, []result.Finding) {
	s := summary{row: result.Row{}, opts: o}
	for i := range requests {
		if r := &requests[i]; r.Measured() {
			s.count(r)
		}
	}
	s.rates()
	s.latencies()
	s.gaps(requests)
	s.row["low_confidence"] = s.lowConfidence()
	return s.row, s.findings
}

// A summary is one in the making.
type summary struct {
	row      result.Row
	opts     Options
	low      []string
	findings []result.Finding

	requests, completed, failed, cancelled int

	first, last   time.Duration // first send, last byte
	sent, byted   bool          // whether there was one
	input, output tally
	assumed       int // completed requests whose tokens are counted as chunks

	good        int
	goodUnknown bool // a completed request could not be held against the bounds

	ttft, ttfo, tpot, e2e, lag []int64 // ns
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
	s.requests++
	if r.Sent >= 0 {
		if !s.sent || r.Sent < s.first {
			s.first, s.sent = r.Sent, true
		}
		s.lag = append(s.lag, int64(r.Sent-r.Scheduled))
	}
	if b := lastByte(r); b >= 0 {
		s.last, s.byted = max(s.last, b), true
	}

	switch r.Status {
	case result.Failed:
		s.failed++
		return
	case result.Cancelled:
		s.cancelled++
		return
	}
	s.completed++
	s.input.add(r.PromptTokens)
	s.output.add(r.CompletionTokens)
	if r.TokenSource == "chunks" {
		s.assumed++
	}

	start := r.Sent
	if s.opts.Open {
		start = r.Scheduled
	}
	end := e2eEnd(r)
	e2e := int64(end - start)
	s.e2e = append(s.e2e, e2e)
	ttft, tpot := int64(result.Never), int64(result.Never)
	if r.FirstToken >= 0 {
		ttft = int64(r.FirstToken - start)
		s.ttft = append(s.ttft, ttft)
		if n := r.CompletionTokens; r.TokenSource == "usage" && n >= 2 {
			tpot = int64(math.Round(float64(end-r.FirstToken) / float64(n-1)))
			s.tpot = append(s.tpot, tpot)
		}
	}
	if r.FirstOutput >= 0 {
		s.ttfo = append(s.ttfo, int64(r.FirstOutput-start))
	}
	s.judge(r, ttft, tpot, e2e)
}

// judge holds a completed request against the bounds of the goodput. A request
// of one token has no time per token to be too long.
func (s *summary) judge(r *result.Request, ttft, tpot, e2e int64) {
	g := s.opts.Goodput
	if g == nil {
		return
	}
	single := r.TokenSource == "usage" && r.CompletionTokens < 2
	if g.TTFT > 0 && ttft < 0 || g.TPOT > 0 && tpot < 0 && !single {
		s.goodUnknown = true
		return
	}
	within := func(ns int64, bound float64) bool { return bound <= 0 || float64(ns)/1e6 <= bound }
	if within(ttft, g.TTFT) && within(tpot, g.TPOT) && within(e2e, g.E2E) {
		s.good++
	}
}

// e2eEnd is the end of a completed request: its last chunk with a choice, or,
// where it was not streamed, the end of the answer.
func e2eEnd(r *result.Request) time.Duration {
	if r.LastToken >= 0 {
		return r.LastToken
	}
	return r.End
}

// lastByte is when the last byte of a request came, or Never. The end of a
// request that did not complete is when it was given up, which is no byte.
func lastByte(r *result.Request) time.Duration {
	if r.Status == result.Completed {
		return r.End
	}
	return max(r.FirstByte, r.LastToken)
}

// rates makes the load columns.
func (s *summary) rates() {
	row := s.row
	row["requests"] = int64(s.requests)
	row["completed"] = int64(s.completed)
	row["failed"] = int64(s.failed)
	row["cancelled"] = int64(s.cancelled)
	if n := s.completed + s.failed; n > 0 {
		row["error_rate"] = float64(s.failed) / float64(n)
	}
	if !s.input.unknown {
		row["input_tokens"] = s.input.sum
	}
	if !s.output.unknown {
		row["output_tokens"] = s.output.sum
	}
	if s.assumed > 0 {
		s.findings = append(s.findings, result.Finding{Code: FindingTokensAssumed, Text: fmt.Sprintf(
			"the server did not count the output of %d of %d completed requests; each content chunk was taken for one token", s.assumed, s.completed)})
	}
	if !s.sent || !s.byted || s.last <= s.first {
		return
	}
	seconds := (s.last - s.first).Seconds()
	row["duration_s"] = seconds
	row["request_throughput"] = float64(s.completed) / seconds
	if !s.output.unknown {
		row["throughput_tok_s"] = float64(s.output.sum) / seconds
		if !s.input.unknown {
			row["total_throughput_tok_s"] = float64(s.input.sum+s.output.sum) / seconds
		}
	}
	if s.opts.Goodput != nil && !s.goodUnknown {
		row["goodput_req_s"] = float64(s.good) / seconds
	}
}

// latencies makes the columns of what there is one of in each request.
func (s *summary) latencies() {
	scratch := make([]int64, s.requests)
	s.describe("ttft", s.ttft, scratch)
	s.describe("ttfo", s.ttfo, scratch)
	s.describe("tpot", s.tpot, scratch)
	s.describe("e2e", s.e2e, scratch)
	s.describe("schedule_lag", s.lag, scratch)
	if p50, ok := s.row["p50_tpot_ms"].(float64); ok && p50 > 0 {
		s.row["p50_user_tok_s"] = 1000 / p50
	}
}

// describe makes the eight columns of one latency from its samples, which it
// sorts with the help of scratch. Samples are in nanoseconds; none make no
// columns.
func (s *summary) describe(name string, samples, scratch []int64) {
	n := len(samples)
	if n == 0 {
		return
	}
	sortRadix(samples, scratch)
	var sum, squares float64
	for _, v := range samples {
		sum += float64(v)
	}
	mean := sum / float64(n)
	for _, v := range samples {
		d := float64(v) - mean
		squares += d * d
	}
	set := func(statistic string, v float64) {
		s.row[statistic+"_"+name+"_ms"] = v / 1e6
	}
	set("mean", mean)
	set("std", math.Sqrt(squares/float64(n)))
	set("min", float64(samples[0]))
	set("max", float64(samples[n-1]))
	for _, q := range percentiles {
		set(q.name, result.Quantile(samples, q.p))
	}
	s.addLow(name, n)
}

// addLow names the percentiles of a latency that n samples are too few for.
func (s *summary) addLow(name string, n int) {
	for _, q := range percentiles {
		if n > 0 && n < minSamples(q.p) {
			s.low = append(s.low, q.name+"_"+name+"_ms")
		}
	}
}

// lowConfidence joins those names in the order of the columns; nil for none.
func (s *summary) lowConfidence() any {
	var names []string
	for _, c := range result.Columns(result.Extra{}) {
		if slices.Contains(s.low, c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return strings.Join(names, ",")
}

// The percentiles of the cells table.
var percentiles = [...]struct {
	name string
	p    float64
}{{"p50", 0.50}, {"p90", 0.90}, {"p95", 0.95}, {"p99", 0.99}}

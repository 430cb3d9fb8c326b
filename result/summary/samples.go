package summary

import (
	"fmt"
	"math"
	"strings"

	"sweep.dev/sweep/result"
)

// samples are the latencies of some of a trial's requests, in nanoseconds.
type samples struct {
	suffix string // of their columns

	ttft, ttfo, tpot, e2e []int64 // of completed requests
	lag                   []int64 // of all that were sent
	streamed              []*result.Request
	lost                  []*result.Request // those that count as infinite
	requests, failed      int
}

// add takes a request in.
func (c *samples) add(r *result.Request, open bool) {
	c.requests++
	if r.Sent >= 0 {
		c.lag = append(c.lag, int64(r.Sent-r.Scheduled))
	}
	if r.Status == result.Failed {
		c.failed++
	}
	if r.Status != result.Completed {
		return
	}
	ttft, tpot, e2e := latenciesOf(r, open)
	c.e2e = append(c.e2e, e2e)
	if ttft >= 0 {
		c.ttft = append(c.ttft, ttft)
	}
	if tpot >= 0 {
		c.tpot = append(c.tpot, tpot)
	}
	if r.FirstOutput >= 0 {
		c.ttfo = append(c.ttfo, int64(r.FirstOutput-begin(r, open)))
	}
	if r.FirstTokenChunk >= 0 && r.FirstTokenChunk < len(r.ChunkUS) {
		c.streamed = append(c.streamed, r)
	}
}

// latencies makes the latency columns, of the whole and of the plateau.
func (s *summary) latencies() {
	scratch := &scratch{}
	for _, c := range []*samples{&s.all, &s.plateau} {
		lost := len(c.lost)
		s.describe("ttft", c, c.ttft, len(c.ttft), lost, scratch)
		s.describe("ttfo", c, c.ttfo, len(c.ttfo), lost, scratch)
		s.describe("tpot", c, c.tpot, len(c.tpot), lost, scratch)
		s.describe("e2e", c, c.e2e, len(c.e2e), lost, scratch)
		s.describe("schedule_lag", c, c.lag, len(c.lag), 0, scratch)
		s.gaps(c, scratch)
	}
	if p50, ok := s.row["p50_tpot_ms"].(float64); ok && p50 > 0 {
		s.row["p50_user_tok_s"] = 1000 / p50
	}
}

// scratch is memory that is used again.
type scratch struct{ values, sort []int64 }

// describe makes the eight columns of one latency from its values, which it
// sorts, and for the whole trial the censored ones, with so many values lost.
// The values are those of n requests. None make no columns.
func (s *summary) describe(latency string, c *samples, values []int64, n, lost int, scratch *scratch) {
	if len(values) == 0 {
		return
	}
	if len(scratch.sort) < len(values) {
		scratch.sort = make([]int64, len(values))
	}
	sortRadix(values, scratch.sort)
	var sum, squares float64
	for _, v := range values {
		sum += float64(v)
	}
	mean := sum / float64(len(values))
	for _, v := range values {
		d := float64(v) - mean
		squares += d * d
	}
	column := "_" + latency + "_ms" + c.suffix
	set := func(statistic string, ns float64) { s.row[statistic+column] = ns / 1e6 }
	set("mean", mean)
	set("std", math.Sqrt(squares/float64(len(values))))
	set("min", float64(values[0]))
	set("max", float64(values[len(values)-1]))
	for _, q := range percentiles {
		set(q.name, result.Quantile(values, q.p))
		s.trust(q.name+column, q.p, n)
		if c.suffix == "" && latency != "schedule_lag" {
			if v := censored(values, lost, q.p); !math.IsInf(v, 1) {
				s.row[q.name+column+result.CensoredSuffix] = v / 1e6
			}
		}
	}
}

// censored is the p-quantile of sorted values and so many more that are
// infinite.
func censored(sorted []int64, lost int, p float64) float64 {
	if lost == 0 {
		return result.Quantile(sorted, p)
	}
	n := len(sorted)
	h := p * float64(n+lost-1)
	i := int(h)
	switch {
	case i < n-1:
		return result.Quantile(sorted[i:i+2], h-math.Floor(h))
	case i == n-1 && h == math.Floor(h):
		return float64(sorted[i])
	}
	return math.Inf(1)
}

// trust notes a percentile that n requests are too few for.
func (s *summary) trust(column string, p float64, n int) {
	if n < MinRequests(p) {
		s.low[column] = true
	}
}

// lowConfidence joins the names of those percentiles in the order of the
// columns; nil for none. What a whole trial has too few requests for, a part of
// it has too: then the name of the whole stands for both.
func (s *summary) lowConfidence() any {
	var names []string
	for _, c := range result.Columns(result.Extra{}) {
		whole := strings.TrimSuffix(c.Name, result.PlateauSuffix)
		if s.low[c.Name] && (whole == c.Name || !s.low[whole]) {
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

// probes makes the columns of the probe beside the load.
func (s *summary) probes() {
	c := &s.probe
	if c.requests == 0 {
		return
	}
	s.row["probe_requests"] = int64(c.requests)
	s.row["probe_failed"] = int64(c.failed)
	for _, l := range []struct {
		name   string
		values []int64
		p95    bool
	}{{"ttft", c.ttft, true}, {"tpot", c.tpot, false}, {"e2e", c.e2e, true}} {
		if len(l.values) == 0 {
			continue
		}
		sortRadix(l.values, make([]int64, len(l.values)))
		for _, q := range percentiles {
			if q.name == "p50" || q.name == "p95" && l.p95 {
				column := fmt.Sprintf("%s_probe_%s_ms", q.name, l.name)
				s.row[column] = result.Quantile(l.values, q.p) / 1e6
				s.trust(column, q.p, len(l.values))
			}
		}
	}
}

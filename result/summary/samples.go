package summary

import (
	"math"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
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
	var memory []int64 // of the gaps, used again
	for _, c := range []*samples{&s.all, &s.plateau} {
		lost := len(c.lost)
		s.describe("ttft", c, c.ttft, len(c.ttft), lost)
		s.describe("ttfo", c, c.ttfo, len(c.ttfo), lost)
		s.describe("tpot", c, c.tpot, len(c.tpot), lost)
		s.describe("e2e", c, c.e2e, len(c.e2e), lost)
		s.describe("schedule_lag", c, c.lag, len(c.lag), 0)
		memory = s.gaps(c, memory)
	}
	if p50, ok := s.row[col.P50TPOTMs].(float64); ok && p50 > 0 {
		s.row[col.P50UserTokS] = 1000 / p50
	}
}

// describe makes the eight columns of one latency from its values and, for the
// whole trial, the censored ones with so many values lost. The values are those
// of n requests. None make no columns.
func (s *summary) describe(latency string, c *samples, values []int64, n, lost int) {
	if len(values) == 0 {
		return
	}
	m := momentsOf(values)
	column := func(statistic string) string { return col.Latency(statistic, latency) + c.suffix }
	set := func(statistic string, ns float64) { s.row[column(statistic)] = ns / 1e6 }
	set("mean", m.mean)
	set("std", m.std)
	set("min", float64(m.min))
	set("max", float64(m.max))
	exact := quantiles(values, m, 0, shares[:]...)
	censored := exact
	if lost > 0 {
		censored = quantiles(values, m, lost, shares[:]...)
	}
	for i, q := range percentiles {
		set(q.name, exact[i])
		s.trust(column(q.name), q.p, n)
		if c.suffix == "" && latency != "schedule_lag" && !math.IsInf(censored[i], 1) {
			s.row[column(q.name)+col.CensoredSuffix] = censored[i] / 1e6
		}
	}
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
		whole := strings.TrimSuffix(c.Name, col.PlateauSuffix)
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
}{{"p50", shares[0]}, {"p90", shares[1]}, {"p95", shares[2]}, {"p99", shares[3]}}

var shares = [...]float64{0.50, 0.90, 0.95, 0.99}

// probes makes the columns of the probe beside the load.
func (s *summary) probes() {
	c := &s.probe
	if c.requests == 0 {
		return
	}
	s.row[col.ProbeRequests] = int64(c.requests)
	s.row[col.ProbeFailed] = int64(c.failed)
	for _, l := range []struct {
		name   string
		values []int64
		p95    bool
	}{{"ttft", c.ttft, true}, {"tpot", c.tpot, false}, {"e2e", c.e2e, true}} {
		if len(l.values) == 0 {
			continue
		}
		exact := quantiles(l.values, momentsOf(l.values), 0, shares[:]...)
		for i, q := range percentiles {
			if q.name == "p50" || q.name == "p95" && l.p95 {
				column := col.ProbeLatency(q.name, l.name)
				s.row[column] = exact[i] / 1e6
				s.trust(column, q.p, len(l.values))
			}
		}
	}
}

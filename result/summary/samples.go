package summary

import (
	"math"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// samples are the latencies of some of a trial's requests, in nanoseconds.
type samples struct {
	ttft, ttfo, tpot, e2e []int64 // of completed requests
	lag                   []int64 // of all that were sent
	streamed              []*result.Request
	lost                  []*result.Request // those that count as infinite
	requests, completed   int
	failed                int
}

// add takes a request in.
func (c *samples) add(r *result.Request, o Options) {
	open := o.Open
	moved := func(ns int64, latency string) int64 { return max(0, ns+o.Shift.of(r, latency)) }
	c.requests++
	if r.Sent >= 0 {
		c.lag = append(c.lag, int64(r.Sent-r.Scheduled))
	}
	if r.Status == result.Failed {
		c.failed++
	}
	if r.Status == result.Completed {
		c.completed++
	}
	ttft, tpot, e2e := latenciesOf(r, open)
	if Has(r, "ttft") && ttft >= 0 {
		c.ttft = append(c.ttft, moved(ttft, "ttft"))
	}
	if Has(r, "ttfo") && r.FirstOutput >= 0 {
		c.ttfo = append(c.ttfo, moved(int64(r.FirstOutput-begin(r, open)), "ttfo"))
	}
	if !Has(r, "e2e") {
		return
	}
	c.e2e = append(c.e2e, moved(e2e, "e2e"))
	if tpot >= 0 {
		c.tpot = append(c.tpot, moved(tpot, "tpot"))
	}
	if r.FirstTokenChunk >= 0 && r.FirstTokenChunk < len(r.ChunkUS) {
		c.streamed = append(c.streamed, r)
	}
}

// Has reports whether a latency of a request counts. Of those that the plan chose to give
// up only the short ones end before: their ends and gaps say nothing of the others,
// while a first token that was seen does.
func Has(r *result.Request, latency string) bool {
	if r.Chosen && (latency == "ttft" || latency == "ttfo") {
		return r.Status == result.Completed || r.Planned
	}
	return r.Status == result.Completed && !r.Chosen
}

// latencies makes the latency columns, of the whole and of the plateau.
func (s *summary) latencies() {
	var memory []int64 // of the gaps, used again
	for _, c := range []*samples{&s.all, &s.plateau} {
		lost := len(c.lost)
		s.describe(c, c.ttft, len(c.ttft), lost, "ttft")
		s.describe(c, c.ttfo, len(c.ttfo), lost, "ttfo")
		s.describe(c, c.tpot, len(c.tpot), lost, "tpot")
		s.describe(c, c.e2e, len(c.e2e), lost, "e2e")
		s.describe(c, c.lag, len(c.lag), 0, "schedule_lag")
		memory = s.gaps(c, memory)
	}
	if n := s.plateau.completed + len(s.plateau.lost); n > 0 {
		s.row[col.PlateauRequests] = int64(n)
	}
	for _, suffix := range []string{"", col.WholeSuffix} {
		if p50, ok := s.row[col.P50TPOTMs+suffix].(float64); ok && p50 > 0 {
			s.row[col.P50UserTokS+suffix] = 1000 / p50
		}
	}
}

// describe makes the columns of latencies that have the same values, of n requests,
// beside so many that are infinite. Those of the whole trial, and _completed, are of
// the values alone. Without a value there are none, unless no request was completed:
// then all that there is to know is that they are infinite.
func (s *summary) describe(c *samples, values []int64, n, lost int, latencies ...string) {
	if len(values) == 0 && (c.completed > 0 || lost == 0) {
		return
	}
	var finite, all figures
	rank := math.NaN() // that they were made for
	for _, latency := range latencies {
		if by := s.opts.Shift.rank(latency); by != rank {
			rank = by
			finite = figuresOf(values, 0, rank)
			all = finite
			if lost > 0 && c == &s.plateau {
				all = figuresOf(values, lost, rank)
			}
		}
		switch {
		case c == &s.all:
			s.set(latency, col.WholeSuffix, finite, n)
		case latency == "schedule_lag":
			s.set(latency, "", all, n)
		default:
			s.set(latency, col.CompletedSuffix, finite, n)
			s.set(latency, "", all, n+len(c.lost))
		}
	}
}

// figures are the statistics of values, in nanoseconds.
type figures struct {
	moments   [4]float64 // as the statistics of that name
	quantiles []float64  // of percentiles; nil for no values
}

// figuresOf returns those of the values and of so many more that are infinite, with the rank of
// each percentile moved by a share.
func figuresOf(values []int64, lost int, rank float64) figures {
	inf := math.Inf(1)
	switch {
	case len(values)+lost == 0:
		return figures{}
	case len(values) == 0:
		return figures{[4]float64{inf, inf, inf, inf}, []float64{inf, inf, inf, inf}}
	}
	m := momentsOf(values)
	at := shares
	for i := range at {
		at[i] = min(1, max(0, at[i]+rank))
	}
	f := figures{[4]float64{m.mean * (1 + rank), m.std, float64(m.min), float64(m.max)}, quantiles(values, m, lost, at[:]...)}
	for i, p := range shares {
		if rank > 0 && p+rank >= 1 {
			f.quantiles[i] = inf
		}
	}
	if lost > 0 {
		f.moments[0], f.moments[1], f.moments[3] = inf, inf, inf
	}
	return f
}

// set makes the eight columns of a latency with a suffix, of n requests.
func (s *summary) set(latency, suffix string, f figures, n int) {
	if f.quantiles == nil {
		return
	}
	for i, statistic := range []string{"mean", "std", "min", "max"} {
		s.put(col.Latency(statistic, latency)+suffix, f.moments[i])
	}
	for i, q := range percentiles {
		column := col.Latency(q.Name, latency) + suffix
		s.put(column, f.quantiles[i])
		s.trust(column, q.P, n)
	}
}

// put writes nanoseconds to a column. Infinite ones are noted instead.
func (s *summary) put(column string, ns float64) {
	if math.IsInf(ns, 1) {
		s.infinite[column] = true
		return
	}
	s.row[column] = ns / 1e6
}

// trust notes a percentile that n requests are too few for.
func (s *summary) trust(column string, p float64, n int) {
	if n < MinRequests(p) {
		s.low[column] = true
	}
}

// lowConfidence returns the percentiles with too few requests: those without a suffix
// stand for the others of their name.
func (s *summary) lowConfidence() any {
	for column := range s.low {
		for _, suffix := range []string{col.CompletedSuffix, col.WholeSuffix} {
			if plain, ok := strings.CutSuffix(column, suffix); ok && s.low[plain] {
				delete(s.low, column)
			}
		}
	}
	return named(s.low)
}

// named joins the names of columns in their order; nil for none.
func named(columns map[string]bool) any {
	var names []string
	for _, c := range result.Columns(result.Extra{}) {
		if columns[c.Name] {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return strings.Join(names, ",")
}

// A Percentile is one of those that each latency has.
type Percentile struct {
	Name string // p50
	P    float64
}

// Percentiles returns those of the cells table.
func Percentiles() []Percentile { return percentiles[:] }

var percentiles = [...]Percentile{{"p50", shares[0]}, {"p90", shares[1]}, {"p95", shares[2]}, {"p99", shares[3]}}

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
			if q.Name == "p50" || q.Name == "p95" && l.p95 {
				column := col.ProbeLatency(q.Name, l.name)
				s.row[column] = exact[i] / 1e6
				s.trust(column, q.P, len(l.values))
			}
		}
	}
}

package prom

import (
	"math"

	"sweep.dev/sweep/collectors/quantities"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// latencies are the canonical histograms with four columns each.
var latencies = [...]string{engine.TTFT, engine.ITL, engine.TPOT, engine.E2E, engine.Queue, engine.Prefill, engine.Decode}

// A column is one of the row, and how it comes out of what was seen; nil if
// it could not be measured.
type column struct {
	name  string
	value func(quantities.View) any
}

// A percentile is a column that a quantile of a histogram makes.
type percentile struct {
	column, histogram string
	q                 float64
}

// quantiles are those that are reported of every histogram.
var quantiles = [...]struct {
	name string
	q    float64
}{{"p50", 0.50}, {"p95", 0.95}, {"p99", 0.99}}

func percentiles() []percentile {
	list := []percentile{{col.P95KVTransferMs, engine.KVTransfer, 0.95}}
	for _, l := range latencies {
		for _, p := range quantiles {
			list = append(list, percentile{col.ServerLatency(p.name, l), l, p.q})
		}
	}
	return list
}

// columns returns those of the server, once for all together and once for each
// role.
func columns() []column {
	var list []column
	for _, l := range latencies {
		list = append(list, column{col.ServerLatency("mean", l), meanOf(l)})
	}
	for _, p := range percentiles() {
		list = append(list, column{p.column, p.value})
	}
	return append(list,
		column{col.MeanRequestsRunning, gaugeMean(engine.RequestsRunning)},
		column{col.MaxRequestsRunning, gaugeMax(engine.RequestsRunning)},
		column{col.MeanRequestsWaiting, gaugeMean(engine.RequestsWaiting)},
		column{col.MaxRequestsWaiting, gaugeMax(engine.RequestsWaiting)},
		column{col.MeanKVCacheUsage, gaugeMean(engine.KVCacheUsage)},
		column{col.MaxKVCacheUsage, gaugeMax(engine.KVCacheUsage)},
		column{col.MaxPrefillBootstrapQueue, gaugeMax(engine.PrefillBootstrapQueue)},
		column{col.MaxPrefillInflightQueue, gaugeMax(engine.PrefillInflightQueue)},
		column{col.MaxDecodePreallocQueue, gaugeMax(engine.DecodePreallocQueue)},
		column{col.MaxDecodeTransferQueue, gaugeMax(engine.DecodeTransferQueue)},
		column{col.PrefixCacheHitRate, ratio(engine.PrefixHitRate)},
		column{col.Preemptions, gain(engine.Preemptions)},
		column{col.ServerOutputTokens, gain(engine.GenerationTokens)},
		column{col.ServerThroughputTokS, func(v quantities.View) any {
			return float(v(engine.GenerationTokens).Rate(engine.GenerationTokens))
		}},
		column{col.ServerReportedThroughputTokS, reported},
		column{col.ServerInputTokens, gain(engine.PromptTokens)},
		column{col.ServerRequests, gain(engine.RequestsFinished)},
		column{col.ServerRequestsFailed, gain(engine.RequestsFailed)},
		column{col.KVCacheBlocks, size(engine.KVCacheBlocks)},
		column{col.KVCacheTokens, size(engine.KVCacheTokens)},
		column{col.SpecAcceptRate, either(ratio(engine.SpecAcceptRate), gaugeMean(engine.SpecAcceptRate))},
		column{col.SpecAcceptLength, either(ratio(engine.SpecAcceptLen), gaugeMean(engine.SpecAcceptLen))},
		column{col.MeanKVTransferMs, meanOf(engine.KVTransfer)},
		column{col.KVTransferBytes, gain(engine.KVTransferred)},
		column{col.KVTransferTokens, gain(engine.KVReceived)},
		column{col.KVTransferFailures, gain(engine.KVFailures)},
		column{col.ServerRequestBytes, gain(engine.RequestBytes)},
		column{col.ServerResponseBytes, gain(engine.ResponseBytes)},
		column{col.ActiveEndpoints, size(engine.ActiveEndpoints)},
		column{col.TransportUp, func(v quantities.View) any {
			least, ok := v(engine.TransportUp).Least(engine.TransportUp)
			if !ok {
				return nil
			}
			return least == 1
		}},
		column{col.TransportErrors, gain(engine.TransportErrors)},
		column{col.EngineUptimeS, func(v quantities.View) any { return float(v(engine.Uptime).Last(engine.Uptime)) }},
	)
}

// emptyRow has every column that this collector knows of a deployment with
// these roles, none of them measured.
func emptyRow(p *engine.Profile) result.Row {
	row := make(result.Row)
	for _, role := range append([]string{""}, roleNames(p)...) {
		for _, c := range columns() {
			row[inRole(role, c.name)] = nil
		}
		row[inRole(role, col.ServerPercentileBounds)] = nil
		for _, c := range counts() {
			row[inRole(role, c.lines)], row[inRole(role, c.names)] = nil, nil
		}
	}
	row[col.PD], row[col.PDShare], row[col.PDLeft] = nil, nil, nil
	return row
}

// roleNames returns the roles that have columns of their own: all, if there are
// several.
func roleNames(p *engine.Profile) []string {
	if p == nil || len(p.Roles) < 2 {
		return nil
	}
	var names []string
	for _, r := range p.Roles {
		names = append(names, r.Name)
	}
	return names
}

func inRole(role, column string) string {
	if role == "" {
		return column
	}
	return col.OfRole(role, column)
}

// A server is all that was seen of one target.
type server struct {
	quantities.Source
	lines lines // of the last body, nil if that is missing
}

// lines are how many samples a body has of each name, without _created.
type lines map[string]int

// An exposed is the two columns that count what was exposed, whatever it means, of
// one family or, where that is "", of all.
type exposed struct{ family, lines, names string }

func counts() []exposed {
	list := []exposed{{"", col.MetricLines, col.MetricNames}}
	for _, f := range result.MetricFamilies() {
		list = append(list, exposed{f, col.OfFamily(col.MetricLines, f), col.OfFamily(col.MetricNames, f)})
	}
	return list
}

// of counts the samples and the names of a family, or of all.
func (l lines) of(family string) (samples, names int64) {
	for name, n := range l {
		if family == "" || family == engineOf(name) {
			samples += int64(n)
			names++
		}
	}
	return samples, names
}

// makeRow returns what was seen of all servers, together and role by role.
func makeRow(p *engine.Profile, servers []*server) result.Row {
	row := emptyRow(p)
	var sources []*quantities.Source
	for _, s := range servers {
		sources = append(sources, &s.Source)
	}
	fill(row, "", quantities.Totals(p, sources), servers)
	for _, role := range roleNames(p) {
		var mine []*server
		for _, s := range servers {
			if s.Role == role {
				mine = append(mine, s)
			}
		}
		fill(row, role, quantities.Only(role, sources), mine)
	}
	return row
}

func fill(row result.Row, role string, v quantities.View, servers []*server) {
	for _, c := range columns() {
		row[inRole(role, c.name)] = c.value(v)
	}
	for _, p := range percentiles() {
		if e, ok := p.estimate(v); ok && !e.Known {
			row.AddBound(inRole(role, col.ServerPercentileBounds), inRole(role, p.column), e.Bounds(1000))
		}
	}
	all := make(lines)
	for _, s := range servers {
		if s.lines == nil {
			return // unknown for one server, so unknown for all
		}
		for name, n := range s.lines {
			all[name] += n
		}
	}
	if len(servers) == 0 {
		return
	}
	for _, c := range counts() {
		row[inRole(role, c.lines)], row[inRole(role, c.names)] = all.of(c.family)
	}
}

func float(v float64, ok bool) any {
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

// whole returns a number of things; one that no int64 holds is no measurement.
func whole(v float64, ok bool) any {
	if !ok || !(math.Abs(v) < 1<<53) {
		return nil
	}
	return int64(math.Round(v))
}

func gain(quantity string) func(quantities.View) any {
	return func(v quantities.View) any { return whole(v(quantity).Gained(quantity)) }
}

func size(quantity string) func(quantities.View) any {
	return func(v quantities.View) any { return whole(v(quantity).Last(quantity)) }
}

func gaugeMean(quantity string) func(quantities.View) any {
	return func(v quantities.View) any {
		average, _, ok := v(quantity).Gauge(quantity)
		return float(average, ok)
	}
}

func gaugeMax(quantity string) func(quantities.View) any {
	return func(v quantities.View) any {
		_, most, ok := v(quantity).Gauge(quantity)
		return float(most, ok)
	}
}

func meanOf(quantity string) func(quantities.View) any {
	return func(v quantities.View) any {
		h, ok := v(quantity).Histogram(quantity)
		return float(1000*h.Sum/h.Count, ok)
	}
}

func (p percentile) estimate(v quantities.View) (quantities.Estimate, bool) {
	h, ok := v(p.histogram).Histogram(p.histogram)
	if !ok {
		return quantities.Estimate{}, false
	}
	return h.Quantile(p.q)
}

func (p percentile) value(v quantities.View) any {
	e, ok := p.estimate(v)
	return float(1000*e.Value, ok && e.Known)
}

func ratio(quantity string) func(quantities.View) any {
	return func(v quantities.View) any { return float(v.Ratio(quantity)) }
}

func either(first, second func(quantities.View) any) func(quantities.View) any {
	return func(v quantities.View) any {
		if x := first(v); x != nil {
			return x
		}
		return second(v)
	}
}

// reported returns the mean of the engine's own figure of its output over the looks
// at which it was at work: it says 0 in between, or its last figure.
func reported(v quantities.View) any {
	running := make(map[int]float64)
	for _, m := range v(engine.RequestsRunning).Moments(engine.RequestsRunning) {
		running[m.Round] = m.Value
	}
	var busy []quantities.Moment
	for _, m := range v(engine.GenerationPerSecond).Moments(engine.GenerationPerSecond) {
		n, known := running[m.Round]
		if m.Value > 0 && (!known || n > 0) {
			busy = append(busy, m)
		}
	}
	average, _, ok := quantities.Average(busy)
	return float(average, ok)
}

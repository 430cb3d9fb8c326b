package prom

import (
	"math"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/quantities"
	"sweep.dev/sweep/result"
)

// latencies are the canonical histograms with four columns each.
var latencies = [...]string{engine.TTFT, engine.ITL, engine.TPOT, engine.E2E, engine.Queue, engine.Prefill, engine.Decode}

// A column is one of the row, and how it comes out of what was seen; nil where
// it could not be measured.
type column struct {
	name  string
	value func(quantities.View) any
}

// columns are those of the server, once for all together and once for each
// role.
func columns() []column {
	var list []column
	for _, l := range latencies {
		list = append(list, column{"server_mean_" + l + "_ms", meanOf(l)})
		for _, p := range []struct {
			name string
			q    float64
		}{{"p50", 0.50}, {"p95", 0.95}, {"p99", 0.99}} {
			list = append(list, column{"server_" + p.name + "_" + l + "_ms", quantileOf(l, p.q)})
		}
	}
	for _, q := range []string{engine.RequestsRunning, engine.RequestsWaiting, engine.KVCacheUsage} {
		list = append(list, column{q + "_mean", gaugeMean(q)}, column{q + "_max", gaugeMax(q)})
	}
	for _, q := range []string{engine.PrefillBootstrapQueue, engine.PrefillInflightQueue, engine.DecodePreallocQueue, engine.DecodeTransferQueue} {
		list = append(list, column{q + "_max", gaugeMax(q)})
	}
	return append(list,
		column{"prefix_cache_hit_rate", ratio(engine.PrefixHits, engine.PrefixQueries)},
		column{"preemptions", gain(engine.Preemptions)},
		column{"server_output_tokens", gain(engine.GenerationTokens)},
		column{"server_throughput_tok_s", func(v quantities.View) any {
			return float(v(engine.GenerationTokens).Rate(engine.GenerationTokens))
		}},
		column{"server_reported_throughput_tok_s", reported},
		column{"server_input_tokens", gain(engine.PromptTokens)},
		column{"server_requests", gain(engine.RequestsFinished)},
		column{"server_requests_failed", gain(engine.RequestsFailed)},
		column{"kv_cache_blocks", size(engine.KVCacheBlocks)},
		column{"kv_cache_tokens", size(engine.KVCacheTokens)},
		column{"spec_accept_rate", either(ratio(engine.SpecAccepted, engine.SpecDrafted), gaugeMean(engine.SpecAcceptRate))},
		column{"spec_accept_length", gaugeMean(engine.SpecAcceptLen)},
		column{"mean_kv_transfer_ms", meanOf(engine.KVTransfer)},
		column{"p95_kv_transfer_ms", quantileOf(engine.KVTransfer, 0.95)},
		column{"kv_transfer_bytes", gain(engine.KVTransferred)},
		column{"server_request_bytes", gain(engine.RequestBytes)},
		column{"server_response_bytes", gain(engine.ResponseBytes)},
		column{"transport_up", func(v quantities.View) any {
			least, ok := v(engine.TransportUp).Least(engine.TransportUp)
			if !ok {
				return nil
			}
			return least == 1
		}},
		column{"transport_errors", gain(engine.TransportErrors)},
		column{"engine_uptime_s", func(v quantities.View) any { return float(v(engine.Uptime).Last(engine.Uptime)) }},
	)
}

// lineColumns count what was exposed, whatever it means.
const (
	metricLines = "metric_lines"
	metricNames = "metric_names"
)

// emptyRow has every column that this collector knows of a deployment with
// these roles, none of them measured.
func emptyRow(p *engine.Profile) result.Row {
	row := make(result.Row)
	for _, role := range append([]string{""}, roleNames(p)...) {
		for _, c := range columns() {
			row[inRole(role, c.name)] = nil
		}
		row[inRole(role, metricLines)], row[inRole(role, metricNames)] = nil, nil
	}
	return row
}

// roleNames are the roles that have columns of their own: all, where there are
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
	return result.RoleColumn(role, column)
}

// A server is all that was seen of one target.
type server struct {
	quantities.Source
	lines *lines // of the last body, nil where that is missing
}

// lines are the samples of a body, without _created.
type lines struct {
	count int
	names map[string]bool
}

// makeRow is what was seen of all servers, together and role by role.
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
	count, names := 0, make(map[string]bool)
	for _, s := range servers {
		if s.lines == nil {
			return // of one server nobody knows
		}
		count += s.lines.count
		for n := range s.lines.names {
			names[n] = true
		}
	}
	if len(servers) > 0 {
		row[inRole(role, metricLines)], row[inRole(role, metricNames)] = int64(count), int64(len(names))
	}
}

func float(v float64, ok bool) any {
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

// whole is a number of things; one that no int64 holds is no measurement.
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

func quantileOf(quantity string, q float64) func(quantities.View) any {
	return func(v quantities.View) any {
		h, ok := v(quantity).Histogram(quantity)
		if !ok {
			return nil
		}
		s, ok := h.Quantile(q)
		return float(1000*s, ok)
	}
}

// ratio is of sums, never a mean of ratios. Both are asked of the servers that
// have the divisor.
func ratio(part, all string) func(quantities.View) any {
	return func(v quantities.View) any {
		g := v(all)
		n, ok := g.Gained(part)
		d, ok2 := g.Gained(all)
		return float(n/d, ok && ok2 && d > 0)
	}
}

func either(first, second func(quantities.View) any) func(quantities.View) any {
	return func(v quantities.View) any {
		if x := first(v); x != nil {
			return x
		}
		return second(v)
	}
}

// reported is the mean of the engine's own figure of its output over the looks
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

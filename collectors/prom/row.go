package prom

import (
	"math"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result"
)

// latencies are the canonical histograms that have columns.
var latencies = [...]string{engine.TTFT, engine.ITL, engine.TPOT, engine.E2E, engine.Queue, engine.Prefill, engine.Decode}

// emptyRow has every column that this collector knows, none of them measured.
func emptyRow() result.Row {
	row := result.Row{
		"prefix_cache_hit_rate": nil, "preemptions": nil,
		"server_output_tokens": nil, "server_throughput_tok_s": nil,
	}
	for _, name := range latencies {
		for _, stat := range []string{"mean", "p50", "p95", "p99"} {
			row["server_"+stat+"_"+name+"_ms"] = nil
		}
	}
	for _, name := range []string{engine.RequestsRunning, engine.RequestsWaiting, engine.KVCacheUsage} {
		row[name+"_mean"], row[name+"_max"] = nil, nil
	}
	return row
}

// row is what the window saw. bracketed says that both the first and the last
// look succeeded, over apart: without them nobody knows what was gained.
func (w *window) row(bracketed bool, apart time.Duration) result.Row {
	row := emptyRow()
	for _, name := range []string{engine.RequestsRunning, engine.RequestsWaiting, engine.KVCacheUsage} {
		if g := w.gauges[name]; g != nil && g.n > 0 {
			row[name+"_mean"], row[name+"_max"] = g.sum/float64(g.n), g.max
		}
	}
	if !bracketed {
		return row
	}
	if n, ok := w.gained(engine.Preemptions); ok {
		row["preemptions"] = int64(math.Round(n))
	}
	if n, ok := w.gained(engine.GenerationTokens); ok {
		row["server_output_tokens"] = int64(math.Round(n))
		if apart > 0 {
			row["server_throughput_tok_s"] = n / apart.Seconds()
		}
	}
	hits, ok := w.gained(engine.PrefixHits)
	queries, ok2 := w.gained(engine.PrefixQueries)
	if ok && ok2 && queries > 0 {
		row["prefix_cache_hit_rate"] = hits / queries
	}
	for _, name := range latencies {
		w.latency(row, name)
	}
	return row
}

func (w *window) latency(row result.Row, name string) {
	h := w.hists[name]
	gain, ok := h.merged()
	if !ok || gain.count <= 0 {
		return
	}
	ms := 1000 * h.scale
	if mean := gain.sum / gain.count; !math.IsNaN(mean) && !math.IsInf(mean, 0) {
		row["server_mean_"+name+"_ms"] = mean * ms
	}
	for _, p := range []struct {
		name string
		q    float64
	}{{"p50", 0.50}, {"p95", 0.95}, {"p99", 0.99}} {
		if v, ok := gain.quantile(p.q); ok {
			row["server_"+p.name+"_"+name+"_ms"] = v * ms
		}
	}
}

// gained is what a counter grew by over the window.
func (w *window) gained(name string) (float64, bool) {
	c := w.counters[name]
	if c == nil || c.unknown || c.incomplete || len(c.last) == 0 {
		return 0, false
	}
	return c.gain * c.scale, true
}

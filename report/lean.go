package report

import (
	"strings"
	"sync"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// lean is an outcome's row without what is null and without the numbers that no report
// shows or concludes from: four of five columns of a measured trial. A row of the first
// method keeps all.
func lean(o *result.Outcome) result.Row {
	unread := unread()
	whole := o.Row.Whole()
	keep := func(name string) bool { return whole || !unread[name] || judged(o.SLOs, name) }
	n := 0
	for name, v := range o.Row {
		if v != nil && keep(name) {
			n++
		}
	}
	kept := make(result.Row, n)
	for name, v := range o.Row {
		if v != nil && keep(name) {
			kept[name] = v
		}
	}
	return kept
}

// judged says whether an objective of the trial has a column.
func judged(slos []result.SLOResult, name string) bool {
	for _, o := range slos {
		if _, ok := o.Values[name]; ok {
			return true
		}
		for _, p := range o.Parts {
			if p.Column == name {
				return true
			}
		}
	}
	return false
}

// latencies are those of which reports show percentiles, and statistics those that they show.
var (
	latencies  = []string{"ttft", "tpot", "itl", "icl", "e2e"}
	statistics = []string{"mean", "p50", "p95", "p99"}
)

// numbers are the columns of numbers outside the tier core that reports read by their
// names.
var numbers = []string{
	col.MeanTTFTMsWhole,
	col.TotalThroughputTokS,
	col.ThroughputDrift,
	col.TTFTDrift,
	col.TPOTDrift,
	col.StartUpS,
	col.StampErrorMs,
	col.ServerThroughputTokS,
	col.ServerResponseBytes,
	col.ServerRequestBytes,
	col.ServerReportedThroughputTokS,
	col.Preemptions,
	col.PlateauS,
	col.PlateauRequests,
	col.P99ClientLagMs,
	col.P50UserTokS,
	col.MetricNames,
	col.MetricLines,
	col.Method,
	col.MeanServerTTFTMs,
	col.MeanServerTPOTMs,
	col.MeanServerQueueMs,
	col.MeanServerPrefillMs,
	col.MeanServerITLMs,
	col.MeanServerE2EMs,
	col.MeanServerDecodeMs,
	col.MaxRTTMs,
	col.Launch,
	col.KVCacheTokens,
	col.KVCacheBlocks,
	col.JoulesPerOutputToken,
	col.EngineUptimeS,
	col.ClientCPU,
	col.CancelledPlanned,
	col.Cancelled,
	col.CalibratedErrorMs,
}

// unread are the columns of the registry that a lean row leaves out.
var unread = sync.OnceValue(func() map[string]bool {
	read := map[string]bool{}
	add := func(name string) { read[name], read[name+col.LowSuffix], read[name+col.HighSuffix] = true, true, true }
	for _, name := range numbers {
		add(name)
	}
	for _, l := range latencies {
		for _, s := range statistics {
			add(col.Latency(s, l))
		}
	}
	all, registry := map[string]bool{}, result.Columns(result.Extra{})
	for _, c := range registry {
		base := strings.TrimSuffix(strings.TrimSuffix(c.Name, col.LowSuffix), col.HighSuffix)
		if b, ok := result.Lookup(registry, base); ok && b.Tier == result.Core {
			continue
		}
		if number := c.Type == result.Int || c.Type == result.Float; number && !read[c.Name] {
			all[c.Name] = true
		}
	}
	return all
})

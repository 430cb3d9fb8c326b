package report

import (
	"slices"
	"sync"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Unpack gives the trials of [OpenPacked] their rows, as those of [OpenLean]. Another run
// has them.
func (r *Run) Unpack() {
	if !r.bare {
		return
	}
	r.bare = false
	outcomes, n := r.Outcomes(), 0
	for row := range r.packed.All() {
		outcomes[n].Row = lean(row, outcomes[n].SLOs, len(r.Resolved.Searches) > 0)
		n++
	}
}

// lean returns a row, of a trial with objectives, without what is null and without the numbers
// that no report shows or concludes from: four of five columns of a measured trial. Those of
// [ofSearches] stay only if searched, those of [ofDevices] only beside a fingerprint, those of
// [ofRoles] only of an engine that has both roles.
func lean(row result.Row, slos []result.SLOResult, searched bool) result.Row {
	unread := unread()
	printed := row[col.DevicePrefillMs] != nil || row[col.DeviceDecodeMs] != nil
	apart := row[col.PD] == result.PDProven || row[col.PD] == result.PDPartial || row[col.PD] == result.PDAbsent || row[col.PD] == result.PDUnknown
	keep := func(name string) bool {
		left := unread[name] || !searched && slices.Contains(ofSearches, name) || !printed && slices.Contains(ofDevices, name) ||
			!apart && !searched && slices.Contains(ofRoles, name)
		return !left || judged(slos, name)
	}
	n := 0
	for name, v := range row {
		if v != nil && keep(name) {
			n++
		}
	}
	kept := make(result.Row, n)
	for name, v := range row {
		if v != nil && keep(name) {
			kept[name] = v
		}
	}
	return kept
}

// judged reports whether an objective of the trial has a column.
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
	latencies  = []string{"ttft", "tpot", "e2e"}
	statistics = []string{"p50", "p95", "p99"}
)

// numbers are the columns of numbers that reports read by their names.
var numbers = []string{
	col.Concurrency,
	col.MaxTokens,
	col.RequestRate,
	col.GPUCount,
	col.Trial,
	col.ThroughputTokS,
	col.RequestThroughput,
	col.GoodputReqS,
	col.Requests,
	col.Completed,
	col.Failed,
	col.ErrorRate,
	col.DurationS,
	col.USDPerHour,
	col.USDPer1MOutputTokens,
	col.MeanTTFTMs,
	col.MeanTPOTMs,
	col.MeanE2EMs,
	col.MeanTTFTMsWhole,
	col.TotalThroughputTokS,
	col.ThroughputDrift,
	col.TTFTDrift,
	col.TPOTDrift,
	col.StartUpS,
	col.DevicePrefillMs,
	col.DeviceDecodeMs,
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

// ofSearches are those that are read of a run with searches alone. Go makes a map of more
// than 112 keys twice as large, and a row of another run has nearly as many.
var ofSearches = []string{
	col.GoodShare, // or where an objective has it
	col.MeanRequestsWaiting,
	col.MaxRequestsRunning,
	col.MaxKVCacheUsage,
	col.MeanRequestsRunning,
	col.CostUSD,
	col.ServerBusiestThreadCPU,
	col.MeanGPUUtil,
	col.MeanGPUMemoryBandwidthUtil,
	col.P50RTTMs,
	col.TCPRetransmits,
	col.P95ServerTTFTMs,
	col.P99ServerTTFTMs,
	col.Pods,
	col.SpecAcceptLength,
}

// ofDevices are read of a trial alone whose launch was asked for its fingerprint.
var ofDevices = []string{
	col.MinGPUPowerLimitW,
	col.MinGPUClockLimitMHz,
}

// ofRoles are null but of engines that have servers for prefill and for decode.
var ofRoles = []string{
	col.PD,
	col.PDShare,
}

// unread are the columns of the registry that a lean row leaves out.
var unread = sync.OnceValue(func() map[string]bool {
	read := map[string]bool{}
	add := func(name string) { read[name], read[name+col.LowSuffix], read[name+col.HighSuffix] = true, true, true }
	for _, name := range slices.Concat(numbers, ofSearches, ofDevices, ofRoles) {
		add(name)
	}
	for _, l := range latencies {
		for _, s := range statistics {
			add(col.Latency(s, l))
		}
	}
	all := map[string]bool{}
	for _, c := range result.Columns(result.Extra{}) {
		if number := c.Type == result.Int || c.Type == result.Float; number && !read[c.Name] {
			all[c.Name] = true
		}
	}
	return all
})

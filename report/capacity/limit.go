package capacity

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result/col"
)

// A Limit is what limits a server, by counters of its own and of its machine.
type Limit struct {
	By   string   // a name of the table, or "unknown"
	Says []string // columns with their figures, which say it
}

const unknownLimit = "unknown"

// A sign is one limit and the figures that show it. All must hold, and if there are
// latencies, a missed part of the objective must be about one of them.
type sign struct {
	by    string
	holds []bound
	about []string // latencies whose columns a missed part names; nil for any
	real  bool     // not of a simulated engine, whose processes work otherwise
}

// A bound is a figure that is at least, or at most, so much: a number, or a share of
// another column.
type bound struct {
	column  string
	least   float64
	of      string // the column of which least is a share; "" for none
	most    bool   // least is the most
	unknown bool   // it holds too if nobody measured the column
}

// signs are in the order in which they are looked for: the first that all holds for is
// named. Each rests on counters of the engine or of the machine alone, never on a latency
// that the client measured.
//
// A queue is no reason while the processor of the host is the one that serves it, so that
// stands before it. A thread that waits for a GPU in a loop is busy, too: where the GPU's
// use is known, it must be idle a part of the time. Decoding reads all weights in each step,
// so that latencies between tokens are limited by it where neither a queue nor the cache
// nor prefill is.
var signs = []sign{
	{by: "kv_cache", holds: []bound{{column: col.Preemptions, least: 1}, {column: col.MaxKVCacheUsage, least: 0.9}}},
	{by: "kv_cache", holds: []bound{{column: col.MaxKVCacheUsage, least: 0.97}, {column: col.MeanRequestsWaiting, least: 1}}},
	{by: "host_cpu", real: true, holds: []bound{
		{column: col.ServerBusiestThreadCPU, least: 0.9}, {column: col.MeanGPUUtil, least: 60, most: true, unknown: true},
	}},
	{by: "link", holds: []bound{{column: col.P50RTTMs, least: 1, of: col.MeanServerTTFTMs}}},
	{by: "link", holds: []bound{{column: col.TCPRetransmits, least: 0.05, of: col.Requests}}},
	{by: "queue", holds: []bound{{column: col.MeanRequestsWaiting, least: 0.5, of: col.MeanRequestsRunning}}},
	{by: "queue", holds: []bound{{column: col.MeanServerQueueMs, least: 0.5, of: col.MeanServerTTFTMs}}},
	{by: "prefill", holds: []bound{{column: col.MeanServerPrefillMs, least: 0.5, of: col.MeanServerTTFTMs}}, about: []string{"ttft", "ttfo"}},
	{by: "decode_bandwidth", holds: []bound{{column: col.MeanGPUMemoryBandwidthUtil, least: 80}}, about: betweenTokens},
	{by: "decode", holds: []bound{{column: col.MeanServerDecodeMs, least: 0.8, of: col.MeanServerE2EMs}}, about: betweenTokens},
	{by: "prefill", holds: []bound{{column: col.MeanServerPrefillMs, least: 0.5, of: col.MeanServerE2EMs}}},
}

// betweenTokens are the latencies that steps of decoding make up.
var betweenTokens = []string{"tpot", "itl", "icl", "e2e"}

// limits are the names of the signs, each once.
func limits() []string {
	var names []string
	for _, s := range signs {
		if !slices.Contains(names, s.by) {
			names = append(names, s.by)
		}
	}
	return names
}

// limitOf names what limits a server in some trials that missed parts of an objective.
func limitOf(trials []report.Trial, missed []string) *Limit {
	for _, s := range signs {
		if s.about != nil && !slices.ContainsFunc(missed, func(part string) bool { return about(part, s.about) }) {
			continue
		}
		if s.real && slices.ContainsFunc(trials, func(t report.Trial) bool { return t.Outcome.Row[col.Simulated] == true }) {
			continue
		}
		if says, ok := s.says(trials); ok {
			return &Limit{By: s.by, Says: says}
		}
	}
	return &Limit{By: unknownLimit}
}

// about says whether an expression names a column of one of the latencies.
func about(expr string, latencies []string) bool {
	return slices.ContainsFunc(latencies, func(l string) bool { return strings.Contains(expr, "_"+l+"_ms") })
}

// says are the figures of a sign, and whether it holds.
func (s sign) says(trials []report.Trial) (says []string, holds bool) {
	value := func(column string) (float64, bool) {
		row := mean(trials, []string{column})
		return row.Number(column)
	}
	for _, b := range s.holds {
		v, known := value(b.column)
		if !known && b.unknown {
			continue
		}
		bound, text := b.least, fmt.Sprintf("%s %s", b.column, humanize.Figure(v))
		if b.of != "" {
			whole, ok := value(b.of)
			known = known && ok
			bound *= whole
			text += fmt.Sprintf(" of %s %s", b.of, humanize.Figure(whole))
		}
		switch {
		case !known, b.most && v > bound, !b.most && (v < bound || v <= 0):
			return nil, false
		}
		says = append(says, text)
	}
	return says, true
}

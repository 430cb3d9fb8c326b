package capacity

import (
	"fmt"

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

// A sign is one limit and the figures that show it. All must hold.
type sign struct {
	by    string
	holds []bound
}

// A bound is a figure that is at least so much: a number, or a share of another column.
type bound struct {
	column string
	least  float64
	of     string // the column of which least is a share; "" for none
}

// signs are in the order in which they are looked for: the first that all holds for is
// named. Each rests on counters of the engine or of the machine alone, never on a latency
// that the client measured.
var signs = []sign{
	{"kv_cache", []bound{{column: col.Preemptions, least: 1}, {column: col.MaxKVCacheUsage, least: 0.9}}},
	{"kv_cache", []bound{{column: col.MaxKVCacheUsage, least: 0.97}, {column: col.MeanRequestsWaiting, least: 1}}},
	{"queue", []bound{{column: col.MeanRequestsWaiting, least: 0.5, of: col.MeanRequestsRunning}}},
	{"queue", []bound{{column: col.MeanServerQueueMs, least: 0.5, of: col.MeanServerTTFTMs}}},
	{"prefill", []bound{{column: col.MeanServerPrefillMs, least: 0.5, of: col.MeanServerTTFTMs}}},
}

// limits are the names of the signs, each once.
func limits() []string {
	var names []string
	for _, s := range signs {
		if len(names) == 0 || names[len(names)-1] != s.by {
			names = append(names, s.by)
		}
	}
	return names
}

// limitOf names what limits a server in some trials.
func limitOf(trials []report.Trial) *Limit {
	value := func(column string) (float64, bool) {
		row := mean(trials, []string{column})
		return row.Number(column)
	}
	for _, s := range signs {
		l := Limit{By: s.by}
		for _, b := range s.holds {
			v, ok := value(b.column)
			least := b.least
			text := fmt.Sprintf("%s %s", b.column, humanize.Figure(v))
			if b.of != "" {
				whole, known := value(b.of)
				ok = ok && known
				least *= whole
				text += fmt.Sprintf(" of %s %s", b.of, humanize.Figure(whole))
			}
			if !ok || v < least || v <= 0 {
				l.Says = nil
				break
			}
			l.Says = append(l.Says, text)
		}
		if l.Says != nil {
			return &l
		}
	}
	return &Limit{By: unknownLimit}
}

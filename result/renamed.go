package result

import (
	"slices"
	"strings"

	"sweep.dev/sweep/result/col"
)

// A Renaming is a column that had another name in rows of method 1.
type Renaming struct{ Before, Today string }

// Renamings are all columns that had another name, in the order of the table. A
// name may be that of another column today: the plain names were of the whole
// trial. What is listed here stays: somebody has such a run directory.
func Renamings() []Renaming {
	today := map[string]string{
		"in_flight_mean":                 col.MeanInFlight,
		"requests_running_mean":          col.MeanRequestsRunning,
		"requests_running_max":           col.MaxRequestsRunning,
		"requests_waiting_mean":          col.MeanRequestsWaiting,
		"requests_waiting_max":           col.MaxRequestsWaiting,
		"kv_cache_usage_mean":            col.MeanKVCacheUsage,
		"kv_cache_usage_max":             col.MaxKVCacheUsage,
		"prefill_bootstrap_queue_max":    col.MaxPrefillBootstrapQueue,
		"prefill_inflight_queue_max":     col.MaxPrefillInflightQueue,
		"decode_prealloc_queue_max":      col.MaxDecodePreallocQueue,
		"decode_transfer_queue_max":      col.MaxDecodeTransferQueue,
		"gpu_util_mean":                  col.MeanGPUUtil,
		"gpu_util_max":                   col.MaxGPUUtil,
		"gpu_memory_used_max_bytes":      col.MaxGPUMemoryUsedBytes,
		"gpu_power_mean_w":               col.MeanGPUPowerW,
		"gpu_temp_max_c":                 col.MaxGPUTempC,
		"gpu_memory_free_min_bytes":      col.MinGPUMemoryFreeBytes,
		"gpu_memory_bandwidth_util_mean": col.MeanGPUMemoryBandwidthUtil,
		"gpu_clock_mean_mhz":             col.MeanGPUClockMHz,
		"client_max_stall_ms":            col.MaxClientStallMs,
	}
	for _, latency := range serverLatencies {
		for _, statistic := range serverStatistics {
			today["server_"+col.Latency(statistic.name, latency.name)] = col.ServerLatency(statistic.name, latency.name)
		}
	}
	for _, name := range []string{col.TotalThroughputTokS, col.P50UserTokS, col.USDPer1MOutputTokens} {
		today[name] = name + col.WholeSuffix
	}
	for _, name := range []string{col.ThroughputTokS, col.RequestThroughput, col.GoodputReqS} {
		today[name], today[name+plateauSuffix] = name+col.WholeSuffix, name
	}
	for _, latency := range latencies {
		for _, statistic := range statistics {
			name := col.Latency(statistic.name, latency.name)
			today[name], today[name+plateauSuffix] = name+col.WholeSuffix, name+col.CompletedSuffix
			if latency.ours() {
				today[name+plateauSuffix] = name
			}
		}
	}
	before := make(map[string]string, len(today))
	for b, t := range today {
		before[t] = b
	}
	var list []Renaming
	for _, c := range Columns(Extra{}) {
		if b, ok := before[c.Name]; ok {
			list = append(list, Renaming{Before: b, Today: c.Name})
		}
	}
	return list
}

// The suffixes that columns of method 1 had.
const (
	plateauSuffix = "_plateau"
	// With failures counted as infinite, over the whole trial. No column of today
	// is that; in rows of method 1 the name stands as it was.
	censoredSuffix = "_censored"
)

// A renamer turns names of method 1 into those of today.
type renamer struct {
	tiers map[string]Tier   // of the registry's columns
	today map[string]string // by the old name
	roles []Renaming        // those that each role has too
}

func newRenamer() renamer {
	r := renamer{tiers: make(map[string]Tier), today: make(map[string]string)}
	for _, c := range Columns(Extra{}) {
		r.tiers[c.Name] = c.Tier
	}
	servers := server()
	for _, n := range Renamings() {
		r.today[n.Before] = n.Today
		if _, ok := Lookup(servers, n.Today); ok {
			r.roles = append(r.roles, n)
		}
	}
	return r
}

// name is the name that a column has today, also one of a role; its own if it had
// no other.
func (r renamer) name(name string) string {
	if today, ok := r.today[name]; ok {
		return today
	}
	if _, ok := r.tiers[name]; ok || ofPlan(name) {
		return name
	}
	for _, n := range r.roles {
		if role, ok := strings.CutSuffix(name, "_"+n.Before); ok {
			return col.OfRole(role, n.Today)
		}
	}
	return name
}

// ofPlan tells columns of objectives and arguments from those of a role: people
// name an objective after its column, slo_kv_cache_usage_max.
func ofPlan(name string) bool {
	return slices.ContainsFunc([]string{col.OfSLO(""), "arg_", "env_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// ofObjective says whether a column is the verdict on one objective, which was a truth
// value before.
func ofObjective(name string) bool {
	return name != col.SLOPass && strings.HasPrefix(name, col.OfSLO(""))
}

// row is a row with the names of today, wherever they stand.
func (r renamer) row(row Row) Row {
	out := make(Row, len(row))
	for name, v := range row {
		name = r.name(name)
		if text, ok := v.(string); ok {
			switch {
			case strings.HasSuffix(name, col.ServerPercentileBounds):
				v = r.bounds(text)
			case name == col.LowConfidence && text != "":
				v = strings.Join(r.names(strings.Split(text, ",")), ",")
			}
		}
		if pass, ok := v.(bool); ok && ofObjective(name) {
			v = verdictOf(pass)
		}
		out[name] = v
	}
	return out
}

func (r renamer) names(names []string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] = r.name(out[i])
	}
	return out
}

// bounds are the entries of a column of bounds, with the names of today.
func (r renamer) bounds(text string) string {
	entries := strings.Split(text, boundSeparator)
	for i, entry := range entries {
		if column, bounds, ok := strings.Cut(entry, " "); ok {
			entries[i] = r.name(column) + " " + bounds
		}
	}
	return strings.Join(entries, boundSeparator)
}

// Today returns the current name of a renamed column; any other name is returned
// unchanged.
func Today(name string) string {
	r := newRenamer()
	if _, ok := r.tiers[name]; ok {
		return name
	}
	if plain, ok := strings.CutSuffix(name, censoredSuffix); ok && r.tiers[plain] != "" {
		return plain // it counts failures as infinite
	}
	return r.name(name)
}

// Figure is the column of this row that has what people know by the name column:
// in a row of method 1, of which plain figures were of the whole trial, that with
// the suffix _whole, if there is one.
func (r Row) Figure(column string) string {
	if whole := column + col.WholeSuffix; r.Whole() && r[whole] != nil {
		return whole
	}
	return column
}

// Modern brings an outcome of method 1 up to date: it renames its columns everywhere.
// It does not change an outcome that has a method.
func (o *Outcome) Modern() {
	if o.Row[col.Method] != nil {
		return
	}
	r := newRenamer()
	o.Row = r.row(o.Row)
	o.Row[col.Method] = int64(1)
	for i := range o.SLOs {
		s := &o.SLOs[i]
		s.modern()
		s.LowConfidence = r.names(s.LowConfidence)
		if s.Values != nil {
			s.Values = r.row(s.Values)
		}
	}
}

// Modern brings the columns of a run up to date that was made by a method: their
// names, the column method, and tiers if there were none.
func Modern(cols []Column, method int) []Column {
	if MethodOf(method) > 1 {
		return cols
	}
	r, servers := newRenamer(), server()
	tier := func(c Column, before string) Tier {
		if c.Tier != "" {
			return c.Tier
		}
		for _, name := range []string{before, c.Name} { // the plain name was what a person reads
			if tier, ok := r.tiers[name]; ok {
				return tier
			}
		}
		ofRole := func(s Column) bool { return strings.HasSuffix(c.Name, col.OfRole("", s.Name)) }
		if !ofPlan(c.Name) && slices.ContainsFunc(servers, ofRole) {
			return Full
		}
		return Core // an axis or an objective of the plan
	}
	said, _ := Lookup(given(identity()), col.Method)
	said.Tier = r.tiers[col.Method]
	out := make([]Column, 0, len(cols)+1)
	for _, c := range cols {
		before := c.Name
		c.Name = r.name(before)
		if ofObjective(c.Name) {
			c.Type = String
		}
		c.Tier = tier(c, before)
		out = append(out, c)
		if c.Name == col.SpecDigest {
			out = append(out, said)
		}
	}
	return out
}

package result

import (
	"slices"
	"strings"

	"sweep.dev/sweep/result/col"
)

// A Renaming is a column that had another name: run directories and plans of
// before have it.
type Renaming struct{ Before, Today string }

// Renamings are all columns that had another name, in the order of the table.
// What is listed here stays: somebody has such a run directory.
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

// A renamer turns names of before into those of today.
type renamer struct {
	tiers map[string]Tier   // of the registry's columns
	today map[string]string // by the name of before
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
	if _, ok := r.tiers[name]; ok {
		return name
	}
	if today, ok := r.today[name]; ok {
		return today
	}
	if ofPlan(name) {
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

// row is a row with the names of today.
func (r renamer) row(row Row) Row {
	out := make(Row, len(row))
	for name, v := range row {
		name = r.name(name)
		if text, ok := v.(string); ok && strings.HasSuffix(name, col.ServerPercentileBounds) {
			v = r.bounds(text)
		}
		out[name] = v
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

// Today is the name that a column of before has today; its own if it had no
// other.
func Today(name string) string { return newRenamer().name(name) }

// Modern brings the outcome of a run of before up to date: the names of its
// columns, wherever they stand.
func (o *Outcome) Modern() {
	r := newRenamer()
	o.Row = r.row(o.Row)
	for i := range o.SLOs {
		if o.SLOs[i].Values != nil {
			o.SLOs[i].Values = r.row(o.SLOs[i].Values)
		}
	}
}

// Modern brings the columns of a run of before up to date: their names, and
// their tiers, which there were none of.
func Modern(cols []Column) []Column {
	r, servers := newRenamer(), server()
	out := slices.Clone(cols)
	for i := range out {
		c := &out[i]
		c.Name = r.name(c.Name)
		if c.Tier != "" {
			continue
		}
		c.Tier = Core // an axis or an objective of the plan
		ofRole := func(s Column) bool { return strings.HasSuffix(c.Name, col.OfRole("", s.Name)) }
		if tier, ok := r.tiers[c.Name]; ok {
			c.Tier = tier
		} else if !ofPlan(c.Name) && slices.ContainsFunc(servers, ofRole) {
			c.Tier = Full
		}
	}
	return out
}

// WithBefore notes with columns the names that they had before, for a plan of
// before.
func WithBefore(cols []Column) []Column {
	r := newRenamer()
	before := make(map[string]string)
	for b, today := range r.today {
		before[today] = b
	}
	out := slices.Clone(cols)
	for i := range out {
		c := &out[i]
		c.Before = before[c.Name]
		if _, ok := r.tiers[c.Name]; ok {
			continue
		}
		for _, n := range r.roles {
			if role, ok := strings.CutSuffix(c.Name, "_"+n.Today); ok {
				c.Before = col.OfRole(role, n.Before)
			}
		}
	}
	return out
}

package server

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/sim/core"
)

// A board is what nvidia-smi would see of one simulated GPU. Power follows the
// load of the last second, the temperature follows the power.
type board struct {
	mu   sync.Mutex
	temp float64
	at   time.Time
}

// Shares of the power between idle and TDP, and the thermal model: chosen, such
// that a full prefill comes close to TDP, decode to about 60 % of it, and a
// busy card to 40 degrees above the room in half a minute.
const (
	powerBusy, powerMemory, powerCompute = 0.15, 0.40, 0.60
	roomTemp, tempRise                   = 28.0, 42.0
	thermalTime                          = 15 * time.Second
)

// view is the state that the fields of a query show.
type view struct {
	s            *Server
	index        int
	busy, memory float64 // shares of the last second
	power, temp  float64
	used, total  int64 // MiB
	reserved     int64
}

func (s *Server) view(index int) view {
	busy, memory, compute := s.engine.Load()
	g := s.cfg.Core.GPU
	share := math.Min(1, powerBusy*busy+powerMemory*memory+powerCompute*compute)
	v := view{s: s, index: index, busy: busy, memory: memory, power: g.IdleW + (g.TDP-g.IdleW)*share}
	v.total, v.reserved = g.MemoryMiB, core.DriverReserve>>20
	v.used = (s.cfg.Core.UsedBytes() + s.cfg.Faults.BusyBytes) >> 20

	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	now := time.Now()
	target := roomTemp + tempRise*v.power/g.TDP
	if s.board.at.IsZero() {
		s.board.temp = target
	}
	s.board.temp += (target - s.board.temp) * (1 - math.Exp(-now.Sub(s.board.at).Seconds()/thermalTime.Seconds()))
	s.board.at, v.temp = now, s.board.temp
	return v
}

func (v view) mhz() int {
	if v.busy > 0.01 {
		return v.s.cfg.Core.GPU.MaxSMMHz
	}
	return 210
}

// uuid is the same for the same GPU, index and seed.
func (v view) uuid() string {
	h := fnv.New128a()
	fmt.Fprintf(h, "%s/%d/%d", v.s.cfg.Core.GPU.Name, v.index, v.s.cfg.Core.Seed)
	b := h.Sum(nil)
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// A field is one column of --query-gpu.
type field struct {
	unit  string
	value func(view) string
}

func constant(s string) func(view) string { return func(view) string { return s } }

// fields are the columns that a query may name; nvidia-smi has about 200 more.
var fields = map[string]field{
	"timestamp":               {"", func(view) string { return time.Now().Format("2006/01/02 15:04:05.000") }},
	"driver_version":          {"", constant("590.48.01")},
	"count":                   {"", func(v view) string { return strconv.Itoa(v.s.cfg.Core.GPUs) }},
	"name":                    {"", func(v view) string { return v.s.cfg.Core.GPU.Product }},
	"gpu_name":                {"", func(v view) string { return v.s.cfg.Core.GPU.Product }},
	"uuid":                    {"", view.uuid},
	"gpu_uuid":                {"", view.uuid},
	"index":                   {"", func(v view) string { return strconv.Itoa(v.index) }},
	"serial":                  {"", constant("[N/A]")},
	"pci.bus_id":              {"", func(v view) string { return fmt.Sprintf("00000000:%02X:00.0", v.index+1) }},
	"compute_cap":             {"", func(v view) string { return v.s.cfg.Core.GPU.ComputeCapability }},
	"mig.mode.current":        {"", constant("[N/A]")},
	"persistence_mode":        {"", constant("Enabled")},
	"utilization.gpu":         {"%", func(v view) string { return percent(v.busy) }},
	"utilization.memory":      {"%", func(v view) string { return percent(v.memory) }},
	"memory.total":            {"MiB", func(v view) string { return strconv.FormatInt(v.total, 10) }},
	"memory.used":             {"MiB", func(v view) string { return strconv.FormatInt(v.used, 10) }},
	"memory.free":             {"MiB", func(v view) string { return strconv.FormatInt(v.total-v.used-v.reserved, 10) }},
	"memory.reserved":         {"MiB", func(v view) string { return strconv.FormatInt(v.reserved, 10) }},
	"power.draw":              {"W", func(v view) string { return fmt.Sprintf("%.2f", v.power) }},
	"power.draw.average":      {"W", func(v view) string { return fmt.Sprintf("%.2f", v.power) }},
	"power.draw.instant":      {"W", func(v view) string { return fmt.Sprintf("%.2f", v.power) }},
	"power.limit":             {"W", func(v view) string { return fmt.Sprintf("%.2f", v.s.cfg.Core.GPU.TDP) }},
	"enforced.power.limit":    {"W", func(v view) string { return fmt.Sprintf("%.2f", v.s.cfg.Core.GPU.TDP) }},
	"temperature.gpu":         {"", func(v view) string { return strconv.Itoa(int(v.temp)) }},
	"temperature.memory":      {"", constant("N/A")},
	"fan.speed":               {"%", constant("[N/A]")},
	"pstate":                  {"", func(v view) string { return map[bool]string{true: "P0", false: "P8"}[v.mhz() > 210] }},
	"clocks.sm":               {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.current.sm":       {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.gr":               {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.current.graphics": {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.max.sm":           {"MHz", func(v view) string { return strconv.Itoa(v.s.cfg.Core.GPU.MaxSMMHz) }},
	"clocks_event_reasons.active": {"", func(v view) string {
		return map[bool]string{true: "0x0000000000000000", false: "0x0000000000000001"}[v.mhz() > 210]
	}},
	"clocks_event_reasons.gpu_idle": {"", func(v view) string {
		return map[bool]string{true: "Not Active", false: "Active"}[v.mhz() > 210]
	}},
	"clocks_event_reasons.sw_power_cap":                     {"", constant("Not Active")},
	"clocks_event_reasons.hw_slowdown":                      {"", constant("Not Active")},
	"clocks_event_reasons.hw_thermal_slowdown":              {"", constant("Not Active")},
	"clocks_event_reasons.hw_power_brake_slowdown":          {"", constant("Not Active")},
	"clocks_event_reasons.sw_thermal_slowdown":              {"", constant("Not Active")},
	"clocks_event_reasons_counters.sw_power_cap":            {"us", constant("0")},
	"clocks_event_reasons_counters.sync_boost":              {"us", constant("0")},
	"clocks_event_reasons_counters.sw_thermal_slowdown":     {"us", constant("0")},
	"clocks_event_reasons_counters.hw_thermal_slowdown":     {"us", constant("0")},
	"clocks_event_reasons_counters.hw_power_brake_slowdown": {"us", constant("0")},
	"ecc.errors.uncorrected.volatile.total":                 {"", constant("0")},
	"ecc.errors.corrected.volatile.total":                   {"", constant("0")},
}

func percent(share float64) string { return strconv.Itoa(int(math.Round(100 * share))) }

// nvidiaSMI answers /sim/nvidia-smi?query=A,B&format=csv,noheader,nounits with
// what `nvidia-smi --query-gpu=A,B --format=...` would print. Where that would
// fail the status is 400 and the body what it would say.
func (s *Server) nvidiaSMI(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Core.GPU.Vendor != "nvidia" {
		http.Error(w, "nvidia-smi: command not found", http.StatusNotFound)
		return
	}
	format := r.URL.Query().Get("format")
	if format == "" {
		format = "csv,noheader,nounits"
	}
	noHeader, noUnits := strings.Contains(format, "noheader"), strings.Contains(format, "nounits")
	names := strings.Split(r.URL.Query().Get("query"), ",")
	var header []string
	for i, n := range names {
		names[i] = strings.TrimSpace(n)
		f, ok := fields[names[i]]
		if !ok {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, "Field %q is not a valid field to query.\n\n", names[i])
			return
		}
		h := names[i]
		if f.unit != "" && !noUnits {
			h += " [" + f.unit + "]"
		}
		header = append(header, h)
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	if !noHeader {
		fmt.Fprintln(w, strings.Join(header, ", "))
	}
	for i := range s.cfg.Core.GPUs {
		v := s.view(i)
		var row []string
		for _, n := range names {
			f := fields[n]
			cell := f.value(v)
			if f.unit != "" && !noUnits && !strings.HasPrefix(cell, "[") && cell != "N/A" {
				cell += " " + f.unit
			}
			row = append(row, cell)
		}
		fmt.Fprintln(w, strings.Join(row, ", "))
	}
}

package server

import (
	"fmt"
	"hash/fnv"
	"html"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
)

// A board is what nvidia-smi would see of one simulated GPU. Power follows the
// load of the last second, the temperature follows the power.
type board struct {
	mu     sync.Mutex
	temp   float64
	power  float64
	joules float64 // since the engine began, as far as somebody looked
	at     time.Time
}

// Shares of the power between idle and TDP, and the thermal model: chosen, such
// that a full prefill comes close to TDP, decode to about 60 % of it, and a
// busy card to 40 degrees above the room in half a minute.
const (
	powerBusy, powerMemory, powerCompute = 0.15, 0.40, 0.60
	roomTemp, tempRise                   = 28.0, 42.0
	thermalTime                          = 15 * time.Second
	hotTemp                              = 88.0 // where cards of data centres begin to slow down
)

// view is the state that the fields of a query show.
type view struct {
	s            *Server
	index        int
	port         string  // of the server
	busy, memory float64 // shares of the last second
	power, temp  float64
	joules       float64
	used, total  int64 // MiB
	reserved     int64
	hot          bool          // heat holds the clocks down
	throttled    time.Duration // since it did, at work
}

func (s *Server) view(r *http.Request, index int) view {
	busy, memory, compute := s.engine.Load()
	g := s.cfg.Core.GPU
	share := math.Min(1, powerBusy*busy+powerMemory*memory+powerCompute*compute)
	var port string
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		_, port, _ = net.SplitHostPort(local.String())
	}
	v := view{s: s, index: index, port: port, busy: busy, memory: memory, power: g.IdleW + (g.TDP-g.IdleW)*share}
	v.total, v.reserved = g.MemoryMiB, core.DriverReserve>>20
	v.used = (s.cfg.Core.UsedBytes() + s.cfg.Faults.BusyBytes) >> 20

	if worked := s.engine.Stats().Busy; s.cfg.Faults.hotAt(worked) {
		v.hot, v.throttled = true, s.engine.Unscale(worked-s.cfg.Faults.hot)
	}

	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	now := time.Now()
	target := roomTemp + tempRise*v.power/g.TDP
	if s.board.at.IsZero() {
		s.board.temp = target
	}
	s.board.temp += (target - s.board.temp) * (1 - math.Exp(-now.Sub(s.board.at).Seconds()/thermalTime.Seconds()))
	if !s.board.at.IsZero() {
		s.board.joules += (s.board.power + v.power) / 2 * now.Sub(s.board.at).Seconds()
	}
	s.board.at, s.board.power = now, v.power
	v.temp, v.joules = s.board.temp, s.board.joules
	if v.hot {
		v.temp = hotTemp
	}
	return v
}

const idleMHz = 210

func (v view) mhz() int {
	switch most := v.s.cfg.Core.GPU.MaxSMMHz; {
	case v.busy <= 0.01:
		return idleMHz
	case v.hot:
		return max(idleMHz+1, int(float64(most)/v.s.cfg.Faults.slower))
	default:
		return most
	}
}

// slowed reports whether heat is what holds the clocks down at this moment.
func (v view) slowed() bool { return v.hot && v.mhz() > idleMHz }

func active(is bool) string { return map[bool]string{true: "Active", false: "Not Active"}[is] }

// slowdown returns a reason that heat gives.
func slowdown(v view) string { return active(v.slowed()) }

// memoryMHz returns that of GDDR6 in a busy and in an idle card.
func (v view) memoryMHz() int {
	if v.busy > 0.01 {
		return 6251
	}
	return 405
}

// A process is one that the GPU's tools show.
type process struct {
	pid  int
	name string
	mib  int64
}

// strangerPID is above what Linux gives to any process.
const strangerPID = 1<<22 + 1

// processes returns the engine's own, and whose memory a fault made busy.
func (v view) processes() []process {
	busy := v.s.cfg.Faults.BusyBytes >> 20
	list := []process{{os.Getpid(), "VLLM::EngineCore", v.used - busy}}
	if busy > 0 {
		list = append(list, process{strangerPID, "python3", busy})
	}
	return list
}

// uuid returns the same for the same device, or else for the same GPU, index, seed and port:
// servers beside each other have GPUs of their own.
func (v view) uuid() string {
	h := fnv.New128a()
	if v.s.cfg.Device != "" {
		fmt.Fprintf(h, "%s/%d/%s", v.s.cfg.Core.GPU.Name, v.index, v.s.cfg.Device)
	} else {
		fmt.Fprintf(h, "%s/%d/%d/%s", v.s.cfg.Core.GPU.Name, v.index, v.s.cfg.Core.Seed, v.port)
	}
	b := h.Sum(nil)
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

const driverVersion = "590.48.01"

// A field is one column of --query-gpu.
type field struct {
	unit  string
	value func(view) string
}

func constant(s string) func(view) string { return func(view) string { return s } }

// fields are the columns that a query may name; nvidia-smi has about 200 more.
var fields = map[string]field{
	"timestamp":               {"", func(view) string { return time.Now().Format("2006/01/02 15:04:05.000") }},
	"driver_version":          {"", constant(driverVersion)},
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
	"pstate":                  {"", func(v view) string { return map[bool]string{true: "P0", false: "P8"}[v.mhz() > idleMHz] }},
	"clocks.sm":               {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.current.sm":       {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.gr":               {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.current.graphics": {"MHz", func(v view) string { return strconv.Itoa(v.mhz()) }},
	"clocks.mem":              {"MHz", func(v view) string { return strconv.Itoa(v.memoryMHz()) }},
	"clocks.current.memory":   {"MHz", func(v view) string { return strconv.Itoa(v.memoryMHz()) }},
	"clocks.max.sm":           {"MHz", func(v view) string { return strconv.Itoa(v.s.cfg.Core.GPU.MaxSMMHz) }},
	"clocks_event_reasons.active": {"", func(v view) string {
		switch {
		case v.mhz() <= idleMHz:
			return "0x0000000000000001"
		case v.slowed():
			return "0x0000000000000048"
		}
		return "0x0000000000000000"
	}},
	"clocks_event_reasons.gpu_idle": {"", func(v view) string {
		return active(v.mhz() <= idleMHz)
	}},
	"clocks_event_reasons.sw_power_cap":                     {"", constant("Not Active")},
	"clocks_event_reasons.hw_slowdown":                      {"", slowdown},
	"clocks_event_reasons.hw_thermal_slowdown":              {"", slowdown},
	"clocks_event_reasons.hw_power_brake_slowdown":          {"", constant("Not Active")},
	"clocks_event_reasons.sw_thermal_slowdown":              {"", constant("Not Active")},
	"clocks_event_reasons_counters.sw_power_cap":            {"us", constant("0")},
	"clocks_event_reasons_counters.sync_boost":              {"us", constant("0")},
	"clocks_event_reasons_counters.sw_thermal_slowdown":     {"us", constant("0")},
	"clocks_event_reasons_counters.hw_thermal_slowdown":     {"us", func(v view) string { return strconv.FormatInt(v.throttled.Microseconds(), 10) }},
	"clocks_event_reasons_counters.hw_power_brake_slowdown": {"us", constant("0")},
	"ecc.errors.uncorrected.volatile.total":                 {"", constant("0")},
	"ecc.errors.corrected.volatile.total":                   {"", constant("0")},
}

func percent(share float64) string { return strconv.Itoa(int(math.Round(100 * share))) }

// nvidiaSMI answers /sim/nvidia-smi?query=A,B&format=csv,noheader,nounits with
// what `nvidia-smi --query-gpu=A,B --format=...` would print, and ?xml=1 with what
// `nvidia-smi -q -x` would. Where that would fail the status is 400 and the body
// what it would say.
func (s *Server) nvidiaSMI(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Core.GPU.Vendor != "nvidia" {
		http.Error(w, "nvidia-smi: command not found", http.StatusNotFound)
		return
	}
	if r.URL.Query().Get("xml") != "" {
		s.nvidiaXML(w, r)
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
		v := s.view(r, i)
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

// nvidiaXML prints the elements of schema v13 that report state.
func (s *Server) nvidiaXML(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	fmt.Fprintf(w, `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<timestamp>%s</timestamp>
	<driver_version>%s</driver_version>
	<cuda_version>13.1</cuda_version>
	<attached_gpus>%d</attached_gpus>
`, time.Now().Format(time.ANSIC), driverVersion, s.cfg.Core.GPUs)
	for i := range s.cfg.Core.GPUs {
		v := s.view(r, i)
		fmt.Fprintf(w, `	<gpu id="%s">
		<product_name>%s</product_name>
		<mig_mode><current_mig>N/A</current_mig></mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<uuid>%s</uuid>
		<minor_number>%d</minor_number>
		<performance_state>%s</performance_state>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>%s</clocks_event_reason_gpu_idle>
			<clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
			<clocks_event_reason_hw_slowdown>%s</clocks_event_reason_hw_slowdown>
			<clocks_event_reason_hw_thermal_slowdown>%s</clocks_event_reason_hw_thermal_slowdown>
			<clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
			<clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
		</clocks_event_reasons>
		<clocks_event_reasons_counters>
			<clocks_event_reasons_counters_sw_power_cap>0 us</clocks_event_reasons_counters_sw_power_cap>
			<clocks_event_reasons_counters_sync_boost>0 us</clocks_event_reasons_counters_sync_boost>
			<clocks_event_reasons_counters_sw_therm_slowdown>0 us</clocks_event_reasons_counters_sw_therm_slowdown>
			<clocks_event_reasons_counters_hw_therm_slowdown>%d us</clocks_event_reasons_counters_hw_therm_slowdown>
			<clocks_event_reasons_counters_hw_power_brake>0 us</clocks_event_reasons_counters_hw_power_brake>
		</clocks_event_reasons_counters>
		<fb_memory_usage>
			<total>%d MiB</total>
			<reserved>%d MiB</reserved>
			<used>%d MiB</used>
			<free>%d MiB</free>
		</fb_memory_usage>
		<utilization>
			<gpu_util>%s %%</gpu_util>
			<memory_util>%s %%</memory_util>
		</utilization>
		<temperature>
			<gpu_temp>%d C</gpu_temp>
			<memory_temp>N/A</memory_temp>
		</temperature>
		<gpu_power_readings>
			<average_power_draw>%.2f W</average_power_draw>
			<instant_power_draw>%.2f W</instant_power_draw>
			<current_power_limit>%.2f W</current_power_limit>
		</gpu_power_readings>
		<clocks>
			<graphics_clock>%d MHz</graphics_clock>
			<sm_clock>%d MHz</sm_clock>
			<mem_clock>%d MHz</mem_clock>
		</clocks>
		<max_clocks>
			<sm_clock>%d MHz</sm_clock>
		</max_clocks>
		<processes>
`, fields["pci.bus_id"].value(v), html.EscapeString(s.cfg.Core.GPU.Product), v.uuid(), i, fields["pstate"].value(v), active(v.mhz() <= idleMHz),
			slowdown(v), slowdown(v), v.throttled.Microseconds(),
			v.total, v.reserved, v.used, v.total-v.used-v.reserved, percent(v.busy), percent(v.memory), int(v.temp),
			v.power, v.power, s.cfg.Core.GPU.TDP, v.mhz(), v.mhz(), v.memoryMHz(), s.cfg.Core.GPU.MaxSMMHz)
		for _, p := range v.processes() {
			fmt.Fprintf(w, `			<process_info>
				<pid>%d</pid>
				<type>C</type>
				<process_name>%s</process_name>
				<used_memory>%d MiB</used_memory>
			</process_info>
`, p.pid, html.EscapeString(p.name), p.mib)
		}
		fmt.Fprint(w, "\t\t</processes>\n\t</gpu>\n")
	}
	fmt.Fprint(w, "</nvidia_smi_log>\n")
}

// exported are the series of DCGM exporter's own choice: name up to 4.5, name
// since, and type.
var exported = []struct {
	old, since, kind string
	value            func(view) float64
}{
	{"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK", "gauge", func(v view) float64 { return float64(v.mhz()) }},
	{"DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "gauge", func(v view) float64 { return float64(v.memoryMHz()) }},
	{"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "gauge", func(view) float64 { return 9223372036854775794 }}, // blank: the card has no sensor
	{"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "gauge", func(v view) float64 { return math.Trunc(v.temp) }},
	{"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "gauge", func(v view) float64 { return v.power }},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", func(v view) float64 { return math.Trunc(1e3 * v.joules) }},
	{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL", "gauge", func(v view) float64 { return math.Round(100 * v.busy) }},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", func(v view) float64 { return math.Round(100 * v.memory) }},
	{"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "gauge", func(view) float64 { return 0 }},
	{"DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE", "gauge", func(v view) float64 { return float64(v.total - v.used - v.reserved) }},
	{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED", "gauge", func(v view) float64 { return float64(v.used) }},
	{"DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_RESERVED", "gauge", func(v view) float64 { return float64(v.reserved) }},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "gauge", func(v view) float64 { return v.busy }},
	{"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "gauge", func(v view) float64 { return v.memory }},
}

// dcgm answers /sim/dcgm with what DCGM exporter would expose, with the names
// since 4.6 for ?names=new.
func (s *Server) dcgm(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Core.GPU.Vendor != "nvidia" {
		http.Error(w, "there is no GPU that DCGM knows", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, e := range exported {
		name := e.old
		if r.URL.Query().Get("names") == "new" {
			name = e.since
		}
		fmt.Fprintf(w, "# HELP %s The field of this name.\n# TYPE %s %s\n", name, name, e.kind)
		for i := range s.cfg.Core.GPUs {
			v := s.view(r, i)
			fmt.Fprintf(w, "%s{gpu=\"%d\",UUID=%q,pci_bus_id=%q,device=\"nvidia%d\",modelName=%q,Hostname=\"sim\",DCGM_FI_DRIVER_VERSION=%q} %s\n",
				name, i, v.uuid(), fields["pci.bus_id"].value(v), i, s.cfg.Core.GPU.Product, driverVersion, strconv.FormatFloat(e.value(v), 'f', -1, 64))
		}
	}
}

// amdSMI answers /sim/amd-smi?command=metric with what `amd-smi metric --json`
// would print, as of ROCm 6; also list and process.
func (s *Server) amdSMI(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Core.GPU.Vendor != "amd" {
		http.Error(w, "amd-smi: command not found", http.StatusNotFound)
		return
	}
	type object = map[string]any
	unit := func(v any, u string) object { return object{"value": v, "unit": u} }
	var list []object
	for i := range s.cfg.Core.GPUs {
		v := s.view(r, i)
		switch r.URL.Query().Get("command") {
		case "metric":
			list = append(list, object{
				"gpu":         i,
				"usage":       object{"gfx_activity": unit(math.Round(100*v.busy), "%"), "umc_activity": unit(math.Round(100*v.memory), "%"), "mm_activity": "N/A"},
				"power":       object{"socket_power": unit(math.Round(v.power), "W"), "gfx_voltage": "N/A", "throttle_status": "N/A"},
				"clock":       object{"gfx_0": object{"clk": unit(v.mhz(), "MHz")}, "mem_0": object{"clk": unit(1300, "MHz")}},
				"temperature": object{"edge": "N/A", "hotspot": unit(int(v.temp), "C"), "mem": unit(int(v.temp)-5, "C")},
				"energy":      object{"total_energy_consumption": unit(math.Round(1e3*v.joules)/1e3, "J")},
				"mem_usage":   object{"total_vram": unit(v.total, "MB"), "used_vram": unit(v.used, "MB"), "free_vram": unit(v.total-v.used, "MB")},
				"throttle":    object{"prochot_violation_status": "NOT ACTIVE", "ppt_violation_status": "NOT ACTIVE", "socket_thermal_violation_status": strings.ToUpper(slowdown(v)), "hbm_thermal_violation_status": "NOT ACTIVE"},
			})
		case "list":
			list = append(list, object{"gpu": i, "bdf": fields["pci.bus_id"].value(v), "uuid": strings.TrimPrefix(v.uuid(), "GPU-")})
		case "process":
			var running []object
			for _, p := range v.processes() {
				running = append(running, object{"process_info": object{"name": p.name, "pid": p.pid, "mem_usage": unit(p.mib<<20, "B")}})
			}
			list = append(list, object{"gpu": i, "process_list": running})
		default:
			http.Error(w, "Invalid command", http.StatusBadRequest)
			return
		}
	}
	dialect.WriteJSON(w, http.StatusOK, list)
}

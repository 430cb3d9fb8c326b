package gpustate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/exposition"
)

// A dialect is one exporter: what its series mean, and how it says which GPU.
type dialect struct {
	name     string
	prefixes []string // by which it is known; the first that fits is cut off
	series   map[string]meaning
	identify func(p exposition.Point, r *Reading)
	// other reads series that are no plain number, and says whether it knows one.
	other func(name string, p exposition.Point, r *Reading) bool
	// blank says that a value stands for none; may be nil.
	blank func(float64) bool
	// whole are the series that only a whole GPU has. Of a GPU that is cut into
	// parts, and of the parts, their value is none.
	whole []string
}

var dialects = []dialect{
	{
		// Names up to DCGM 4.5 and those since:
		// https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html
		name:     "DCGM exporter",
		prefixes: []string{"DCGM_FI_DEV_", "DCGM_FI_PROF_"},
		series: map[string]meaning{
			"GPU_UTIL":                 {quantity: Util, scale: 1},
			"GR_ENGINE_ACTIVE":         {quantity: Util, scale: 100, rank: 2}, // what a MIG instance has
			"GR_ENGINE_UTIL_RATIO":     {quantity: Util, scale: 100, rank: 2},
			"MEM_COPY_UTIL":            {quantity: Bandwidth, scale: 1},
			"DRAM_ACTIVE":              {quantity: Bandwidth, scale: 100, rank: 1},
			"DRAM_UTIL_RATIO":          {quantity: Bandwidth, scale: 100, rank: 1},
			"FB_USED":                  {quantity: MemoryUsed, scale: mib},
			"FB_TOTAL":                 {quantity: MemoryTotal, scale: mib},
			"FB_FREE":                  {quantity: MemoryFree, scale: mib},
			"FB_RESERVED":              {quantity: MemoryReserved, scale: mib},
			"POWER_USAGE":              {quantity: Power, scale: 1},
			"BOARD_POWER_WATTS":        {quantity: Power, scale: 1},
			"POWER_USAGE_INSTANT":      {quantity: Power, scale: 1, rank: 1},
			"BOARD_POWER_RAW_WATTS":    {quantity: Power, scale: 1, rank: 1},
			"ENFORCED_POWER_LIMIT":     {quantity: PowerLimit, scale: 1},
			"POWER_MGMT_LIMIT":         {quantity: PowerLimit, scale: 1, rank: 1},
			"GPU_TEMP":                 {quantity: Temperature, scale: 1},
			"GPU_TEMP_CELSIUS":         {quantity: Temperature, scale: 1},
			"MEMORY_TEMP":              {quantity: MemoryTemp, scale: 1},
			"MEMORY_TEMP_CELSIUS":      {quantity: MemoryTemp, scale: 1},
			"SM_CLOCK":                 {quantity: ClockSM, scale: 1},
			"MAX_SM_CLOCK":             {quantity: ClockSMLimit, scale: 1},
			"MEM_CLOCK":                {quantity: ClockMemory, scale: 1},
			"THERMAL_VIOLATION":        {quantity: Throttled + thermal, scale: 1e-6}, // ns
			"BOARD_LIMIT_VIOLATION":    {quantity: Throttled + boardLimit, scale: 1e-6},
			"POWER_VIOLATION":          {quantity: Throttled + SWPowerCap, scale: 1e-6},
			"GPU_ENERGY_JOULES_TOTAL":  {quantity: Energy, scale: 1},
			"TOTAL_ENERGY_CONSUMPTION": {quantity: Energy, scale: 1e-3, rank: 1}, // mJ
		},
		identify: func(p exposition.Point, r *Reading) {
			r.UUID = label(p, "UUID", "uuid")
			r.Index = label(p, "gpu")
			r.Name = label(p, "modelName")
			r.Driver = label(p, "DCGM_FI_DRIVER_VERSION")
			r.Part = label(p, "GPU_I_ID")
		},
		other: func(name string, p exposition.Point, r *Reading) bool {
			switch name {
			case "GPU_UTIL_RATIO":
				// A percentage where it is the alias of 4.6, and a ratio since.
				if p.Value > 1 {
					r.Set(Util, p.Value)
				} else {
					r.Set(Util, 100*p.Value)
				}
			case "CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS":
				if p.Value >= 0 && p.Value < 1<<32 {
					r.mask(uint64(p.Value))
				}
			default:
				return false
			}
			return true
		},
		blank: dcgmBlank,
		// DCGM 3.3 has 0 for MIG instances:
		// https://github.com/NVIDIA/dcgm-exporter/issues/216
		whole: []string{"GPU_UTIL", "GPU_UTIL_RATIO", "MEM_COPY_UTIL", "MEM_COPY_UTIL_RATIO"},
	},
	{
		// https://github.com/utkuozdemir/nvidia_gpu_exporter/blob/master/METRICS.md
		name:     "nvidia_gpu_exporter",
		prefixes: []string{"nvidia_smi_"},
		series: map[string]meaning{
			"utilization_gpu_ratio":                 {quantity: Util, scale: 100},
			"utilization_memory_ratio":              {quantity: Bandwidth, scale: 100},
			"memory_used_bytes":                     {quantity: MemoryUsed, scale: 1},
			"memory_total_bytes":                    {quantity: MemoryTotal, scale: 1},
			"memory_free_bytes":                     {quantity: MemoryFree, scale: 1},
			"memory_reserved_bytes":                 {quantity: MemoryReserved, scale: 1},
			"power_draw_watts":                      {quantity: Power, scale: 1},
			"power_draw_average_watts":              {quantity: Power, scale: 1, rank: 1},
			"power_draw_instant_watts":              {quantity: Power, scale: 1, rank: 2},
			"enforced_power_limit_watts":            {quantity: PowerLimit, scale: 1},
			"power_limit_watts":                     {quantity: PowerLimit, scale: 1, rank: 1},
			"energy_joules_total":                   {quantity: Energy, scale: 1},
			"temperature_gpu":                       {quantity: Temperature, scale: 1},
			"temperature_memory":                    {quantity: MemoryTemp, scale: 1},
			"clocks_current_sm_clock_hz":            {quantity: ClockSM, scale: 1e-6},
			"clocks_max_sm_clock_hz":                {quantity: ClockSMLimit, scale: 1e-6},
			"clocks_current_memory_clock_hz":        {quantity: ClockMemory, scale: 1e-6},
			smiCounters + SWPowerCap + "_seconds":   {quantity: Throttled + SWPowerCap, scale: 1e3},
			smiCounters + SWThermal + "_seconds":    {quantity: Throttled + SWThermal, scale: 1e3},
			smiCounters + HWThermal + "_seconds":    {quantity: Throttled + HWThermal, scale: 1e3},
			smiCounters + HWPowerBrake + "_seconds": {quantity: Throttled + HWPowerBrake, scale: 1e3},
		},
		identify: func(p exposition.Point, r *Reading) {
			// Its uuid is without what nvidia-smi puts before it.
			if r.UUID = label(p, "uuid"); r.UUID != "" && !nvidiaUUID(r.UUID) {
				r.UUID = "GPU-" + r.UUID
			}
		},
		other: func(name string, p exposition.Point, r *Reading) bool {
			switch name {
			case "gpu_info":
				r.Index, r.Name, r.Driver = label(p, "index"), label(p, "name"), label(p, "driver_version")
			case "index":
				r.Index = strconv.Itoa(int(p.Value))
			case "compute_app_info":
				if pid, err := strconv.Atoi(label(p, "pid")); err == nil {
					r.PIDs = append(r.PIDs, pid)
				}
			case "compute_apps":
				r.PIDsKnown = true
			case "clocks_event_reasons_active":
				if p.Value >= 0 && p.Value < 1<<32 {
					r.mask(uint64(p.Value))
				}
			default:
				return false
			}
			return true
		},
	},
	{
		// https://instinct.docs.amd.com/projects/device-metrics-exporter/en/latest/configuration/metricslist.html
		name:     "AMD device metrics exporter",
		prefixes: []string{"amd_gpu_", "gpu_"},
		series: map[string]meaning{
			"gfx_activity":          {quantity: Util, scale: 1},
			"usage":                 {quantity: Util, scale: 1, rank: 1},
			"umc_activity":          {quantity: Bandwidth, scale: 1},
			"used_vram":             {quantity: MemoryUsed, scale: 1e6}, // MB
			"total_vram":            {quantity: MemoryTotal, scale: 1e6},
			"free_vram":             {quantity: MemoryFree, scale: 1e6},
			"used_memory":           {quantity: MemoryUsed, scale: 1e6, rank: 1},
			"total_memory":          {quantity: MemoryTotal, scale: 1e6, rank: 1},
			"package_power":         {quantity: Power, scale: 1},
			"average_package_power": {quantity: Power, scale: 1, rank: 1},
			"power_usage":           {quantity: Power, scale: 1, rank: 2},
			"energy_consumed":       {quantity: Energy, scale: 1e-6}, // uJ
			"junction_temperature":  {quantity: Temperature, scale: 1},
			"edge_temperature":      {quantity: Temperature, scale: 1, rank: 1},
			"memory_temperature":    {quantity: MemoryTemp, scale: 1},
		},
		identify: func(p exposition.Point, r *Reading) {
			r.Index = label(p, "gpu_id")
			r.Name = label(p, "card_model", "card_series")
			r.Driver = label(p, "driver_version")
			r.UUID = label(p, "gpu_uuid", "GPU_UUID")
			serial := label(p, "serial_number", "SERIAL_NUMBER")
			if kind := strings.ToUpper(label(p, "gpu_compute_partition_type")); kind != "" && kind != "SPX" && kind != "NONE" && serial != "" {
				// Each partition is a GPU of its own there, on one board.
				r.UUID, r.Part = serial, label(p, "gpu_partition_id")
			}
			if r.UUID == "" {
				r.UUID = serial
			}
		},
		other: func(name string, p exposition.Point, r *Reading) bool {
			if name == "clock" {
				switch kind := strings.ToLower(label(p, "clock_type")); strings.TrimPrefix(kind, "gpu_clock_type_") {
				case "system":
					r.Set(ClockSM, max(r.Values[ClockSM], p.Value))
				case "memory":
					r.Set(ClockMemory, max(r.Values[ClockMemory], p.Value))
				}
				return true
			}
			reason, ok := map[string]string{
				"violation_processor_hot_residency_percentage":  processorHot,
				"violation_socket_thermal_residency_percentage": socketHot,
				"violation_vr_thermal_residency_percentage":     regulatorHot,
				"violation_hbm_thermal_residency_percentage":    memoryHot,
			}[name]
			if ok && p.Value >= 0 && p.Value <= 100 {
				r.Active(reason, p.Value > 0)
			}
			return ok
		},
		blank: amdBlank,
	},
}

const smiCounters = "clocks_event_reasons_counters_"

// dcgmBlank reports whether DCGM means that there is no value: the first four of
// each type's blanks, of which a 64-bit one is no exact float.
func dcgmBlank(v float64) bool {
	return v >= 9223372036854775792 ||
		v >= 0x7ffffff0 && v <= 0x7ffffff3 ||
		v >= 140737488355328 && v <= 140737488355331
}

// amdBlank reports whether AMD means that there is no value: the largest number of
// 32 or 64 bits. That of 16 bits can be real megabytes, see [Quantities].
func amdBlank(v float64) bool { return v == math.MaxUint32 || v == math.MaxUint64 }

func label(p exposition.Point, names ...string) string {
	for _, name := range names {
		for _, l := range p.Labels {
			if l.Name == name && l.Value != "" {
				return l.Value
			}
		}
	}
	return ""
}

// cut takes a dialect's prefix off the name of a series.
func (d *dialect) cut(name string) (string, bool) {
	for _, prefix := range d.prefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest, true
		}
	}
	return "", false
}

// A Page is what an exporter of GPUs exposes.
type Page struct {
	Exporter string
	Readings []Reading
	// Uses are the series that it knows, by name.
	Uses map[string]Use
}

// A Use is what a series is to the readings.
type Use struct {
	Quantity string // "" for what is no plain number, such as which GPU it is
	// Instead says that another series of the page counts for the quantity.
	Instead bool
}

// OfPoints reads the series of an exporter. Which one it is is known by their names;
// it is not ok if it is none.
func OfPoints(points []exposition.Point) (Page, bool) {
	for i := range dialects {
		if page := dialects[i].read(points); len(page.Readings) > 0 {
			return page, true
		}
	}
	return Page{}, false
}

// ParseExporter reads what an exporter of GPUs exposes. whole is as of
// [exposition.Parse].
func ParseExporter(body []byte, whole bool) ([]Reading, error) {
	e, err := exposition.Parse(body, whole)
	if err != nil {
		return nil, err
	}
	page, ok := OfPoints(e.Points)
	if !ok {
		return nil, fmt.Errorf("%w: no series of a known exporter is in it", ErrAnswer)
	}
	for _, l := range e.Unread {
		page.Readings = append(page.Readings, line(l.Number, l.Text))
	}
	return page.Readings, nil
}

// cutGPUs returns the GPUs, by [Reading.Key], that are cut into parts; nil if that
// changes no series of the dialect.
func (d *dialect) cutGPUs(points []exposition.Point) map[string]bool {
	if len(d.whole) == 0 {
		return nil
	}
	cut := make(map[string]bool)
	for _, p := range points {
		if _, ok := d.cut(p.Name); !ok {
			continue
		}
		var r Reading
		if d.identify(p, &r); r.Part != "" {
			cut[r.Key()] = true
		}
	}
	return cut
}

// A gpuID is one GPU, or part of one, of a page.
type gpuID struct{ uuid, index, part string }

func (d *dialect) read(points []exposition.Point) Page {
	page := Page{Exporter: d.name, Uses: make(map[string]Use)}
	found := make(map[gpuID]*Reading)
	ranks := make(map[gpuID]map[string]int)
	var ids []gpuID
	cut := d.cutGPUs(points)
	for _, p := range points {
		name, ok := d.cut(p.Name)
		if !ok || d.blank != nil && d.blank(p.Value) {
			continue
		}
		one := New()
		d.identify(p, &one)
		if one.UUID == "" && one.Index == "" {
			continue // of the machine, not of a GPU
		}
		key := gpuID{one.UUID, "", one.Part}
		if one.UUID == "" {
			key.index = one.Index
		}
		r := found[key]
		if r == nil {
			r = &one
			found[key], ranks[key] = r, make(map[string]int)
			ids = append(ids, key)
		}
		m, ok := d.series[name]
		if cut[one.Key()] && slices.Contains(d.whole, name) {
			page.Uses[p.Name] = Use{m.quantity, true}
			continue
		}
		if d.other(name, p, r) {
			page.Uses[p.Name] = Use{}
		}
		if !ok {
			continue
		}
		page.Uses[p.Name] = Use{Quantity: m.quantity}
		if rank, had := ranks[key][m.quantity]; had && rank <= m.rank {
			continue
		}
		if r.Set(m.quantity, p.Value*m.scale) {
			ranks[key][m.quantity] = m.rank
		}
	}
	for _, key := range ids {
		r := found[key]
		r.complete()
		if len(r.Values) > 0 {
			page.Readings = append(page.Readings, *r)
		}
	}
	slices.SortStableFunc(page.Readings, func(a, b Reading) int { return Order(a.Index) - Order(b.Index) })
	page.settle(d, ranks)
	return page
}

// settle finds the series in whose place others of the page count.
func (p *Page) settle(d *dialect, ranks map[gpuID]map[string]int) {
	best := make(map[string]int)
	for _, of := range ranks {
		for quantity, rank := range of {
			if least, ok := best[quantity]; !ok || rank < least {
				best[quantity] = rank
			}
		}
	}
	for series, use := range p.Uses {
		name, _ := d.cut(series)
		rank, taken := best[use.Quantity]
		if use.Quantity != "" && (!taken || d.series[name].rank > rank) {
			use.Instead = true
			p.Uses[series] = use
		}
	}
}

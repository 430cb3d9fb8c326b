package gpu

import (
	"fmt"
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
	identify func(p exposition.Point, r *reading)
	// other reads series that are no plain number.
	other func(name string, p exposition.Point, r *reading)
	// blank says that a value stands for none; may be nil.
	blank func(float64) bool
}

var dialects = []dialect{
	{
		// Names up to DCGM 4.5 and those since:
		// https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html
		name:     "DCGM exporter",
		prefixes: []string{"DCGM_FI_DEV_", "DCGM_FI_PROF_"},
		series: map[string]meaning{
			"GPU_UTIL":                 {quantity: util, scale: 1},
			"GR_ENGINE_ACTIVE":         {quantity: util, scale: 100, rank: 2}, // what a MIG instance has
			"GR_ENGINE_UTIL_RATIO":     {quantity: util, scale: 100, rank: 2},
			"MEM_COPY_UTIL":            {quantity: bandwidth, scale: 1},
			"DRAM_ACTIVE":              {quantity: bandwidth, scale: 100, rank: 1},
			"DRAM_UTIL_RATIO":          {quantity: bandwidth, scale: 100, rank: 1},
			"FB_USED":                  {quantity: memoryUsed, scale: mib},
			"FB_TOTAL":                 {quantity: memoryTotal, scale: mib},
			"FB_FREE":                  {quantity: memoryFree, scale: mib},
			"FB_RESERVED":              {quantity: memoryReserved, scale: mib},
			"POWER_USAGE":              {quantity: power, scale: 1},
			"BOARD_POWER_WATTS":        {quantity: power, scale: 1},
			"POWER_USAGE_INSTANT":      {quantity: power, scale: 1, rank: 1},
			"BOARD_POWER_RAW_WATTS":    {quantity: power, scale: 1, rank: 1},
			"GPU_TEMP":                 {quantity: temperature, scale: 1},
			"GPU_TEMP_CELSIUS":         {quantity: temperature, scale: 1},
			"MEMORY_TEMP":              {quantity: memoryTemp, scale: 1},
			"MEMORY_TEMP_CELSIUS":      {quantity: memoryTemp, scale: 1},
			"SM_CLOCK":                 {quantity: clockSM, scale: 1},
			"MEM_CLOCK":                {quantity: clockMemory, scale: 1},
			"THERMAL_VIOLATION":        {quantity: throttled + thermal, scale: 1e-6}, // ns
			"BOARD_LIMIT_VIOLATION":    {quantity: throttled + boardLimit, scale: 1e-6},
			"POWER_VIOLATION":          {quantity: throttled + swPowerCap, scale: 1e-6},
			"GPU_ENERGY_JOULES_TOTAL":  {quantity: energy, scale: 1},
			"TOTAL_ENERGY_CONSUMPTION": {quantity: energy, scale: 1e-3, rank: 1}, // mJ
		},
		identify: func(p exposition.Point, r *reading) {
			r.uuid = label(p, "UUID", "uuid")
			r.index = label(p, "gpu")
			r.name = label(p, "modelName")
			r.driver = label(p, "DCGM_FI_DRIVER_VERSION")
			r.part = label(p, "GPU_I_ID")
		},
		other: func(name string, p exposition.Point, r *reading) {
			switch name {
			case "GPU_UTIL_RATIO":
				// A percentage where it is the alias of 4.6, and a ratio since.
				if p.Value > 1 {
					r.set(util, p.Value)
				} else {
					r.set(util, 100*p.Value)
				}
			case "CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS":
				if p.Value >= 0 && p.Value < 1<<32 {
					r.mask(uint64(p.Value))
				}
			}
		},
		blank: dcgmBlank,
	},
	{
		// https://github.com/utkuozdemir/nvidia_gpu_exporter/blob/master/METRICS.md
		name:     "nvidia_gpu_exporter",
		prefixes: []string{"nvidia_smi_"},
		series: map[string]meaning{
			"utilization_gpu_ratio":                 {quantity: util, scale: 100},
			"utilization_memory_ratio":              {quantity: bandwidth, scale: 100},
			"memory_used_bytes":                     {quantity: memoryUsed, scale: 1},
			"memory_total_bytes":                    {quantity: memoryTotal, scale: 1},
			"memory_free_bytes":                     {quantity: memoryFree, scale: 1},
			"memory_reserved_bytes":                 {quantity: memoryReserved, scale: 1},
			"power_draw_watts":                      {quantity: power, scale: 1},
			"power_draw_average_watts":              {quantity: power, scale: 1, rank: 1},
			"power_draw_instant_watts":              {quantity: power, scale: 1, rank: 2},
			"energy_joules_total":                   {quantity: energy, scale: 1},
			"temperature_gpu":                       {quantity: temperature, scale: 1},
			"temperature_memory":                    {quantity: memoryTemp, scale: 1},
			"clocks_current_sm_clock_hz":            {quantity: clockSM, scale: 1e-6},
			"clocks_current_memory_clock_hz":        {quantity: clockMemory, scale: 1e-6},
			smiCounters + swPowerCap + "_seconds":   {quantity: throttled + swPowerCap, scale: 1e3},
			smiCounters + swThermal + "_seconds":    {quantity: throttled + swThermal, scale: 1e3},
			smiCounters + hwThermal + "_seconds":    {quantity: throttled + hwThermal, scale: 1e3},
			smiCounters + hwPowerBrake + "_seconds": {quantity: throttled + hwPowerBrake, scale: 1e3},
		},
		identify: func(p exposition.Point, r *reading) {
			// Its uuid is without what nvidia-smi puts before it.
			if r.uuid = label(p, "uuid"); r.uuid != "" && !nvidiaUUID(r.uuid) {
				r.uuid = "GPU-" + r.uuid
			}
		},
		other: func(name string, p exposition.Point, r *reading) {
			switch name {
			case "gpu_info":
				r.index, r.name, r.driver = label(p, "index"), label(p, "name"), label(p, "driver_version")
			case "index":
				r.index = strconv.Itoa(int(p.Value))
			case "compute_app_info":
				if pid, err := strconv.Atoi(label(p, "pid")); err == nil {
					r.pids = append(r.pids, pid)
				}
			case "compute_apps":
				r.pidsKnown = true
			case "clocks_event_reasons_active":
				if p.Value >= 0 && p.Value < 1<<32 {
					r.mask(uint64(p.Value))
				}
			}
		},
	},
	{
		// https://instinct.docs.amd.com/projects/device-metrics-exporter/en/latest/configuration/metricslist.html
		name:     "AMD device metrics exporter",
		prefixes: []string{"amd_gpu_", "gpu_"},
		series: map[string]meaning{
			"gfx_activity":          {quantity: util, scale: 1},
			"usage":                 {quantity: util, scale: 1, rank: 1},
			"umc_activity":          {quantity: bandwidth, scale: 1},
			"used_vram":             {quantity: memoryUsed, scale: 1e6}, // MB
			"total_vram":            {quantity: memoryTotal, scale: 1e6},
			"free_vram":             {quantity: memoryFree, scale: 1e6},
			"used_memory":           {quantity: memoryUsed, scale: 1e6, rank: 1},
			"total_memory":          {quantity: memoryTotal, scale: 1e6, rank: 1},
			"package_power":         {quantity: power, scale: 1},
			"average_package_power": {quantity: power, scale: 1, rank: 1},
			"power_usage":           {quantity: power, scale: 1, rank: 2},
			"energy_consumed":       {quantity: energy, scale: 1e-6}, // uJ
			"junction_temperature":  {quantity: temperature, scale: 1},
			"edge_temperature":      {quantity: temperature, scale: 1, rank: 1},
			"memory_temperature":    {quantity: memoryTemp, scale: 1},
		},
		identify: func(p exposition.Point, r *reading) {
			r.index = label(p, "gpu_id")
			r.name = label(p, "card_model", "card_series")
			r.driver = label(p, "driver_version")
			r.uuid = label(p, "gpu_uuid", "GPU_UUID")
			serial := label(p, "serial_number", "SERIAL_NUMBER")
			if kind := strings.ToUpper(label(p, "gpu_compute_partition_type")); kind != "" && kind != "SPX" && kind != "NONE" && serial != "" {
				// Each partition is a GPU of its own there, on one board.
				r.uuid, r.part = serial, label(p, "gpu_partition_id")
			}
			if r.uuid == "" {
				r.uuid = serial
			}
		},
		other: func(name string, p exposition.Point, r *reading) {
			if name == "clock" {
				switch kind := strings.ToLower(label(p, "clock_type")); strings.TrimPrefix(kind, "gpu_clock_type_") {
				case "system":
					r.set(clockSM, max(r.values[clockSM], p.Value))
				case "memory":
					r.set(clockMemory, max(r.values[clockMemory], p.Value))
				}
			}
			for series, reason := range map[string]string{
				"violation_processor_hot_residency_percentage":  processorHot,
				"violation_socket_thermal_residency_percentage": socketHot,
				"violation_vr_thermal_residency_percentage":     regulatorHot,
				"violation_hbm_thermal_residency_percentage":    memoryHot,
			} {
				if name == series && p.Value >= 0 && p.Value <= 100 {
					r.active(reason, p.Value > 0)
				}
			}
		},
	},
}

const smiCounters = "clocks_event_reasons_counters_"

// dcgmBlank says whether DCGM means that there is no value: the first four of
// each type's blanks, of which a 64-bit one is no exact float.
func dcgmBlank(v float64) bool {
	return v >= 9223372036854775792 ||
		v >= 0x7ffffff0 && v <= 0x7ffffff3 ||
		v >= 140737488355328 && v <= 140737488355331
}

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

// parseExporter reads what an exporter of GPUs exposes. Which one it is is
// known by the names of its series. whole is as of [exposition.Parse].
func parseExporter(body []byte, whole bool) ([]reading, error) {
	e, err := exposition.Parse(body, whole)
	if err != nil {
		return nil, err
	}
	for i := range dialects {
		if list := dialects[i].read(e.Points); len(list) > 0 {
			return list, nil
		}
	}
	return nil, fmt.Errorf("%w: no series of a known exporter is in it", errAnswer)
}

func (d *dialect) read(points []exposition.Point) []reading {
	type id struct{ uuid, index, part string }
	found := make(map[id]*reading)
	ranks := make(map[id]map[string]int)
	var ids []id
	for _, p := range points {
		name, ok := d.cut(p.Name)
		if !ok || d.blank != nil && d.blank(p.Value) {
			continue
		}
		one := newReading()
		d.identify(p, &one)
		if one.uuid == "" && one.index == "" {
			continue // of the machine, not of a GPU
		}
		key := id{one.uuid, "", one.part}
		if one.uuid == "" {
			key.index = one.index
		}
		r := found[key]
		if r == nil {
			r = &one
			found[key], ranks[key] = r, make(map[string]int)
			ids = append(ids, key)
		}
		d.other(name, p, r)
		m, ok := d.series[name]
		if rank, had := ranks[key][m.quantity]; !ok || had && rank <= m.rank {
			continue
		}
		r.set(m.quantity, p.Value*m.scale)
		ranks[key][m.quantity] = m.rank
	}
	var list []reading
	for _, key := range ids {
		r := found[key]
		r.memory()
		if len(r.values) > 0 {
			list = append(list, *r)
		}
	}
	slices.SortStableFunc(list, func(a, b reading) int { return order(a.index) - order(b.index) })
	return list
}

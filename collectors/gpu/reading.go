package gpu

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The quantities of a reading, which are the names of the samples.
const (
	util           = "utilization"                  // share of time in which any kernel ran
	bandwidth      = "memory_bandwidth_utilization" // share of time in which memory was read or written
	memoryTotal    = "memory_total"
	memoryUsed     = "memory_used"
	memoryFree     = "memory_free"
	memoryReserved = "memory_reserved"
	power          = "power"
	energy         = "energy" // a counter
	temperature    = "temperature"
	memoryTemp     = "memory_temperature"
	clockSM        = "clock_sm"
	clockMemory    = "clock_memory"
	// throttled counts time since the driver was loaded; the reason follows.
	throttled = "throttled_"
)

// quantities says in which unit each is, and what it may be: what lies outside
// is no measurement.
var quantities = map[string]struct {
	unit     string
	min, max float64
}{
	util:           {"percent", 0, 100},
	bandwidth:      {"percent", 0, 100},
	memoryTotal:    {"bytes", 0, 1 << 50},
	memoryUsed:     {"bytes", 0, 1 << 50},
	memoryFree:     {"bytes", 0, 1 << 50},
	memoryReserved: {"bytes", 0, 1 << 50},
	power:          {"W", 0, 1e5},
	energy:         {"J", 0, 1e15},
	temperature:    {"celsius", -100, 300},
	memoryTemp:     {"celsius", -100, 300},
	clockSM:        {"MHz", 0, 1e5},
	clockMemory:    {"MHz", 0, 1e5},

	throttled + swPowerCap:   {"ms", 0, 1e15},
	throttled + swThermal:    {"ms", 0, 1e15},
	throttled + hwThermal:    {"ms", 0, 1e15},
	throttled + hwPowerBrake: {"ms", 0, 1e15},
	throttled + thermal:      {"ms", 0, 1e15},
	throttled + boardLimit:   {"ms", 0, 1e15},
}

// Reasons for which clocks are held down.
const (
	gpuIdle      = "gpu_idle"
	appClocks    = "applications_clocks_setting"
	swPowerCap   = "sw_power_cap"
	syncBoost    = "sync_boost"
	hwSlowdown   = "hw_slowdown" // one of the two below, where the driver says which
	hwThermal    = "hw_thermal_slowdown"
	hwPowerBrake = "hw_power_brake_slowdown"
	swThermal    = "sw_thermal_slowdown"
	display      = "display_clocks_setting"
	thermal      = "thermal"     // where it is not said of which kind
	boardLimit   = "board_limit" // of voltage or current
	processorHot = "processor_hot"
	socketHot    = "socket_thermal"
	regulatorHot = "vr_thermal"
	memoryHot    = "hbm_thermal"
)

// throttles are the reasons that a measurement should not have. That power is
// capped is normal under full load, and that an idle GPU is slow at any time.
var throttles = []string{
	hwThermal, hwPowerBrake, swThermal, hwSlowdown, thermal, boardLimit,
	processorHot, socketHot, regulatorHot, memoryHot,
}

// A reading is what one look says of one GPU, or of a part of one.
type reading struct {
	uuid   string // "" where the source has none
	index  string // as the source numbers it
	name   string
	driver string
	// part is the instance (MIG) or partition (CPX) that this is; "" is the GPU.
	part   string
	values map[string]float64 // by quantity; what is not there was not measured

	reasons      map[string]bool // that are active now
	reasonsKnown bool
	pids         []int // of the processes on it
	pidsKnown    bool
}

func newReading() reading { return reading{values: make(map[string]float64)} }

// set keeps v unless it is no measurement of that quantity.
func (r *reading) set(quantity string, v float64) {
	q, ok := quantities[quantity]
	// Written so that NaN is refused.
	if ok && v >= q.min && v <= q.max {
		r.values[quantity] = v
	}
}

func (r *reading) active(reason string, is bool) {
	r.reasonsKnown = true
	if is {
		if r.reasons == nil {
			r.reasons = make(map[string]bool)
		}
		r.reasons[reason] = true
	}
}

// mask takes NVML's bits of clocks event reasons:
// https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
func (r *reading) mask(bits uint64) {
	for i, reason := range []string{gpuIdle, appClocks, swPowerCap, hwSlowdown, syncBoost, swThermal, hwThermal, hwPowerBrake, display} {
		r.active(reason, bits>>i&1 == 1)
	}
}

// memory completes total and free where the others say what they are. Without
// what the driver reserves, total less used is more than is free.
func (r *reading) memory() {
	total, hasTotal := r.values[memoryTotal]
	used, hasUsed := r.values[memoryUsed]
	free, hasFree := r.values[memoryFree]
	reserved, hasReserved := r.values[memoryReserved]
	switch {
	case !hasTotal && hasUsed && hasFree:
		r.set(memoryTotal, used+free+reserved)
	case !hasFree && hasTotal && hasUsed && hasReserved:
		r.set(memoryFree, max(0, total-used-reserved))
	}
}

// key names a GPU within one answer.
func (r *reading) key() string {
	if r.uuid != "" {
		return r.uuid
	}
	return "#" + r.index
}

// whole makes one reading of each GPU from those of it and of its parts. What is
// said of the GPU itself counts; else memory is summed over the parts, and of
// everything else the highest stands for the GPU: parts repeat what is the
// board's (power), show nothing of it, or are busy each for itself.
func whole(list []reading) []reading {
	var out []reading
	at := make(map[string]int)
	for _, r := range list {
		if r.part == "" {
			at[r.key()] = len(out)
			out = append(out, r)
		}
	}
	told := make(map[string]map[string]float64) // by GPU, from its parts
	for _, r := range list {
		if r.part == "" {
			continue
		}
		i, ok := at[r.key()]
		if !ok {
			i = len(out)
			at[r.key()] = i
			parent := r
			parent.part, parent.values, parent.reasons, parent.pids = "", make(map[string]float64), nil, nil
			out = append(out, parent)
		}
		of := told[r.key()]
		if of == nil {
			of = make(map[string]float64)
			told[r.key()] = of
		}
		for q, v := range r.values {
			if strings.HasPrefix(q, "memory_") && quantities[q].unit == "bytes" {
				of[q] += v
			} else {
				of[q] = max(of[q], v)
			}
		}
		for reason := range r.reasons {
			out[i].active(reason, true)
		}
		out[i].reasonsKnown = out[i].reasonsKnown || r.reasonsKnown
		out[i].pids = append(out[i].pids, r.pids...)
		out[i].pidsKnown = out[i].pidsKnown || r.pidsKnown
	}
	for i, r := range out {
		out[i].values = maps.Clone(r.values)
		for q, v := range told[r.key()] {
			if _, ok := r.values[q]; !ok {
				out[i].set(q, v)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b reading) int { return order(a.index) - order(b.index) })
	return out
}

func order(index string) int {
	n, err := strconv.Atoi(index)
	if err != nil || n < 0 || n > 1<<16 {
		return 1 << 16
	}
	return n
}

// Why a source told nothing.
var (
	errFields = errors.New("this driver does not know a field of the query")
	errNoGPU  = errors.New("there is no GPU")
	errDriver = errors.New("nvidia-smi cannot reach the driver")
	errAnswer = errors.New("the answer is no list of GPUs")
)

// missing says that a cell holds no value.
func missing(cell string) bool {
	switch cell {
	case "", "N/A", "None", "Not Supported", "Unknown Error", "Requested functionality has been deprecated", "Insufficient Permissions":
		return true
	}
	return strings.HasPrefix(cell, "[")
}

func text(cell string) string {
	if missing(cell) {
		return ""
	}
	return cell
}

// number is a decimal number, with or without a unit behind it.
func number(cell string) (float64, bool) {
	cell = strings.TrimSpace(cell)
	if missing(cell) {
		return 0, false
	}
	cell, _, _ = strings.Cut(cell, " ")
	if cell == "" || strings.Trim(cell, "+-.0123456789eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(cell, 64)
	return v, err == nil
}

// nvidiaUUID says whether s is how NVIDIA names a GPU or a part of one.
func nvidiaUUID(s string) bool {
	return strings.HasPrefix(s, "GPU-") || strings.HasPrefix(s, "MIG-")
}

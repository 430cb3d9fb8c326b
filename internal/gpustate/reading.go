// Package gpustate reads what GPUs' own tools and exporters say of them into
// one form: nvidia-smi as CSV and XML, amd-smi, DCGM exporter,
// nvidia_gpu_exporter, AMD's exporter, and plain HTTP wrappers of the first.
// A value that a source does not give is absent, never zero.
package gpustate

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The quantities of a reading, which are the names of the samples.
const (
	Util           = "utilization"                  // share of time in which any kernel ran
	Bandwidth      = "memory_bandwidth_utilization" // share of time in which memory was read or written
	MemoryTotal    = "memory_total"
	MemoryUsed     = "memory_used"
	MemoryFree     = "memory_free"
	MemoryReserved = "memory_reserved"
	Power          = "power"
	PowerLimit     = "power_limit"
	Energy         = "energy" // a counter
	Temperature    = "temperature"
	MemoryTemp     = "memory_temperature"
	ClockSM        = "clock_sm"
	ClockSMLimit   = "clock_sm_limit" // what the card may reach, whatever holds it down now
	ClockMemory    = "clock_memory"
	// Throttled counts time since the driver was loaded; the reason follows.
	Throttled = "throttled_"
)

// Quantities says in which unit each is, and what it may be. A value outside of
// that is unknown. So are the values by which tools say that they have none: 0
// for a power, a temperature, a clock or the size of a memory (no sensor, or a
// partition whose board is another's), and AMD's largest number of 16, 32 or 64
// bits, which lies above every maximum here.
var Quantities = map[string]struct {
	Unit     string
	min, max float64
}{
	Util:           {"percent", 0, 100},
	Bandwidth:      {"percent", 0, 100},
	MemoryTotal:    {"bytes", 1, 1 << 50},
	MemoryUsed:     {"bytes", 0, 1 << 50},
	MemoryFree:     {"bytes", 0, 1 << 50},
	MemoryReserved: {"bytes", 0, 1 << 50},
	Power:          {"W", 1e-3, 1e4},
	PowerLimit:     {"W", 1e-3, 1e4},
	Energy:         {"J", 0, 1e13},
	Temperature:    {"celsius", 1, 300},
	MemoryTemp:     {"celsius", 1, 300},
	ClockSM:        {"MHz", 1, 2e4},
	ClockSMLimit:   {"MHz", 1, 2e4},
	ClockMemory:    {"MHz", 1, 2e4},

	Throttled + SWPowerCap:   {"ms", 0, 1e15},
	Throttled + SWThermal:    {"ms", 0, 1e15},
	Throttled + HWThermal:    {"ms", 0, 1e15},
	Throttled + HWPowerBrake: {"ms", 0, 1e15},
	Throttled + thermal:      {"ms", 0, 1e15},
	Throttled + boardLimit:   {"ms", 0, 1e15},
}

// Reasons for which clocks are held down.
const (
	Idle         = "gpu_idle"
	appClocks    = "applications_clocks_setting"
	SWPowerCap   = "sw_power_cap"
	syncBoost    = "sync_boost"
	HWSlowdown   = "hw_slowdown" // one of the two below, where the driver says which
	HWThermal    = "hw_thermal_slowdown"
	HWPowerBrake = "hw_power_brake_slowdown"
	SWThermal    = "sw_thermal_slowdown"
	display      = "display_clocks_setting"
	thermal      = "thermal"     // where it is not said of which kind
	boardLimit   = "board_limit" // of voltage or current
	processorHot = "processor_hot"
	socketHot    = "socket_thermal"
	regulatorHot = "vr_thermal"
	memoryHot    = "hbm_thermal"
)

// Throttles are the reasons that a measurement should not have. That power is
// capped is normal under full load, and that an idle GPU is slow at any time.
var Throttles = []string{
	HWThermal, HWPowerBrake, SWThermal, HWSlowdown, thermal, boardLimit,
	processorHot, socketHot, regulatorHot, memoryHot,
}

// A Reading is what one look says of one GPU, or of a part of one.
type Reading struct {
	UUID   string // "" if the source has none
	Index  string // as the source numbers it
	Name   string
	Driver string
	// Part is the instance (MIG) or partition (CPX) that this is; "" is the GPU.
	Part   string
	Values map[string]float64 // by quantity; what is not there was not measured

	Reasons      map[string]bool // that are active now
	ReasonsKnown bool
	PIDs         []int // of the processes on it
	PIDsKnown    bool

	// Said is the tool's own text in place of a state: a line that cannot be read,
	// or a cell that says that the GPU is lost. Of such a reading no value counts.
	Said string
	Line int  // of the output in which Said stands, from 1; 0 if it has no lines
	Lost bool // Said says that a GPU is lost: that of UUID or Index, if one is there
}

// New returns a reading that says nothing yet.
func New() Reading { return Reading{Values: make(map[string]float64)} }

// Set keeps v unless it is no measurement of that quantity, and says whether it
// did.
func (r *Reading) Set(quantity string, v float64) bool {
	q, ok := Quantities[quantity]
	// Written so that NaN is refused.
	if !ok || !(v >= q.min && v <= q.max) {
		return false
	}
	r.Values[quantity] = v
	return true
}

// Active reports whether a reason holds the clocks down now.
func (r *Reading) Active(reason string, is bool) {
	r.ReasonsKnown = true
	if is {
		if r.Reasons == nil {
			r.Reasons = make(map[string]bool)
		}
		r.Reasons[reason] = true
	}
}

// mask takes NVML's bits of clocks event reasons:
// https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
func (r *Reading) mask(bits uint64) {
	for i, reason := range []string{Idle, appClocks, SWPowerCap, HWSlowdown, syncBoost, SWThermal, HWThermal, HWPowerBrake, display} {
		r.Active(reason, bits>>i&1 == 1)
	}
}

// complete fills in total and free where the others say what they are. Without
// what the driver reserves, total less used is more than is free.
func (r *Reading) complete() {
	total, hasTotal := r.Values[MemoryTotal]
	used, hasUsed := r.Values[MemoryUsed]
	free, hasFree := r.Values[MemoryFree]
	reserved, hasReserved := r.Values[MemoryReserved]
	switch {
	case !hasTotal && hasUsed && hasFree:
		r.Set(MemoryTotal, used+free+reserved)
	case !hasFree && hasTotal && hasUsed && hasReserved:
		r.Set(MemoryFree, max(0, total-used-reserved))
	}
}

// Key names a GPU within one answer.
func (r *Reading) Key() string {
	if r.UUID != "" {
		return r.UUID
	}
	return "#" + r.Index
}

// Whole makes one reading of each GPU from those of it and of its parts. What is
// said of the GPU itself counts, except how busy it is: that is known of the
// parts alone. Else memory is summed over the parts, and of everything else the
// highest stands for the GPU: parts repeat what is the board's (power), show
// nothing of it, or are busy each for itself. A reading without a state is left out.
func Whole(list []Reading) []Reading {
	list = slices.DeleteFunc(slices.Clone(list), func(r Reading) bool { return r.Said != "" })
	var out []Reading
	at := make(map[string]int)
	for _, r := range list {
		if r.Part == "" {
			at[r.Key()] = len(out)
			out = append(out, r)
		}
	}
	told := make(map[string]map[string]float64) // by GPU, from its parts
	for _, r := range list {
		if r.Part == "" {
			continue
		}
		i, ok := at[r.Key()]
		if !ok {
			i = len(out)
			at[r.Key()] = i
			parent := r
			parent.Part, parent.Values, parent.Reasons, parent.PIDs = "", make(map[string]float64), nil, nil
			out = append(out, parent)
		}
		of := told[r.Key()]
		if of == nil {
			of = make(map[string]float64)
			told[r.Key()] = of
		}
		for q, v := range r.Values {
			if strings.HasPrefix(q, "memory_") && Quantities[q].Unit == "bytes" {
				of[q] += v
			} else {
				of[q] = max(of[q], v)
			}
		}
		for reason := range r.Reasons {
			out[i].Active(reason, true)
		}
		out[i].ReasonsKnown = out[i].ReasonsKnown || r.ReasonsKnown
		out[i].PIDs = append(out[i].PIDs, r.PIDs...)
		out[i].PIDsKnown = out[i].PIDsKnown || r.PIDsKnown
	}
	for i, r := range out {
		out[i].Values = maps.Clone(r.Values)
		for q, v := range told[r.Key()] {
			if _, ok := r.Values[q]; !ok || q == Util || q == Bandwidth {
				out[i].Set(q, v)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Reading) int { return Order(a.Index) - Order(b.Index) })
	return out
}

// Order returns where a source numbers a GPU, and high for what is no number.
func Order(index string) int {
	n, err := strconv.Atoi(index)
	if err != nil || n < 0 || n > 1<<16 {
		return 1 << 16
	}
	return n
}

// Why a source told nothing.
var (
	ErrFields = errors.New("this driver does not know a field of the query")
	ErrNoGPU  = errors.New("there is no GPU")
	ErrDriver = errors.New("nvidia-smi cannot reach the driver")
	ErrAnswer = errors.New("the answer is no list of GPUs")
	ErrRows   = errors.New("no line of the table of GPUs can be read")
)

// missing reports whether a cell holds no value.
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

// number returns a decimal number, with or without a unit behind it.
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

// nvidiaUUID reports whether s is how NVIDIA names a GPU or a part of one.
func nvidiaUUID(s string) bool {
	return strings.HasPrefix(s, "GPU-") || strings.HasPrefix(s, "MIG-")
}

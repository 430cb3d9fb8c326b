package nvsmi

import (
	"errors"
	"strconv"
	"strings"
)

// The name stands last in a query: it is the one field in which a comma would
// not be a surprise, and where a cut line loses nothing that counts.
var (
	coreFields = []string{
		"index", "uuid", "driver_version", "utilization.gpu", "utilization.memory",
		"memory.used", "memory.total", "power.draw", "temperature.gpu", "clocks.sm", "name",
	}
	// throttleFields are the microseconds since the driver was loaded that a
	// limit held the clocks down. Older drivers do not have them.
	throttleFields = []string{
		"clocks_event_reasons_counters.sw_power_cap", "clocks_event_reasons_counters.sw_thermal_slowdown",
		"clocks_event_reasons_counters.hw_thermal_slowdown", "clocks_event_reasons_counters.hw_power_brake_slowdown",
	}
)

// measured says how a field's numbers become samples, and what they may be:
// what lies outside is no measurement.
var measured = map[string]struct {
	unit     string
	scale    float64
	min, max float64
}{
	"utilization.gpu":    {"percent", 1, 0, 100},
	"utilization.memory": {"percent", 1, 0, 100},
	"memory.used":        {"bytes", 1 << 20, 0, 1 << 30}, // MiB
	"memory.total":       {"bytes", 1 << 20, 0, 1 << 30},
	"power.draw":         {"W", 1, 0, 1e5},
	"temperature.gpu":    {"celsius", 1, -100, 300},
	"clocks.sm":          {"MHz", 1, 0, 1e5},
	"clocks_event_reasons_counters.sw_power_cap":            {"us", 1, 0, 1e18},
	"clocks_event_reasons_counters.sw_thermal_slowdown":     {"us", 1, 0, 1e18},
	"clocks_event_reasons_counters.hw_thermal_slowdown":     {"us", 1, 0, 1e18},
	"clocks_event_reasons_counters.hw_power_brake_slowdown": {"us", 1, 0, 1e18},
}

// A gpu is one line of an answer.
type gpu struct {
	index, uuid, driver, name string
	values                    map[string]float64 // by field, in samples' units; what is not there was not measured
}

var (
	errFields = errors.New("this driver does not know a field of the query")
	errNoGPU  = errors.New("there is no GPU")
	errDriver = errors.New("nvidia-smi cannot reach the driver")
	errAnswer = errors.New("the answer is no list of GPUs")
)

// parse reads the CSV of a query for fields, with or without its header and
// units. A cell that says that it has no value ([N/A], [Not Supported], N/A,
// nothing) or holds none is left out, never taken for zero.
func parse(out []byte, fields []string) ([]gpu, error) {
	var gpus []gpu
	for line := range strings.Lines(string(out)) {
		cells := strings.SplitN(strings.TrimSpace(line), ",", len(fields))
		if len(cells) != len(fields) {
			continue
		}
		g := gpu{values: make(map[string]float64)}
		for i, field := range fields {
			cell := strings.TrimSpace(cells[i])
			switch field {
			case "index":
				g.index = cell
			case "uuid":
				g.uuid = cell
			case "driver_version":
				g.driver = text(cell)
			case "name":
				g.name = text(cell)
			default:
				if v, ok := number(cell, field); ok {
					g.values[field] = v
				}
			}
		}
		if _, err := strconv.ParseUint(g.index, 10, 16); err != nil || !strings.HasPrefix(g.uuid, "GPU-") && !strings.HasPrefix(g.uuid, "MIG-") {
			continue // a header, or no row at all
		}
		gpus = append(gpus, g)
	}
	if len(gpus) == 0 {
		return nil, complaint(string(out))
	}
	return gpus, nil
}

// complaint is what nvidia-smi said instead of an answer.
func complaint(out string) error {
	out = strings.ToLower(out)
	switch {
	case strings.Contains(out, "is not a valid field"):
		return errFields
	case strings.Contains(out, "no devices were found"):
		return errNoGPU
	case strings.Contains(out, "couldn't communicate"), strings.Contains(out, "failed to initialize nvml"):
		return errDriver
	default:
		return errAnswer
	}
}

func missing(cell string) bool {
	return cell == "" || cell == "N/A" || strings.HasPrefix(cell, "[")
}

func text(cell string) string {
	if missing(cell) {
		return ""
	}
	return cell
}

func number(cell, field string) (float64, bool) {
	m, ok := measured[field]
	if !ok || missing(cell) {
		return 0, false
	}
	cell, _, _ = strings.Cut(cell, " ") // a unit, where they were not left out
	if strings.ContainsAny(cell, "xXpP_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(cell, 64)
	// Written so that NaN is refused.
	if err != nil || !(v >= m.min && v <= m.max) {
		return 0, false
	}
	return v * m.scale, true
}

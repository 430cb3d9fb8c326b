package gpu

import (
	"strconv"
	"strings"
)

// What is asked of nvidia-smi, the richest question first: an older driver
// refuses the whole query for one field that it does not know. The name stands
// last: it is the one field in which a comma would not be a surprise, and where
// a cut line loses nothing that counts.
var (
	coreFields = []string{
		"index", "uuid", "driver_version", "utilization.gpu", "utilization.memory",
		"memory.used", "memory.total", "power.draw", "temperature.gpu", "clocks.sm", "name",
	}
	questions = [][]string{
		append([]string{
			"clocks_event_reasons_counters.sw_power_cap", "clocks_event_reasons_counters.sw_thermal_slowdown",
			"clocks_event_reasons_counters.hw_thermal_slowdown", "clocks_event_reasons_counters.hw_power_brake_slowdown",
			"clocks_event_reasons.active", "memory.free", "memory.reserved", "temperature.memory", "clocks.mem",
		}, coreFields...),
		append([]string{"clocks_throttle_reasons.active", "memory.free", "temperature.memory", "clocks.mem"}, coreFields...),
		coreFields,
	}
	// streamed are the columns of what a pod's agent streams.
	streamed = []string{
		"timestamp", "index", "uuid", "name", "utilization.gpu", "utilization.memory",
		"memory.used", "memory.total", "power.draw", "temperature.gpu", "clocks.sm", "clocks.mem",
	}
)

// A meaning is what a source's own number is of ours. Of several that a source
// has for one quantity the lowest rank counts.
type meaning struct {
	quantity string
	scale    float64
	rank     int
}

const mib = 1 << 20

// smiFields are the fields of nvidia-smi --query-gpu that are numbers.
var smiFields = map[string]meaning{
	"utilization.gpu":          {quantity: util, scale: 1},
	"utilization.memory":       {quantity: bandwidth, scale: 1},
	"memory.used":              {quantity: memoryUsed, scale: mib},
	"memory.total":             {quantity: memoryTotal, scale: mib},
	"memory.free":              {quantity: memoryFree, scale: mib},
	"memory.reserved":          {quantity: memoryReserved, scale: mib},
	"power.draw":               {quantity: power, scale: 1},
	"power.draw.average":       {quantity: power, scale: 1, rank: 1},
	"power.draw.instant":       {quantity: power, scale: 1, rank: 2},
	"temperature.gpu":          {quantity: temperature, scale: 1},
	"temperature.memory":       {quantity: memoryTemp, scale: 1},
	"clocks.sm":                {quantity: clockSM, scale: 1},
	"clocks.current.sm":        {quantity: clockSM, scale: 1, rank: 1},
	"clocks.mem":               {quantity: clockMemory, scale: 1},
	"clocks.current.memory":    {quantity: clockMemory, scale: 1, rank: 1},
	counters + swPowerCap:      {quantity: throttled + swPowerCap, scale: 1e-3}, // us
	counters + swThermal:       {quantity: throttled + swThermal, scale: 1e-3},
	counters + hwThermal:       {quantity: throttled + hwThermal, scale: 1e-3},
	counters + hwPowerBrake:    {quantity: throttled + hwPowerBrake, scale: 1e-3},
	"total_energy_consumption": {quantity: energy, scale: 1e-3}, // mJ
}

const counters = "clocks_event_reasons_counters."

// A table reads rows of nvidia-smi's fields into readings.
type table struct {
	fields []string
	ranks  map[string]int // of what has been read of the row
}

// row reads one row, and is false where it is none of a GPU.
func (t *table) row(cells []string) (r reading, stamp string, ok bool) {
	r = newReading()
	t.ranks = make(map[string]int)
	for i, field := range t.fields {
		stamp = t.cell(&r, field, strings.TrimSpace(cells[i]), stamp)
	}
	if _, err := strconv.ParseUint(r.index, 10, 16); err != nil && r.index != "" {
		return r, stamp, false
	}
	r.memory()
	return r, stamp, nvidiaUUID(r.uuid)
}

func (t *table) cell(r *reading, field, cell, stamp string) string {
	if old, ok := strings.CutPrefix(field, "clocks_throttle_reasons"); ok {
		field = "clocks_event_reasons" + old
	}
	switch field {
	case "timestamp":
		return cell
	case "index":
		r.index = cell
	case "uuid", "gpu_uuid":
		r.uuid = cell
	case "driver_version":
		r.driver = text(cell)
	case "name", "gpu_name":
		r.name = text(cell)
	case "clocks_event_reasons.active":
		if bits, err := strconv.ParseUint(cell, 0, 64); err == nil && strings.HasPrefix(cell, "0x") {
			r.mask(bits)
		}
	default:
		if reason, ok := strings.CutPrefix(field, "clocks_event_reasons."); ok {
			switch cell {
			case "Active":
				r.active(reason, true)
			case "Not Active":
				r.active(reason, false)
			}
			return stamp
		}
		m, ok := smiFields[field]
		v, isNumber := number(cell)
		if rank, had := t.ranks[m.quantity]; !ok || !isNumber || had && rank <= m.rank {
			return stamp
		}
		r.set(m.quantity, v*m.scale)
		t.ranks[m.quantity] = m.rank
	}
	return stamp
}

// parseCSV reads the CSV of a query for fields, with or without its header and
// units; a header says itself which fields there are. A cell that says that it
// has no value ([N/A], [Not Supported], N/A, nothing) or holds none is left out,
// never taken for zero. whole says that the output's end was not lost: without
// that a last line without its newline counts only where nothing but a name can
// have been cut.
func parseCSV(out []byte, fields []string, whole bool) ([]reading, error) {
	t := table{fields: fields}
	var list []reading
	for line := range strings.Lines(string(out)) {
		if header := headerOf(line); header != nil {
			t.fields = header
			continue
		}
		cells := split(line, t.fields)
		ended := whole || strings.HasSuffix(line, "\n") || t.fields[len(t.fields)-1] == "name"
		if cells == nil || !ended {
			continue
		}
		if r, _, ok := t.row(cells); ok {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil, complaint(string(out))
	}
	return list, nil
}

// split cuts a line into as many cells as there are fields; nil where it has
// fewer. Commas beyond that are part of a name that stands last.
func split(line string, fields []string) []string {
	n := len(fields)
	cells := strings.SplitN(strings.TrimSpace(line), ",", n)
	if len(cells) != n || fields[n-1] != "name" && strings.Contains(cells[n-1], ",") {
		return nil
	}
	return cells
}

// headerOf is the fields that a header names, without their units; nil where the
// line is none.
func headerOf(line string) []string {
	cells := strings.Split(strings.TrimSpace(line), ",")
	known := 0
	for i, cell := range cells {
		cell, _, _ = strings.Cut(strings.TrimSpace(cell), " [")
		cells[i] = cell
		if _, ok := smiFields[cell]; ok || cell == "uuid" || cell == "index" || cell == "name" {
			known++
		}
	}
	if known < 2 {
		return nil
	}
	return cells
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

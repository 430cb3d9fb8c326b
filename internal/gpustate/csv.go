package gpustate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Questions are what is asked of nvidia-smi, the richest question first: an older driver
// refuses the whole query for one field that it does not know. The name stands
// last: it is the one field in which a comma would not be a surprise, and where
// a cut line loses nothing that counts.
var (
	coreFields = []string{
		"index", "uuid", "driver_version", "utilization.gpu", "utilization.memory",
		"memory.used", "memory.total", "power.draw", "temperature.gpu", "clocks.sm", "name",
	}
	Questions = [][]string{
		append([]string{
			"clocks_event_reasons_counters.sw_power_cap", "clocks_event_reasons_counters.sw_thermal_slowdown",
			"clocks_event_reasons_counters.hw_thermal_slowdown", "clocks_event_reasons_counters.hw_power_brake_slowdown",
			"clocks_event_reasons.active", "memory.free", "memory.reserved", "temperature.memory", "clocks.mem",
			"enforced.power.limit", "power.limit", "clocks.max.sm",
		}, coreFields...),
		append([]string{
			"clocks_throttle_reasons.active", "memory.free", "temperature.memory", "clocks.mem",
			"enforced.power.limit", "power.limit", "clocks.max.sm",
		}, coreFields...),
		coreFields,
	}
	// Streamed are the columns of what a pod's agent streams.
	Streamed = []string{
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
	"utilization.gpu":          {quantity: Util, scale: 1},
	"utilization.memory":       {quantity: Bandwidth, scale: 1},
	"memory.used":              {quantity: MemoryUsed, scale: mib},
	"memory.total":             {quantity: MemoryTotal, scale: mib},
	"memory.free":              {quantity: MemoryFree, scale: mib},
	"memory.reserved":          {quantity: MemoryReserved, scale: mib},
	"power.draw":               {quantity: Power, scale: 1},
	"power.draw.average":       {quantity: Power, scale: 1, rank: 1},
	"power.draw.instant":       {quantity: Power, scale: 1, rank: 2},
	"enforced.power.limit":     {quantity: PowerLimit, scale: 1}, // the least of all limits
	"power.limit":              {quantity: PowerLimit, scale: 1, rank: 1},
	"temperature.gpu":          {quantity: Temperature, scale: 1},
	"temperature.memory":       {quantity: MemoryTemp, scale: 1},
	"clocks.sm":                {quantity: ClockSM, scale: 1},
	"clocks.current.sm":        {quantity: ClockSM, scale: 1, rank: 1},
	"clocks.max.sm":            {quantity: ClockSMLimit, scale: 1},
	"clocks.mem":               {quantity: ClockMemory, scale: 1},
	"clocks.current.memory":    {quantity: ClockMemory, scale: 1, rank: 1},
	counters + SWPowerCap:      {quantity: Throttled + SWPowerCap, scale: 1e-3}, // us
	counters + SWThermal:       {quantity: Throttled + SWThermal, scale: 1e-3},
	counters + HWThermal:       {quantity: Throttled + HWThermal, scale: 1e-3},
	counters + HWPowerBrake:    {quantity: Throttled + HWPowerBrake, scale: 1e-3},
	"total_energy_consumption": {quantity: Energy, scale: 1e-3}, // mJ
}

const counters = "clocks_event_reasons_counters."

// A table reads rows of nvidia-smi's fields into readings.
type table struct {
	fields []string
	ranks  map[string]int // of what has been read of the row
}

// row reads one row, and is false if it is none of a GPU. A row without a UUID
// is one if the table has no such column, or if it says that the GPU is lost.
func (t *table) row(cells []string) (r Reading, stamp string, ok bool) {
	r = New()
	t.ranks = make(map[string]int)
	for i, field := range t.fields {
		cell := strings.TrimSpace(cells[i])
		stamp = t.cell(&r, field, cell, stamp)
		if r.Said == "" && lost.MatchString(cell) {
			r.say(0, cell)
		}
	}
	_, err := strconv.ParseUint(r.Index, 10, 16)
	if err != nil && r.Index != "" {
		return r, stamp, false
	}
	r.complete()
	switch {
	case nvidiaUUID(r.UUID):
		return r, stamp, true
	case r.Lost, !slices.Contains(t.fields, "uuid") && !slices.Contains(t.fields, "gpu_uuid"):
		r.UUID = ""
		return r, stamp, err == nil && (r.Lost || len(r.Values) > 0)
	}
	return r, stamp, false
}

func (t *table) cell(r *Reading, field, cell, stamp string) string {
	if old, ok := strings.CutPrefix(field, "clocks_throttle_reasons"); ok {
		field = "clocks_event_reasons" + old
	}
	switch field {
	case "timestamp":
		return cell
	case "index":
		r.Index = cell
	case "uuid", "gpu_uuid":
		r.UUID = cell
	case "driver_version":
		r.Driver = text(cell)
	case "name", "gpu_name":
		r.Name = text(cell)
	case "clocks_event_reasons.active":
		if bits, err := strconv.ParseUint(cell, 0, 64); err == nil && strings.HasPrefix(cell, "0x") {
			r.mask(bits)
		}
	default:
		if reason, ok := strings.CutPrefix(field, "clocks_event_reasons."); ok {
			switch cell {
			case "Active":
				r.Active(reason, true)
			case "Not Active":
				r.Active(reason, false)
			}
			return stamp
		}
		m, ok := smiFields[field]
		v, isNumber := number(cell)
		if rank, had := t.ranks[m.quantity]; !ok || !isNumber || had && rank <= m.rank {
			return stamp
		}
		if r.Set(m.quantity, v*m.scale) {
			t.ranks[m.quantity] = m.rank
		}
	}
	return stamp
}

// ParseCSV reads the CSV of a query for fields, with or without its header and
// units; a header says itself which fields there are. A cell that says that it
// has no value ([N/A], [Not Supported], N/A, nothing) or holds none is left out,
// never taken for zero. A line that cannot be read becomes a reading with [Reading.Said].
// whole says that the output's end was not lost: without that a last line
// without its newline counts only if nothing but a name can have been cut.
func ParseCSV(out []byte, fields []string, whole bool) ([]Reading, error) {
	t := table{fields: fields}
	var list []Reading
	n, headed := 0, false
	for text := range strings.Lines(string(out)) {
		n++
		if header := headerOf(text); header != nil {
			t.fields, headed = header, true
			continue
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		ended := whole || strings.HasSuffix(text, "\n")
		if cells := split(text, t.fields); cells != nil && (ended || t.fields[len(t.fields)-1] == "name") {
			if r, _, ok := t.row(cells); ok {
				if r.Lost {
					r.Line = n
				}
				list = append(list, r)
				continue
			}
		}
		if ended {
			list = append(list, line(n, text))
		}
	}
	if hasState(list) {
		return list, nil
	}
	said := Complaint(string(out))
	if headed && len(list) > 0 && errors.Is(said, ErrAnswer) {
		return nil, fmt.Errorf("%w: line %d is %q", ErrRows, list[0].Line, list[0].Said)
	}
	return nil, said
}

// ParseRow reads one line of [Streamed] columns, with its stamp as it stands
// there. Of another line the reading has [Reading.Said], and ok is false.
func ParseRow(text string) (r Reading, stamp string, ok bool) {
	cells := strings.Split(strings.TrimSpace(text), ",")
	if len(cells) != len(Streamed) {
		return line(0, text), "", false
	}
	t := table{fields: Streamed}
	return t.row(cells)
}

// split cuts a line into as many cells as there are fields; nil if it has
// fewer. Commas beyond that are part of a name that stands last.
func split(line string, fields []string) []string {
	n := len(fields)
	cells := strings.SplitN(strings.TrimSpace(line), ",", n)
	if len(cells) != n || fields[n-1] != "name" && strings.Contains(cells[n-1], ",") {
		return nil
	}
	return cells
}

// headerOf returns the fields that a header names, without their units; nil if the
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

// Complaint returns what nvidia-smi said instead of an answer.
func Complaint(out string) error {
	out = strings.ToLower(out)
	switch {
	case strings.Contains(out, "is not a valid field"):
		return ErrFields
	case strings.Contains(out, "no devices were found"):
		return ErrNoGPU
	case strings.Contains(out, "couldn't communicate"), strings.Contains(out, "failed to initialize nvml"):
		return ErrDriver
	default:
		return ErrAnswer
	}
}

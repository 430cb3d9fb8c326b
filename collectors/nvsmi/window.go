package nvsmi

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/result"
)

// A window sums up what the GPUs of one host did over one trial. It has no
// clock and does no I/O.
type window struct {
	maxGap time.Duration // over which power is not interpolated

	util, power       mean // while the load ran
	utilMax, tempMax  highest
	memoryMax         highest // summed over the GPUs
	energy            float64
	energyKnown       bool
	gaps              int
	lastAt            time.Duration
	lastPower         float64
	lastPowerMeasured bool
	looks             int
	gpus              []gpu
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }

func (m mean) value() any {
	if m.n == 0 {
		return nil
	}
	return m.sum / float64(m.n)
}

type highest struct {
	v    float64
	seen bool
}

func (h *highest) add(v float64) {
	if !h.seen || v > h.v {
		h.v, h.seen = v, true
	}
}

func (h highest) value() any {
	if !h.seen {
		return nil
	}
	return h.v
}

// observe takes one answer into account. Means count only while the load ran;
// the looks before and after it show GPUs at rest.
func (w *window) observe(at time.Duration, gpus []gpu, loaded bool) {
	w.looks++
	w.gpus = gpus
	if util, n := total(gpus, "utilization.gpu"); n > 0 && loaded {
		w.util.add(util / float64(n))
	}
	for _, g := range gpus {
		if v, ok := g.values["utilization.gpu"]; ok && loaded {
			w.utilMax.add(v)
		}
		if v, ok := g.values["temperature.gpu"]; ok {
			w.tempMax.add(v)
		}
	}
	// A sum over some of the GPUs would be taken for one over all.
	if used, n := total(gpus, "memory.used"); n == len(gpus) {
		w.memoryMax.add(used)
	}
	power, n := total(gpus, "power.draw")
	measured := n == len(gpus)
	if measured && loaded {
		w.power.add(power)
	}
	w.integrate(at, power, measured)
}

// begin says that the load begins now: energy counts from here, at first with
// the power of the look before it.
func (w *window) begin(at time.Duration) { w.lastAt = at }

// integrate adds the trapezoid since the last look.
func (w *window) integrate(at time.Duration, power float64, measured bool) {
	if w.looks > 1 {
		if gap := at - w.lastAt; measured && w.lastPowerMeasured && gap <= w.maxGap {
			w.energy += (power + w.lastPower) / 2 * gap.Seconds()
			w.energyKnown = true
		} else {
			w.gaps++
		}
	}
	w.lastAt, w.lastPower, w.lastPowerMeasured = at, power, measured
}

func total(gpus []gpu, field string) (sum float64, n int) {
	for _, g := range gpus {
		if v, ok := g.values[field]; ok {
			sum += v
			n++
		}
	}
	return sum, n
}

// emptyRow has every column that this collector knows, none of them measured.
func emptyRow() result.Row {
	return result.Row{
		"gpu_util_mean": nil, "gpu_util_max": nil, "gpu_memory_used_max_bytes": nil,
		"gpu_power_mean_w": nil, "gpu_energy_j": nil, "gpu_temp_max_c": nil,
		"gpu_uuid": nil, "driver_version": nil,
	}
}

// row is what the window saw. bracketed says that it reaches from before the
// load to behind it: energy over less is not the trial's.
func (w *window) row(bracketed bool) result.Row {
	row := emptyRow()
	row["gpu_util_mean"], row["gpu_util_max"] = w.util.value(), w.utilMax.value()
	row["gpu_power_mean_w"] = w.power.value()
	row["gpu_temp_max_c"] = w.tempMax.value()
	if w.memoryMax.seen {
		row["gpu_memory_used_max_bytes"] = int64(w.memoryMax.v)
	}
	if w.energyKnown && w.gaps == 0 && bracketed {
		row["gpu_energy_j"] = w.energy
	}
	if len(w.gpus) > 0 {
		slices.SortFunc(w.gpus, func(a, b gpu) int { return order(a.index) - order(b.index) })
		uuids := make([]string, len(w.gpus))
		for i, g := range w.gpus {
			uuids[i] = g.uuid
		}
		row["gpu_uuid"] = strings.Join(uuids, ",")
		if driver := w.gpus[0].driver; driver != "" {
			row["driver_version"] = driver
		}
	}
	return row
}

func order(index string) int {
	n, err := strconv.Atoi(index)
	if err != nil {
		return 1 << 16
	}
	return n
}

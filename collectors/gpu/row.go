package gpu

import (
	"math"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// columns that this collector knows.
var columns = []string{
	col.MeanGPUUtil, col.MaxGPUUtil, col.MaxGPUMemoryUsedBytes, col.MeanGPUPowerW, col.GPUEnergyJ, col.MaxGPUTempC,
	col.GPUEnergySource, col.GPUMemoryTotalBytes, col.MinGPUMemoryFreeBytes, col.GPUMemoryIdleBytes, col.GPUUtilIdle,
	col.MeanGPUMemoryBandwidthUtil, col.MeanGPUClockMHz, col.MinGPUPowerLimitW, col.MinGPUClockLimitMHz, col.GPUThrottledMs, col.GPUThrottleReasons,
	col.GPUForeignProcesses, col.GPUUUID, col.DriverVersion,
}

// emptyRow has every column that this collector knows, none of them measured.
func emptyRow() result.Row {
	row := make(result.Row, len(columns))
	for _, c := range columns {
		row[c] = nil
	}
	return row
}

// row returns what the window saw. bracketed says that it reaches from before the
// load to behind it: energy over less is not the trial's.
func (w *window) row(bracketed bool) result.Row {
	row := emptyRow()
	list := w.list()
	if len(list) == 0 {
		return row
	}
	row[col.MeanGPUUtil] = average(list, func(t *track) mean { return t.busy })
	row[col.MeanGPUMemoryBandwidthUtil] = average(list, func(t *track) mean { return t.traffic })
	row[col.MeanGPUClockMHz] = average(list, func(t *track) mean { return t.clock })
	row[col.MinGPUPowerLimitW] = least(list, gpustate.PowerLimit)
	row[col.MinGPUClockLimitMHz] = least(list, gpustate.ClockSMLimit)
	var utilMax, tempMax highest
	for _, t := range list {
		if t.utilMax.seen {
			utilMax.add(t.utilMax.v)
		}
		if t.tempMax.seen {
			tempMax.add(t.tempMax.v)
		}
	}
	row[col.MaxGPUUtil], row[col.MaxGPUTempC] = utilMax.value(), tempMax.value()
	if v, ok := w.sum(func(t *track) (float64, bool) { return t.watts.sum / float64(max(1, t.watts.n)), t.watts.n > 0 }); ok {
		row[col.MeanGPUPowerW] = v
	}
	if w.memoryMax.seen {
		row[col.MaxGPUMemoryUsedBytes] = int64(w.memoryMax.v)
	}
	if w.freeMin.seen {
		row[col.MinGPUMemoryFreeBytes] = int64(-w.freeMin.v)
	}
	if v, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.latest[gpustate.MemoryTotal]; return v, ok }); ok {
		row[col.GPUMemoryTotalBytes] = int64(v)
	}
	if v, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.idle[gpustate.MemoryUsed]; return v, ok }); ok {
		row[col.GPUMemoryIdleBytes] = int64(v)
	}
	if v, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.idle[gpustate.Util]; return v, ok }); ok {
		row[col.GPUUtilIdle] = v / float64(len(list))
	}
	if j, source := w.joules(list); source != "" && bracketed {
		row[col.GPUEnergyJ], row[col.GPUEnergySource] = j, source
	}
	if ms, reasons, ok := w.throttling(); ok {
		row[col.GPUThrottledMs] = ms
		if len(reasons) > 0 {
			row[col.GPUThrottleReasons] = strings.Join(reasons, ",")
		}
	}
	if n, ok := w.processes.foreign(); ok && !w.hidden(list) {
		row[col.GPUForeignProcesses] = int64(n)
	}
	var uuids []string
	for _, t := range list {
		if t.id.UUID != "" {
			uuids = append(uuids, t.id.UUID)
		}
		if row[col.DriverVersion] == nil && t.id.Driver != "" {
			row[col.DriverVersion] = t.id.Driver
		}
	}
	if len(uuids) > 0 {
		row[col.GPUUUID] = strings.Join(uuids, ",")
	}
	if w.broken() {
		withhold(row)
	}
	return row
}

// average returns the mean over the GPUs that were seen under load.
func average(list []*track, of func(*track) mean) any {
	var all mean
	for _, t := range list {
		if m := of(t); m.n > 0 {
			all.add(m.sum / float64(m.n))
		}
	}
	if all.n == 0 {
		return nil
	}
	return all.sum / float64(all.n)
}

// least returns the lowest of a quantity over the GPUs, as each was last seen; null if one of
// them does not say, because that one may have less.
func least(list []*track, quantity string) any {
	low := math.Inf(1)
	for _, t := range list {
		v, ok := t.latest[quantity]
		if !ok {
			return nil
		}
		low = min(low, v)
	}
	return low
}

// energy is summed over the GPUs, with where it is from: integrated as soon as
// one of them has no counter that can be trusted, "" if one has neither.
func (w *window) joules(list []*track) (sum float64, source string) {
	source = "counter"
	for _, t := range list {
		switch {
		case t.counter.trusted():
			sum += t.counter.sum
		case t.integral.between > 0 && t.integral.gaps == 0:
			sum += t.integral.sum
			source = "integrated"
		default:
			return 0, ""
		}
	}
	return sum, source
}

// gaps counts the stretches over which energy is not known.
func (w *window) gaps() (n int) {
	for _, t := range w.list() {
		if !t.counter.trusted() && t.integral.between > 0 {
			n += t.integral.gaps
		}
	}
	return n
}

// throttling returns the time in which something held down the clocks of the GPU that
// had most of it. Counters of different reasons may run at once, so that the
// longest stands for the GPU: it was throttled for at least so long.
func (w *window) throttling() (ms float64, reasons []string, ok bool) {
	found := make(map[string]bool)
	for _, t := range w.list() {
		if len(t.held) > 0 {
			for reason, c := range t.held {
				if c.between == 0 {
					continue
				}
				ok = true
				if c.sum > 0 {
					found[reason] = true
				}
				ms = max(ms, c.sum)
			}
			continue
		}
		if !t.activeKnown {
			continue
		}
		ok = true
		for reason, d := range t.active {
			if slices.Contains(gpustate.Throttles, reason) && d > 0 {
				found[reason] = true
				ms = max(ms, float64(d)/float64(time.Millisecond))
			}
		}
	}
	for _, reason := range gpustate.Throttles {
		// The general one says nothing beside one that says why.
		if found[reason] && !(reason == gpustate.HWSlowdown && (found[gpustate.HWThermal] || found[gpustate.HWPowerBrake])) {
			reasons = append(reasons, reason)
		}
	}
	return ms, reasons, ok
}

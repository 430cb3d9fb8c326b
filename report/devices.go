package report

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// SlowDevice is how many times as long as the median of the others a device may take for its
// fingerprint. It is a convention: over several programs the cards of one name in a cluster
// differ by 8 % on average, and by 22 % at most (Sinha et al., "Not All GPUs Are Created
// Equal", arXiv:2208.11035v3).
const SlowDevice = 1.10

// A fingerprint is what a device took, the medians over its launches, and what its driver
// allows it.
type fingerprint struct {
	device string // gpu_uuid
	took   map[string]float64
	limits map[string]float64 // by column of [limited]; the least that was seen
}

// fingerprinted are the columns, with what they say.
var fingerprinted = []struct{ column, text string }{
	{col.DevicePrefillMs, "for the fixed prompt"},
	{col.DeviceDecodeMs, "for each of the fixed output tokens"},
}

// limited are the columns of what a driver allows a device: one that is allowed less than
// others is slower for it.
var limited = []struct{ column, text, unit string }{
	{col.MinGPUPowerLimitW, "power limit", "W"},
	{col.MinGPUClockLimitMHz, "highest clock", "MHz"},
}

// SlowDevices returns the devices of the run that took longer for their fingerprints than the
// others on which the same server ran: a sentence for each, which begins with the code of the
// finding and ends with the limits that are lower than those of others.
func (r *Run) SlowDevices() []string {
	var lines []string
	servers := map[string][]Trial{} // by deployment
	var order []string
	for _, t := range r.Trials {
		if t.Outcome == nil || t.Outcome.Row[col.GPUUUID] == nil {
			continue
		}
		if servers[t.Cell.Deployment] == nil {
			order = append(order, t.Cell.Deployment)
		}
		servers[t.Cell.Deployment] = append(servers[t.Cell.Deployment], t)
	}
	for _, id := range order {
		devices := fingerprints(servers[id])
		for _, f := range fingerprinted {
			for _, d := range devices {
				own, ok := d.took[f.column]
				others := othersOf(devices, d.device, f.column)
				if !ok || len(others) == 0 {
					continue
				}
				if median := result.Quantile(others, 0.5); own > SlowDevice*median {
					row := servers[id][0].Outcome.Row
					lines = append(lines, fmt.Sprintf("%s: %v %v: %s took %s ms %s, %.2f times the median of %s (%s ms)%s",
						finding.SlowDevice, row[col.Engine], row[col.GPU], d.device, humanize.Figure(own), f.text, own/median, humanize.Plural(len(others), "other device"), humanize.Figure(median), lower(devices, d)))
				}
			}
		}
	}
	return lines
}

// lower says which limits of a device are lower than another's; "" if none is known to be.
func lower(devices []fingerprint, d fingerprint) string {
	var text strings.Builder
	for _, l := range limited {
		most := 0.0
		for _, other := range devices {
			most = max(most, other.limits[l.column])
		}
		if own, known := d.limits[l.column]; known && own < most {
			fmt.Fprintf(&text, "; its %s is %s %s, others have up to %s", l.text, humanize.Figure(own), l.unit, humanize.Figure(most))
		}
	}
	return text.String()
}

// fingerprints returns those of the devices of some trials, in the order of the trials.
func fingerprints(trials []Trial) []fingerprint {
	launches := map[string]map[any]result.Row{} // of each device
	limits := map[string]map[string]float64{}   // of each device
	var order []string
	for _, t := range trials {
		row := t.Outcome.Row
		device, _ := row[col.GPUUUID].(string)
		if row[col.DevicePrefillMs] == nil && row[col.DeviceDecodeMs] == nil {
			continue
		}
		if launches[device] == nil {
			launches[device], limits[device] = map[any]result.Row{}, map[string]float64{}
			order = append(order, device)
		}
		launches[device][row[col.Launch]] = row
		for _, l := range limited {
			before, had := limits[device][l.column]
			if v, ok := row.Number(l.column); ok && (!had || v < before) {
				limits[device][l.column] = v
			}
		}
	}
	all := make([]fingerprint, len(order))
	for i, device := range order {
		all[i] = fingerprint{device, map[string]float64{}, limits[device]}
		for _, f := range fingerprinted {
			var values []float64
			for _, row := range launches[device] {
				if v, ok := row.Number(f.column); ok {
					values = append(values, v)
				}
			}
			if len(values) > 0 {
				slices.Sort(values)
				all[i].took[f.column] = result.Quantile(values, 0.5)
			}
		}
	}
	return all
}

// othersOf returns the figures of all devices but one, sorted.
func othersOf(devices []fingerprint, but, column string) []float64 {
	var values []float64
	for _, d := range devices {
		if v, ok := d.took[column]; ok && d.device != but {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

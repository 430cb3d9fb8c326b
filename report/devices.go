package report

import (
	"fmt"
	"slices"

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

// A fingerprint is what a device took, the medians over its launches.
type fingerprint struct {
	device string // gpu_uuid
	took   map[string]float64
}

// fingerprinted are the columns, with what they say.
var fingerprinted = []struct{ column, text string }{
	{col.DevicePrefillMs, "for the fixed prompt"},
	{col.DeviceDecodeMs, "for each of the fixed output tokens"},
}

// SlowDevices are the devices of the run that took longer for their fingerprints than the
// others on which the same server ran: a sentence for each, which begins with the code of the
// finding.
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
					lines = append(lines, fmt.Sprintf("%s: %v %v: %s took %s ms %s, %.2f times the median of %s (%s ms)",
						finding.SlowDevice, row[col.Engine], row[col.GPU], d.device, humanize.Figure(own), f.text, own/median, humanize.Plural(len(others), "other device"), humanize.Figure(median)))
				}
			}
		}
	}
	return lines
}

// fingerprints are those of the devices of some trials, in the order of the trials.
func fingerprints(trials []Trial) []fingerprint {
	launches := map[string]map[any]result.Row{} // of each device
	var order []string
	for _, t := range trials {
		row := t.Outcome.Row
		device, _ := row[col.GPUUUID].(string)
		if row[col.DevicePrefillMs] == nil && row[col.DeviceDecodeMs] == nil {
			continue
		}
		if launches[device] == nil {
			launches[device] = map[any]result.Row{}
			order = append(order, device)
		}
		launches[device][row[col.Launch]] = row
	}
	all := make([]fingerprint, len(order))
	for i, device := range order {
		all[i] = fingerprint{device, map[string]float64{}}
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

// othersOf are the figures of all devices but one, sorted.
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

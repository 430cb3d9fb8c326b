package calibrate

import "math"

// Clients returns how many clients like the calibrated one take in so many chunks a second, each
// at most [SafeShare] of its ceiling. ok is false if the calibration cannot tell: it was
// disturbed, or the load is beyond what was offered to the client.
func (r *Result) Clients(chunks float64) (n int, ok bool) {
	safe := SafeShare * r.Ceiling.Chunks
	switch {
	case r.Disturbance() != "" || safe <= 0:
		return 0, false
	case chunks <= safe:
		return 1, true
	case r.Ceiling.By == ByOffered:
		return 0, false
	}
	return int(math.Ceil(chunks / safe)), true
}

// MostClients is for how many clients the machine has CPUs, at least one. A client whose
// ceiling is that its CPUs are full needs all that it had; any other needs one.
func (r *Result) MostClients() int {
	each := 1
	if r.Ceiling.By == ByCPU {
		each = max(1, r.ClientCPUs)
	}
	return max(1, r.CPUs/each)
}

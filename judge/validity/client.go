package validity

import (
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

const (
	// A client that uses all of its CPUs queues its own work, and measures the queue: at
	// mostCPU of them queues begin to show in the p99. One event loop is one server of a
	// queue: at mostLoop its mean wait is 2.3 times its own work (M/M/1).
	mostCPU  = 0.85
	mostLoop = 0.70
	// What a client is compared with others by: so late a send, and so long a stall.
	mostLag   = 10 * time.Millisecond
	mostStall = time.Second

	// cpuWindow is the shortest trial, in seconds, whose shares of CPU time are
	// judged. The kernel counts CPU time in steps of up to 10 ms, so that the
	// share of a trial of a few milliseconds may be anything, beyond 1 too.
	cpuWindow = 0.5

	// lagFloor and lagShare bound the lag that a receive time may contain: what
	// is below a millisecond or a twentieth of the median gap is no part of what
	// anybody decides by.
	lagFloor = time.Millisecond
	lagShare = 0.05
	// maxTogether is the share of the chunks that a server may hold back and send
	// with the one before. From there on their gaps of zero are in the p10 of the
	// gaps, and what they add to others in the p90.
	maxTogether = 0.10

	// minStolen is the least that is judged as steal, in seconds of each CPU: of two
	// CPUs 8 of the kernel's ticks, which count whole ones.
	minStolen = 0.04

	// maxOfCeiling is the share of the calibrated ceiling that a load may use.
	// The ceiling is a mean, and loads have bursts.
	maxOfCeiling = 0.70
)

func clientCPU(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	if took, _ := e.Row.Number(col.DurationS); took < cpuWindow || e.Health.CPU <= mostCPU {
		return fine()
	}
	return found(finding.ClientCPU, "the client used %.0f %% of the CPU it may use (bound %.0f %%): give it cores of its own",
		100*e.Health.CPU, 100*mostCPU)
}

func clientLoop(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	if took, _ := e.Row.Number(col.DurationS); took < cpuWindow || e.Health.Loop <= mostLoop {
		return fine()
	}
	return found(finding.ClientLoop, "an event loop of the client was busy for %.0f %% of the time (bound %.0f %%): give it more or faster cores, or lower the load",
		100*e.Health.Loop, 100*mostLoop)
}

func clientCeiling(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	took, _ := e.Row.Number(col.DurationS)
	if e.Ceiling <= 0 || e.Disturbed != "" || took < cpuWindow {
		return fine()
	}
	chunks := 0
	for i := range e.Requests {
		if r := &e.Requests[i]; r.Measured() {
			chunks += len(r.ChunkUS)
		}
	}
	rate := float64(chunks) / took
	if rate <= maxOfCeiling*e.Ceiling {
		return fine()
	}
	return found(finding.ClientCeiling, "%.0f chunks/s arrived, and the client's calibrated ceiling on this machine is %.0f (bound %.0f %% of it): give it more cores, or lower the load",
		rate, e.Ceiling, 100*maxOfCeiling)
}

func (e *Evidence) strictLag() time.Duration { return max(lagFloor, e.ofGap(lagShare)) }

// ofGap returns a share of the median gap between chunks; 0 if there are none.
func (e *Evidence) ofGap(share float64) time.Duration {
	ms, _ := e.Row.Number(col.P50ICLMs)
	return time.Duration(share * ms * float64(time.Millisecond))
}

func cpuSteal(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	steal, ok := e.Row.Number(col.CPUSteal)
	took, _ := e.Row.Number(col.DurationS)
	if !ok || steal*took < minStolen || steal <= b.Steal {
		return fine()
	}
	return found(finding.CPUSteal, "the hypervisor gave %.1f %% of this machine's CPU time to others (bound %.4g %%): measure from a machine that is not shared",
		100*steal, 100*b.Steal)
}

// short returns a duration to three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

package validity

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

const (
	// cpuWindow is the shortest trial, in seconds, whose shares of CPU time are
	// judged. The kernel counts CPU time in steps of up to 10 ms, so that the
	// share of a trial of a few milliseconds may be anything, beyond 1 too.
	cpuWindow = 0.5

	// lagFloor and lagShare bound the lag that a receive time may contain: what
	// is below a millisecond or a twentieth of the median gap is no part of what
	// anybody decides by.
	lagFloor = time.Millisecond
	lagShare = 0.05
	// lateShare bounds a lag that no receive time contains, as a share of the
	// median gap: a read that is later than half of it soon finds two chunks.
	lateShare = 0.5

	// minCoalesced is how many chunks that share a read are more than chance:
	// of a hundred chunks a single one is the whole bound.
	minCoalesced = 5

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

func clientCPU(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	if took, _ := e.Row.Number(col.DurationS); took < cpuWindow || e.Health.CPU <= b.ClientCPU {
		return fine()
	}
	return found(finding.ClientCPU, "the client used %.0f %% of the CPU it may use (bound %.0f %%): give it cores of its own",
		100*e.Health.CPU, 100*b.ClientCPU)
}

func clientLoop(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	if took, _ := e.Row.Number(col.DurationS); took < cpuWindow || e.Health.Loop <= b.Loop {
		return fine()
	}
	return found(finding.ClientLoop, "an event loop of the client was busy for %.0f %% of the time (bound %.0f %%): give it more or faster cores, or lower the load",
		100*e.Health.Loop, 100*b.Loop)
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

// clientLag holds the client's lateness in reading against its bound.
//
// If some of the stamps are this process's own, the lag is in every receive time:
// max(1 ms, 5 % of the median gap). A process without another clock cannot see it,
// so without any kernel stamp the error that the calibration found stands for it,
// unless the calibration was disturbed.
//
// Where the kernel took them, a late read leaves the receive times right. What
// it spoils is the send of a closed loop's next request, and chunks that find
// themselves in one read, which is judged on its own. The bound is therefore
// where these begin: the default of the schedule's lag, or half of the median
// gap. A lag in between is a remark.
//
// It is judged by the lower 99 % confidence limit of its p99, so that one late
// read of twenty does not spoil a trial.
func clientLag(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	lag, how := e.lag()
	bound := lagBound(e, b)
	if how == "" || lag <= bound {
		return fine()
	}
	return found(finding.ClientLag, "%s is %s (bound %s), and %s: give the client cores of its own, or fewer streams",
		how, short(lag), short(bound), e.spoiled())
}

// lag is how late the client was, and by what that is known; "" if by
// nothing.
func (e *Evidence) lag() (time.Duration, string) {
	if n := e.Health.Lag.N(); n > 0 {
		// The normal approximation of the order statistic's rank.
		p := 0.99 - 2.33*math.Sqrt(0.99*0.01/float64(n))
		return e.Health.Lag.Quantile(max(0.5, p)), "the client's p99 lag behind the kernel"
	}
	if ms, ok := e.Row.Number(col.CalibratedErrorMs); ok && e.Disturbed == "" && e.Health.StampKind == result.StampUser {
		return time.Duration(ms * float64(time.Millisecond)), "the client's p99 error by calibration"
	}
	return 0, ""
}

func lagBound(e *Evidence, b bounds.Bounds) time.Duration {
	if b.ClientLag > 0 {
		return b.ClientLag
	}
	if e.Health.StampKind != result.StampKernel {
		return e.strictLag()
	}
	return max(bounds.Defaults().ScheduleLag, e.ofGap(lateShare))
}

func (e *Evidence) strictLag() time.Duration { return max(lagFloor, e.ofGap(lagShare)) }

// ofGap is a share of the median gap between chunks; 0 if there are none.
func (e *Evidence) ofGap(share float64) time.Duration {
	ms, _ := e.Row.Number(col.P50ICLMs)
	return time.Duration(share * ms * float64(time.Millisecond))
}

func (e *Evidence) spoiled() string {
	if e.Health.StampKind == result.StampKernel {
		return "it delays what is sent next and joins chunks in one read"
	}
	return "it is in the receive times"
}

// coalesced holds the share of the chunks with a token that shared a read with
// the one before, and so have its time. Those whose time is thereby off by no
// more than what a lag may be do not count: a server that has several at once to
// say writes them within microseconds.
//
// Whose doing it was shows in the lag, which is that of the last chunk in a read:
// a read that was late by many gaps has joined as many chunks, and shows as late
// by one. Where the late reads may have joined half of those that shared a read,
// the times are wrong by the client's fault, and the bound is the plan's. Where it
// read soon, chunks came together because a server or a proxy
// had held them back: then their times are right, and the bound is where the
// gaps between chunks no longer show tokens.
func coalesced(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	chunks, shared, worst := 0, 0, time.Duration(0)
	var off, streamed time.Duration // sum of the shared chunks' bounds, and of all gaps
	for i := range e.Requests {
		r := &e.Requests[i]
		if !r.Measured() {
			continue
		}
		chunks += r.TokenChunks()
		for _, us := range r.ChunkUS[min(r.FirstTokenChunk+1, len(r.ChunkUS)):] {
			streamed += time.Duration(us) * time.Microsecond
		}
		if r.StampError > e.strictLag() {
			shared += r.Coalesced
			off += time.Duration(r.Coalesced) * r.StampError
			worst = max(worst, r.StampError)
		}
	}
	bound, who := b.Coalesced, "either the client read late or the server or a proxy wrote several at once; measure where kernel stamps are to be had, or use TPOT"
	if n := e.Health.Lag.N(); n > 0 {
		late := lateReads(e.Health.Lag, e.strictLag())
		joined := late // at most
		if gap := float64(streamed) / float64(max(1, chunks)); gap > 0 && shared > 0 {
			joined *= max(1, float64(off)/float64(shared)/gap)
		}
		if 2*joined <= float64(shared) {
			bound = max(bound, maxTogether)
			who = "the client read soon, so the server or a proxy wrote several at once; use TPOT, or look at the engine's stream interval"
		} else {
			who = "the client read late or the server wrote several at once; give the client cores of its own"
		}
		who = fmt.Sprintf("%.0f of %d reads were later than %s: %s", late, n, short(e.strictLag()), who)
	}
	ratio := float64(shared) / float64(max(1, chunks))
	if shared < minCoalesced || ratio <= bound {
		return fine()
	}
	return found(finding.Coalesced, "%d chunks with a token (%.1f %%, bound %.4g %%) were read together with the chunk before and share its time, which may be up to %s late: %s",
		shared, 100*ratio, 100*bound, short(worst), who)
}

// lateReads is how many of the lags are above a bound, to a ten-thousandth of
// them.
func lateReads(lags load.Durations, bound time.Duration) float64 {
	const steps = 10_000
	n := sort.Search(steps+1, func(i int) bool { return lags.Quantile(float64(i)/steps) > bound })
	return math.Round(float64(steps+1-n) / (steps + 1) * float64(lags.N()))
}

func clientStalled(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	if e.Health.MaxGap <= b.Stall {
		return fine()
	}
	return found(finding.ClientStalled, "the client did not run for %s (bound %s): its process was stopped, or other processes took the CPU",
		e.Health.MaxGap.Round(time.Millisecond), b.Stall)
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

// clockStep: kernel stamps are of the wall clock, and are put on the monotonic
// one by an offset that a step makes wrong for a moment. Times that this
// process takes are monotonic from the start.
func clockStep(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	steps := e.Health.ClockSteps
	if len(steps) == 0 || e.Health.StampKind == result.StampUser {
		return fine()
	}
	var parts []string
	for i, s := range steps {
		if i == 3 {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprintf("by %s at %.1f s", s.By, s.At.Seconds()))
	}
	return found(finding.ClockStep, "the wall clock, from which the kernel takes receive times, was set %d times: %s (bound 0): wait until it is synchronized, or stop the program that sets it",
		len(steps), strings.Join(parts, ", "))
}

// short is a duration to three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

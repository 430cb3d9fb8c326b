package validity

import (
	"cmp"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
)

const (
	// idleFloor is the shortest interval without CPU time that counts: a thread
	// may wait that long for a GPU.
	idleFloor = time.Second
	// idleWorks is the mean number of cores that a process uses over the trial if
	// it needs the CPU to serve. One that uses less may serve without any.
	idleWorks = 0.05
	// stolenMost is the share of a machine's CPU time that others may have before
	// its processes count as stopped.
	stolenMost = 0.5
)

// A Process is what the kernel said of one server's processes, at moments of the
// trial's clock.
type Process struct {
	Name string // the role and the replica
	// Stopped are the looks at which one of them was in state T: stopped by a
	// signal.
	Stopped []time.Duration
	Work    []Work // in the order of their times
}

// Work is the CPU time of a server's processes until a moment.
type Work struct{ At, CPU time.Duration }

// A Theft is the share of a machine's CPU time, 0 to 1, that its hypervisor gave
// to others between two moments.
type Theft struct {
	From, To time.Duration
	Share    float64
}

// An interval of the trial.
type interval struct{ from, to time.Duration }

func (i interval) length() time.Duration { return i.to - i.from }

// holds reports whether o lies within i.
func (i interval) holds(o interval) bool { return i.from <= o.from && o.to <= i.to }

// serverStopped looks for an interval in which requests waited and the server's
// process did not run. A silence alone does not count: a server may compute, wait
// for its GPU or swap. A process in state T counts by itself. A process without
// CPU time, and a machine whose CPU others had, count only if no stream got
// anything meanwhile and the client ran.
func serverStopped(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	waited := waits(e.Requests, max(stallFloor, e.ofGap(stallGaps)))
	if len(waited) == 0 {
		return fine()
	}
	for _, p := range e.Server {
		for _, at := range p.Stopped {
			if w, ok := within(waited, interval{at, at}); ok {
				return found(finding.ServerStopped, "at %.1f s the server's process (%s) was stopped (state T), and a request waited for %s: find what stopped it (SIGSTOP, a debugger, a frozen container), and run the cell again",
					at.Seconds(), p.Name, short(w.length()))
			}
		}
	}
	for _, i := range idle(e.Server) {
		if w, ok := e.starved(waited, i); ok {
			return found(finding.ServerStopped, "from %.1f s on the server's processes had no CPU time for %s, and a request waited for %s: they were frozen, or other processes took the CPU; find what else ran there, and run the cell again",
				i.from.Seconds(), short(i.length()), short(w.length()))
		}
	}
	for _, t := range e.Thefts {
		i := interval{t.From, t.To}
		if t.Share < stolenMost {
			continue
		}
		if w, ok := e.starved(waited, i); ok {
			return found(finding.ServerStopped, "from %.1f s on a hypervisor gave %.0f %% of the server's machine to others for %s, and a request waited for %s: measure on a machine that is not shared",
				i.from.Seconds(), 100*t.Share, short(i.length()), short(w.length()))
		}
	}
	return fine()
}

// starved reports whether a request waited through all of i, no request got
// anything in it, and the client ran; it returns the longest such wait.
func (e *Evidence) starved(waited []interval, i interval) (interval, bool) {
	if i.length() < idleFloor || 2*e.Health.MaxGap > i.length() {
		return interval{}, false
	}
	w, ok := within(waited, i)
	if !ok || served(e.Requests, i) {
		return interval{}, false
	}
	return w, true
}

// waits returns the intervals longer than bound in which a request got nothing: from
// its send to its first chunk, between two chunks, and to its end. The longest is
// first.
func waits(requests []result.Request, bound time.Duration) []interval {
	var out []interval
	for i := range requests {
		r := &requests[i]
		if !r.Measured() || r.Sent < 0 {
			continue
		}
		t := r.Sent
		add := func(to time.Duration) {
			if to-t > bound {
				out = append(out, interval{t, to})
			}
			t = max(t, to)
		}
		for _, us := range r.ChunkUS {
			add(t + time.Duration(us)*time.Microsecond)
		}
		add(r.End)
	}
	slices.SortFunc(out, func(a, b interval) int { return cmp.Compare(b.length(), a.length()) })
	return out
}

// within returns the first of the waits that holds i.
func within(waited []interval, i interval) (interval, bool) {
	for _, w := range waited {
		if w.holds(i) {
			return w, true
		}
	}
	return interval{}, false
}

// served reports whether any request got a chunk within i.
func served(requests []result.Request, i interval) bool {
	for n := range requests {
		r := &requests[n]
		if r.Sent < 0 || r.Sent > i.to || r.End < i.from {
			continue
		}
		t := r.Sent
		for _, us := range r.ChunkUS {
			if t += time.Duration(us) * time.Microsecond; t > i.from && t < i.to {
				return true
			}
		}
	}
	return false
}

// idle returns the intervals in which no process of the server had any CPU time; none
// if one of them may serve without.
func idle(processes []Process) []interval {
	var all []interval
	for n, p := range processes {
		if len(p.Work) < 2 {
			return nil
		}
		first, last := p.Work[0], p.Work[len(p.Work)-1]
		if float64(last.CPU-first.CPU) < idleWorks*float64(last.At-first.At) {
			return nil
		}
		var own []interval
		for k := 1; k < len(p.Work); k++ {
			from, to := p.Work[k-1], p.Work[k]
			switch {
			case to.CPU != from.CPU:
			case len(own) > 0 && own[len(own)-1].to == from.At:
				own[len(own)-1].to = to.At
			default:
				own = append(own, interval{from.At, to.At})
			}
		}
		if n == 0 {
			all = own
		} else {
			all = common(all, own)
		}
	}
	return all
}

// common returns the parts of intervals that are in both lists.
func common(a, b []interval) []interval {
	var out []interval
	for _, x := range a {
		for _, y := range b {
			if i := (interval{max(x.from, y.from), min(x.to, y.to)}); i.from < i.to {
				out = append(out, i)
			}
		}
	}
	return out
}

package validity

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
)

const (
	// A silence of all streams is a stall if it is longer than stallFloor and
	// stallGaps times the median gap. An engine's longest steps are prefills, of
	// some tens of milliseconds if they are split, and a step of twenty times the
	// median does not belong to the same load.
	stallFloor = 100 * time.Millisecond
	stallGaps  = 20

	// maxCold is the share of the requests that may wait for a connection.
	// Beyond 5 % the connects are in the p95 of an open loop.
	maxCold = 0.05
)

// serverStalled returns the remark on the longest time in which no stream got a
// chunk. The client must have run in it, so that the silence is not its own.
func serverStalled(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	text, ok := e.stalled()
	if !ok || e.Compiled != "" {
		return fine()
	}
	if _, stopped := serverStopped(e, bounds.Bounds{}); stopped {
		return fine() // that is the reason, and it is reported
	}
	return found(finding.ServerStalled, "%s: the engine or a proxy before it stalled; it may have compiled a kernel, which a rerun on the same server would tell, as it compiles each once; look at its log, and at the p99 of the gaps", text)
}

// compiling returns the reason that the engine compiled a kernel under the load: all streams were
// silent, and its log says why. The silence alone is worth a remark, as a prefill that is not
// split, or a collective that waits, looks the same; and a kernel that was compiled without one
// took nobody's time.
func compiling(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	text, ok := e.stalled()
	if !ok || e.Compiled == "" {
		return fine()
	}
	return found(finding.Compiling, "%s, and the engine's log says that it compiled (%q): warm up at the loads of the plan, so that each size of a batch has its kernels", text, e.Compiled)
}

// stalled describes the longest silence of all streams while the client ran.
func (e *Evidence) stalled() (text string, ok bool) {
	bound := max(stallFloor, e.ofGap(stallGaps))
	at, silent, streams := silence(e.Requests, bound)
	if silent <= bound || 2*e.Health.MaxGap > silent {
		return "", false
	}
	return fmt.Sprintf("at %.1f s no stream got a chunk for %s, with %d in flight (bound %s), while the client ran", at.Seconds(), short(silent), streams, short(bound)), true
}

// silence returns the longest time, above a bound, in which all streams between their
// first and their last chunk waited, and how many there were.
func silence(requests []result.Request, bound time.Duration) (at, longest time.Duration, streams int) {
	type edge struct {
		at           time.Duration
		open, silent int
	}
	var edges []edge
	for i := range requests {
		r := &requests[i]
		if !r.Measured() || r.Sent < 0 || len(r.ChunkUS) < 2 {
			continue
		}
		t := r.Sent
		for n, us := range r.ChunkUS {
			gap := time.Duration(us) * time.Microsecond
			if n > 0 && gap > bound {
				edges = append(edges, edge{at: t, silent: 1}, edge{at: t + gap, silent: -1})
			}
			t += gap
			if n == 0 {
				edges = append(edges, edge{at: t, open: 1})
			}
		}
		edges = append(edges, edge{at: t, open: -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	open, silent := 0, 0
	for i, x := range edges {
		open, silent = open+x.open, silent+x.silent
		if i+1 == len(edges) || open == 0 || open != silent {
			continue
		}
		if d := edges[i+1].at - x.at; d > longest {
			at, longest, streams = x.at, d, open
		}
	}
	return at, longest, streams
}

// coldConnections returns the remark on requests that waited for a connect.
func coldConnections(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	sent, cold := 0, 0
	for i := range e.Requests {
		if r := &e.Requests[i]; r.Measured() && r.Sent >= 0 {
			sent++
			if r.Fresh {
				cold++
			}
		}
	}
	if cold < 2 || float64(cold) <= maxCold*float64(sent) {
		return fine()
	}
	return found(finding.ColdConnections, "%d of %d requests waited until a connection was open (bound %.4g %%): the time to connect is in their schedule lag, and in the latencies of an open loop; raise the server's keep-alive time, or find the proxy that closes connections",
		cold, sent, 100*maxCold)
}

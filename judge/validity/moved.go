package validity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/summary"
)

// anything is the bound of what the client may have moved from which on nothing that it did
// counts.
const anything = 100

// A moved is one cause with how far it may have moved each figure.
type moved struct {
	finding result.Finding
	// of is by how much the truth of a request's latency may lie below and above what was
	// measured; nil is 0.
	of func(r *result.Request, latency string) (below, above time.Duration)
	// rank is the share of the values of a latency that may be anything; nil is 0.
	rank func(latency string) float64
	// below and above are shares by which the truth of a rate may lie below and above it.
	below, above float64
}

// causes returns those that are seen in the trial, of [observed].
func (e *Evidence) causes() []moved {
	var all []moved
	for _, c := range observed {
		if m, ok := c(e); ok {
			all = append(all, m)
		}
	}
	return all
}

// shift adds what causes may have moved, to one side: -1 for the least that the truth can be.
func shift(causes []moved, side int) *summary.Shift {
	s := &summary.Shift{
		Of: func(r *result.Request, latency string) (by time.Duration) {
			for _, c := range causes {
				if c.of == nil {
					continue
				}
				below, above := c.of(r, latency)
				if side < 0 {
					by -= below
				} else {
					by += above
				}
			}
			return by
		},
		Rank: func(latency string) (by float64) {
			for _, c := range causes {
				if c.rank != nil {
					by += float64(side) * min(1, c.rank(latency))
				}
			}
			return max(-1, min(1, by))
		},
	}
	for _, c := range causes {
		if side < 0 {
			s.Rate, s.Good = s.Rate-c.below, s.Good+c.above
		} else {
			s.Rate, s.Good = s.Rate+c.above, s.Good-c.below
		}
	}
	s.Rate, s.Good = max(-1, s.Rate), max(-1, s.Good)
	return s
}

// atEnds returns what errors of the first and the last token's stamps do to the latencies of a
// request: first and last are by how much each may be too late, and late or soon the other
// way too if either is set.
func atEnds(r *result.Request, latency string, first, last time.Duration, either bool) (below, above time.Duration) {
	switch latency {
	case "ttft", "ttfo":
		below = first
	case "e2e":
		below = last
	case "tpot":
		n := time.Duration(max(1, r.CompletionTokens-1))
		below, above = last/n, first/n
	default: // gaps, at both ends
		below, above = max(first, last), max(first, last)
	}
	if either {
		below, above = max(below, above), max(below, above)
	}
	return below, above
}

// lateSends bounds what requests that were sent late did, by how late each was.
//
// In an open loop a request's own lag is in its latencies. It met another batch than it
// would have, so that it may have waited for a step more or less: as many requests as the lags
// are of a step. While requests wait in a queue, each may have waited for the one that was
// latest. What the others of a batch saw is the share of the time in which it lacked one.
//
// In a closed loop each lag is time in which a request is missing: the load was lighter by
// that share.
func lateSends(e *Evidence) (moved, bool) {
	all := slices.Concat(lags(e)...)
	slices.Sort(all)
	if len(all) == 0 || all[len(all)-1] <= 0 {
		return moved{}, false
	}
	var late, busy float64
	var answers []int64
	for i := range e.Requests {
		if r := &e.Requests[i]; r.Measured() && r.Status == result.Completed && r.Sent >= 0 {
			_, _, whole := summary.Latencies(r)
			busy += float64(whole)
			answers = append(answers, int64(whole))
		}
	}
	for _, lag := range all {
		late += max(0, float64(lag))
	}
	if busy <= 0 {
		return moved{}, false
	}
	slices.Sort(answers)
	most, mean, p99 := float64(all[len(all)-1]), late/float64(len(all)), result.Quantile(all, 0.99)
	m := moved{finding: e.lateWords(mean, p99, most)}
	if !e.Open {
		share := min(1, late/(late+busy))
		m.of = func(r *result.Request, latency string) (below, above time.Duration) {
			_, each, whole := summary.Latencies(r)
			of := whole
			if latency == "tpot" || latency == "itl" || latency == "icl" {
				of = max(0, each)
			}
			return 0, time.Duration(share * float64(of))
		}
		m.above = share / max(1e-9, 1-share)
		return m, true
	}
	share := late / busy
	step := float64(e.ofGap(1))
	if step <= 0 {
		step = float64(answers[len(answers)/2])
	}
	met := 0.0
	for _, lag := range all {
		met += min(1, max(0, float64(lag))/step) / float64(len(all))
	}
	queued := time.Duration(0)
	if e.Row.Float(col.MeanRequestsWaiting) >= 0.5 {
		queued = time.Duration(most)
	}
	// Beyond it requests overtake each other, and the load is another.
	lost := p99 > max(e.between(), lateOfAnswer*result.Quantile(answers, 0.5))
	m.of = func(r *result.Request, latency string) (below, above time.Duration) {
		own := max(0, r.Sent-r.Scheduled)
		_, each, whole := summary.Latencies(r)
		switch latency {
		case "ttft", "ttfo":
			return own + queued, queued
		case "e2e":
			more := time.Duration(share * float64(whole))
			return own + queued + more, queued + more
		}
		more := time.Duration(share * float64(max(0, each)))
		return more, more
	}
	m.rank = func(latency string) float64 {
		switch {
		case latency == "ttft" || latency == "ttfo" || latency == "e2e" && !lost:
			return met
		case lost:
			return 1
		}
		return 0
	}
	if length := e.Row.Float(col.PlateauS); length > 0 {
		m.below, m.above = most/1e9/length, most/1e9/length
	}
	return m, true
}

// lateOfAnswer is how late a request may be, as a share of an answer, while what is in
// flight is still the plan's load.
const lateOfAnswer = 0.05

// between returns the median time between two sends that were due, in nanoseconds.
func (e *Evidence) between() float64 {
	var due, gaps []int64
	for i := range e.Requests {
		if r := &e.Requests[i]; r.Measured() && r.Sent >= 0 {
			due = append(due, int64(r.Scheduled))
		}
	}
	slices.Sort(due)
	for i := 1; i < len(due); i++ {
		gaps = append(gaps, due[i]-due[i-1])
	}
	slices.Sort(gaps)
	if len(gaps) == 0 {
		return 0
	}
	return result.Quantile(gaps, 0.5)
}

func (e *Evidence) lateWords(mean, p99, most float64) result.Finding {
	text := fmt.Sprintf("requests were sent late, by %s on average and %s at most (p99 %s)", millis(mean/1e6), millis(most/1e6), millis(p99/1e6))
	if e.Health.MaxGap >= stood && 2*float64(e.Health.MaxGap) >= most {
		return result.Finding{Code: finding.ClientStalled, Text: fmt.Sprintf(
			"the client did not run for %s: its process was stopped, or other processes took the CPU; %s", e.Health.MaxGap.Round(time.Millisecond), text)}
	}
	if e.MaxInFlight > 0 {
		text += fmt.Sprintf(", or max_in_flight %d held them back", e.MaxInFlight)
	}
	return result.Finding{Code: finding.ScheduleLag, Text: text + ": give the client cores of its own, or lower the load"}
}

// stood is how long a client stands still before that, and not a late send, is the cause.
const stood = 100 * time.Millisecond

// lateReads bounds the error of receive times that the kernel did not take: how late the
// client was seen to read, or what its calibration found, or how long it stood still.
func lateReads(e *Evidence) (moved, bool) {
	if e.Health.StampKind == result.StampKernel || e.Health.StampKind == "" {
		return moved{}, false
	}
	by, f := e.Health.MaxGap, result.Finding{Code: finding.ClientStalled, Text: fmt.Sprintf(
		"the client did not run for %s, and took the receive times itself: its process was stopped, or other processes took the CPU", short(e.Health.MaxGap))}
	how := ""
	if e.Health.Lag.N() > 0 {
		by, how = e.Health.Lag.Max(), "the client read up to %s late"
	} else if ms, ok := e.Row.Number(col.CalibratedErrorMs); ok && e.Disturbed == "" {
		if d := time.Duration(ms * float64(time.Millisecond)); d >= by {
			by, how = d, "the client reads up to %s late by calibration (p99)"
		}
	}
	if how != "" {
		f = result.Finding{Code: finding.ClientLag, Text: fmt.Sprintf(how+", and takes the receive times itself: give it cores of its own, or fewer streams", short(by))}
	}
	return moved{finding: f, of: func(r *result.Request, latency string) (below, above time.Duration) {
		if r.Stamp != result.StampUser {
			return 0, 0
		}
		return atEnds(r, latency, by, by, false)
	}}, by > 0
}

// coalesced bounds the error of chunks that shared a read with others, and so have its
// time, by how long the connection may have held them.
//
// The kernel's stamp is that of the last chunk in a read, so it is the first token that is
// late if more came with it, and never the last. Whose doing it was shows in the lag, which
// is that of the last chunk in a read: a read that was late by many gaps has joined as many
// chunks, and shows as late by one. Where the late reads may have joined half of those that
// shared a read, the times are wrong by the client's fault. Where it read soon, a server or
// a proxy had held chunks back: the times are right, and beyond some the gaps no longer
// show tokens.
func coalesced(e *Evidence) (moved, bool) {
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
	if shared == 0 {
		return moved{}, false
	}
	ratio := float64(shared) / float64(max(1, chunks))
	soon, who := false, "either the client read late or the server or a proxy wrote several at once; measure where kernel stamps are to be had"
	if n := e.Health.Lag.N(); n > 0 {
		late := readLate(e.Health.Lag, e.strictLag())
		joined := late // at most
		if gap := float64(streamed) / float64(max(1, chunks)); gap > 0 {
			joined *= max(1, float64(off)/float64(shared)/gap)
		}
		if soon = 2*joined <= float64(shared); soon {
			who = "the client read soon, so the server or a proxy wrote several at once; use TPOT, or look at the engine's stream interval"
		} else {
			who = "the client read late or the server wrote several at once; give the client cores of its own"
		}
		who = fmt.Sprintf("%.0f of %d reads were later than %s: %s", late, n, short(e.strictLag()), who)
	}
	m := moved{finding: result.Finding{Code: finding.Coalesced, Text: fmt.Sprintf(
		"%d chunks with a token (%.1f %%) were read together with the chunk before and share its time, which may be up to %s late: %s", shared, 100*ratio, short(worst), who)}}
	if soon {
		m.rank = func(latency string) float64 {
			if latency == "itl" && ratio > maxTogether {
				return 1
			}
			return 0
		}
		return m, ratio > maxTogether
	}
	m.of = func(r *result.Request, latency string) (below, above time.Duration) {
		switch next := r.FirstTokenChunk + 1; {
		case latency == "itl" || latency == "icl" || r.StampError <= 0:
			return 0, 0
		case r.Stamp == result.StampUser: // of all chunks of a read
			return atEnds(r, latency, r.StampError, r.StampError, false)
		case r.FirstTokenChunk >= 0 && next < len(r.ChunkUS) && r.ChunkUS[next] == 0:
			return atEnds(r, latency, r.StampError, 0, false)
		}
		return 0, 0
	}
	m.rank = func(latency string) float64 {
		if latency == "itl" || latency == "icl" {
			return 2 * ratio // a gap of zero, and the one before
		}
		return 0
	}
	return m, true
}

// readLate returns how many of the lags are above a bound, to a ten-thousandth of them.
func readLate(lags load.Durations, bound time.Duration) float64 {
	const steps = 10_000
	i := sort.Search(steps+1, func(i int) bool { return lags.Quantile(float64(i)/steps) > bound })
	return math.Round(float64(steps+1-i) / (steps + 1) * float64(lags.N()))
}

// closedWithin bounds how long a request takes to fail on a connection that the
// server had closed before: a round trip. A server that dies at work breaks
// connections later.
const closedWithin = 100 * time.Millisecond

// reopened counts the requests that found their connection closed by the server: before
// the send, so that they waited for another, or just after it, so that they failed. What they
// would have got on an open one is not known.
func reopened(e *Evidence) (moved, bool) {
	sent, failed := 0, 0
	for i := range e.Requests {
		r := &e.Requests[i]
		if !r.Measured() || r.Sent < 0 {
			continue
		}
		sent++
		if !r.Fresh && r.ErrorClass == result.ErrReset && r.FirstByte < 0 && r.End-r.Sent <= closedWithin {
			failed++
		}
	}
	n := e.Health.Reopened + failed
	if n < 2 || sent == 0 {
		return moved{}, false
	}
	share := min(1, float64(n)/float64(sent))
	return moved{
		finding: result.Finding{Code: finding.ConnectionsReopened, Text: fmt.Sprintf(
			"%d of %d requests found their connection closed by the server; %d waited for another, %d failed: raise its keep-alive time, or find the proxy that closes them", n, sent, e.Health.Reopened, failed)},
		rank: func(string) float64 { return share }, below: share, above: share,
	}, true
}

// stepSeen is how long a step of the wall clock may go unseen.
const stepSeen = 150 * time.Millisecond

// clockStep: kernel stamps are of the wall clock, and are put on the monotonic one by an
// offset that a step makes wrong until it is seen. Times that this process takes are
// monotonic from the start.
func clockStep(e *Evidence) (moved, bool) {
	steps := e.Health.ClockSteps
	if len(steps) == 0 || e.Health.StampKind == result.StampUser {
		return moved{}, false
	}
	var parts []string
	for i, s := range steps {
		if i == 3 {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprintf("by %s at %.1f s", s.By, s.At.Seconds()))
	}
	at := func(t time.Duration) (by time.Duration) {
		for _, s := range steps {
			if t >= s.At-stepSeen && t <= s.At {
				by += s.By.Abs()
			}
		}
		return by
	}
	return moved{
		finding: result.Finding{Code: finding.ClockStep, Text: fmt.Sprintf("the wall clock, from which the kernel takes receive times, was set %d times: %s: wait until it is synchronized, or stop the program that sets it", len(steps), strings.Join(parts, ", "))},
		of: func(r *result.Request, latency string) (below, above time.Duration) {
			return atEnds(r, latency, at(r.FirstToken), at(r.LastToken), true)
		},
	}, true
}

// clientClock: the requests of several clients are put on one clock by offsets, each known
// to an error, and a clock may drift while the load goes on.
func clientClock(e *Evidence) (moved, bool) {
	shards := living(e.Health.Shards)
	drift := map[int]time.Duration{}
	worst, known := time.Duration(0), time.Duration(0)
	for _, s := range shards {
		if len(e.Health.Shards) > 1 {
			known = max(known, s.OffsetError)
		}
		if d := s.Drift.Abs() - s.DriftError; d > 0 {
			drift[s.Shard], worst = s.Drift.Abs(), max(worst, s.Drift.Abs())
		}
	}
	length := e.Row.Float(col.PlateauS)
	if worst+known <= 0 || length <= 0 {
		return moved{}, false
	}
	share := (2*known + worst).Seconds() / length
	return moved{
		finding: result.Finding{Code: finding.ClientClock, Text: fmt.Sprintf(
			"the clocks of the clients are known to %s, and one changed by %s during the load: wait until they are synchronized, and bring the clients closer", short(known), short(worst))},
		of: func(r *result.Request, latency string) (below, above time.Duration) {
			return atEnds(r, latency, drift[r.Shard], drift[r.Shard], true)
		},
		below: share, above: share,
	}, true
}

// clientSkew: until the last of several clients has begun, the load is not the plan's.
func clientSkew(e *Evidence) (moved, bool) {
	all := living(e.Health.Shards)
	if len(all) < 2 {
		return moved{}, false
	}
	late := func(a, b load.ShardHealth) int { return cmp.Compare(a.Late, b.Late) }
	first, last := slices.MinFunc(all, late), slices.MaxFunc(all, late)
	skew, length := last.Late-first.Late, e.Row.Float(col.PlateauS)
	share := 0.0
	if over := skew.Seconds() - e.Row.Float(col.RampS); length > 0 && over > 0 {
		share = min(1, over/length)
	}
	return moved{
		finding: result.Finding{Code: finding.ClientSkew, Text: fmt.Sprintf(
			"client %d began %s after client %d: give each client a CPU of its own, or look at its machine", last.Shard, short(skew), first.Shard)},
		rank: func(string) float64 { return share }, below: share, above: share,
	}, share > 0
}

// millis returns a time in milliseconds for people.
func millis(v float64) string { return short(time.Duration(v * float64(time.Millisecond))) }
